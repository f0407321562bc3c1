"""Weeks of a group that may sleep: what users and operators do at random, and what must be so whatever they do.

Weeks are numbered, and a week's number decides all that happens in it: a failure names the week.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from controllers.hand import Hand
from controllers.sleep_decision import Action, Seen, SleepDecision, SleepMemory, SleepRule, decide
from tests.unit.controllers.support.sleep_expectations import broken
from tests.unit.controllers.support.sleep_weeks import draw
from tests.unit.controllers.support.sleeping_group import Decide, live

TOGETHER: Final = 20
"""Weeks of one test: a quarter of them without disturbances."""


@pytest.mark.sampled(1, long=100)
@pytest.mark.parametrize("first", range(0, 100 * TOGETHER, TOGETHER))
def test_users_keep_their_nodes_and_idle_nodes_cost_nothing_in_every_week(first: int) -> None:
    assert not {number: found for number in range(first, first + TOGETHER) if (found := _broken(number, decide))}


def _broken(number: int, decide: Decide) -> dict[str, str]:
    week = draw(number)
    return broken(week, live(week, decide))


def _seeing(change: Callable[[Seen], Seen]) -> Decide:
    """Return the rule that sees a world that is changed in one way."""
    return lambda rule, seen, memory: decide(rule, change(seen), memory)


def _with(change: Callable[[SleepRule], SleepRule]) -> Decide:
    """Return the rule that reads a file that is changed in one way."""
    return lambda rule, seen, memory: decide(change(rule), seen, memory)


def _instead(action: Action, of: Action) -> Decide:
    def decided(rule: SleepRule, seen: Seen, memory: SleepMemory) -> SleepDecision:
        decision = decide(rule, seen, memory)
        return replace(decision, action=action) if decision.action is of else decision

    return decided


def _forgets_the_gap(rule: SleepRule, seen: Seen, memory: SleepMemory) -> SleepDecision:
    return decide(rule, seen, memory if memory.seen_at is None else replace(memory, seen_at=seen.now))


def _trusts_a_wrong_clock(rule: SleepRule, seen: Seen, memory: SleepMemory) -> SleepDecision:
    seen_at = None if memory.seen_at is None else min(memory.seen_at, seen.now)
    return decide(rule, seen, replace(memory, seen_at=seen_at))


def _forgets_that_it_was_used(rule: SleepRule, seen: Seen, memory: SleepMemory) -> SleepDecision:
    decision = decide(rule, seen, memory)
    since = memory.idle_since if decision.memory.idle_since is None else decision.memory.idle_since
    return replace(decision, memory=replace(decision.memory, idle_since=since))


def _counts_from_each_look(rule: SleepRule, seen: Seen, memory: SleepMemory) -> SleepDecision:
    return decide(rule, seen, replace(memory, idle_since=None))


def _by_hand(change: Callable[[Hand, Seen], Hand | None]) -> Decide:
    """Return the rule that hears another request than a person's."""
    return _seeing(lambda seen: replace(seen, hand=change(seen.hand, seen)) if seen.hand else seen)


def _obeys_a_person_before_users(rule: SleepRule, seen: Seen, memory: SleepMemory) -> SleepDecision:
    asleep = seen.hand is not None and not seen.hand.awake
    return decide(rule, replace(seen, users=()) if asleep else seen, memory)


# Rules that are wrong in one way, the expectation that notices each, and a week in which it does.
WRONG: Final[dict[str, tuple[Decide, str, int]]] = {
    "sees no users": (_seeing(lambda seen: replace(seen, users=())), "users_keep_all", 2),
    "sees one kind of users": (
        _seeing(lambda seen: replace(seen, users=tuple(user for user in seen.users if user.startswith("run ")))),
        "users_keep_all",
        2,
    ),
    "ignores hours": (_with(lambda rule: replace(rule, hours=None)), "all_come_back", 2),
    "never wakes": (_instead(Action.KEEP, of=Action.WAKE), "runs_wait_for_the_world_only", 0),
    "wakes nodes but not workers": (
        lambda rule, seen, memory: decide(rule, replace(seen, workers=rule.workers) if seen.users else seen, memory),
        "all_come_back",
        18,
    ),
    "wakes workers but not nodes": (
        lambda rule, seen, memory: decide(rule, replace(seen, target=rule.count) if seen.users else seen, memory),
        "all_come_back",
        0,
    ),
    "lowers nodes under pods": (_seeing(lambda seen: replace(seen, pods=0)), "workers_go_before_nodes", 0),
    "lowers nodes before workers": (_instead(Action.LOWER, of=Action.RELEASE), "workers_go_before_nodes", 0),
    "goes below the least": (_with(lambda rule: replace(rule, min=0)), "each_action_has_an_object", 3),
    "guesses an unknown target": (
        lambda rule, seen, memory: decide(
            rule, replace(seen, target=rule.count) if seen.target is None else seen, memory
        ),
        "each_action_has_an_object",
        5,
    ),
    "sleeps a look too late": (
        _with(lambda rule: replace(rule, after_seconds=rule.after_seconds + 30)),
        "idle_groups_sleep_in_time",
        0,
    ),
    "never sleeps": (_instead(Action.KEEP, of=Action.RELEASE), "idle_groups_sleep_in_time", 0),
    "never lowers nodes": (_instead(Action.KEEP, of=Action.LOWER), "nodes_cost_the_least", 0),
    "counts from each look": (_counts_from_each_look, "idle_groups_sleep_in_time", 0),
    "sleeps a look too early": (
        _with(lambda rule: replace(rule, after_seconds=rule.after_seconds - 30)),
        "idle_time_was_watched",
        0,
    ),
    "forgets the gap": (_forgets_the_gap, "idle_time_was_watched", 6),
    "trusts a wrong clock": (_trusts_a_wrong_clock, "idle_time_was_watched", 17),
    "hears no request to be awake": (
        _by_hand(lambda hand, _: None if hand.awake else hand),
        "all_come_back",
        9,
    ),
    "hears no request to sleep": (
        _by_hand(lambda hand, _: hand if hand.awake else None),
        "idle_groups_sleep_in_time",
        4,
    ),
    "stays awake by hand for ever": (
        _by_hand(lambda hand, seen: replace(hand, at=seen.now + 1) if hand.awake else hand),
        "idle_groups_sleep_in_time",
        9,
    ),
    "sleeps by hand into the next hours": (
        _by_hand(lambda hand, seen: hand if hand.awake else replace(hand, at=seen.now)),
        "all_come_back",
        29,
    ),
    "obeys a person before users": (_obeys_a_person_before_users, "users_keep_all", 4),
    "forgets that it was used": (_forgets_that_it_was_used, "idle_time_was_watched", 0),
}


@pytest.mark.parametrize(("wrong", "expectation", "week"), WRONG.values(), ids=WRONG)
def test_week_notices_a_rule_that(wrong: Decide, expectation: str, week: int) -> None:
    assert not _broken(week, decide)
    assert expectation in _broken(week, wrong)
