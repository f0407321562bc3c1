"""The sleeper's rule, look by look."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.estimates import creation
from controllers.sleep_decision import (
    GAP_SECONDS,
    WAKE_SECONDS,
    Action,
    Hours,
    Seen,
    SleepDecision,
    SleepMemory,
    SleepRule,
    decide,
)

NOW = 1_760_000_000.0  # a Thursday, 08:53 UTC
AFTER = 1800.0
RULE = SleepRule(group="gpu", count=4, min=0, after_seconds=AFTER, hours=None, workers=4)
AWAKE = Seen(now=NOW, users=(), target=4, workers=4, pods=4)
USED = replace(AWAKE, users=("run train-7",))
IDLE = SleepMemory(seen_at=NOW - 15, idle_since=NOW - AFTER)
ASLEEP = replace(AWAKE, target=0, workers=0, pods=0)


@pytest.mark.parametrize(
    ("seen", "memory", "action"),
    [
        (AWAKE, SleepMemory(), Action.KEEP),
        (AWAKE, SleepMemory(NOW - 15, None), Action.KEEP),
        (AWAKE, SleepMemory(NOW - 15, NOW - AFTER + 1), Action.KEEP),
        (AWAKE, IDLE, Action.RELEASE),
        # Nobody watched for too long, or the clock went back.
        (AWAKE, SleepMemory(NOW - GAP_SECONDS, NOW - AFTER), Action.RELEASE),
        (AWAKE, SleepMemory(NOW - GAP_SECONDS - 1, NOW - AFTER), Action.KEEP),
        (AWAKE, SleepMemory(NOW + 1, NOW - AFTER), Action.KEEP),
        (AWAKE, SleepMemory(None, NOW - AFTER), Action.KEEP),
        (AWAKE, SleepMemory(NOW - 15, NOW + AFTER), Action.KEEP),
        # Workers first, then nodes.
        (replace(AWAKE, target=None), IDLE, Action.RELEASE),
        (replace(AWAKE, workers=1), IDLE, Action.RELEASE),
        (replace(AWAKE, workers=0, pods=1), IDLE, Action.KEEP),
        (replace(AWAKE, workers=0, pods=0), IDLE, Action.LOWER),
        (replace(AWAKE, workers=0, pods=0, target=1), IDLE, Action.LOWER),
        (replace(AWAKE, workers=0, pods=0, target=None), IDLE, Action.KEEP),
        (ASLEEP, IDLE, Action.KEEP),
        # Whoever comes wakes all of it.
        (USED, IDLE, Action.KEEP),
        (replace(USED, target=3), IDLE, Action.WAKE),
        (replace(USED, target=5), IDLE, Action.KEEP),
        (replace(USED, workers=3), IDLE, Action.WAKE),
        (replace(USED, target=None), IDLE, Action.KEEP),
        (replace(USED, target=None, workers=3), IDLE, Action.WAKE),
        (replace(ASLEEP, users=("run train-7",)), SleepMemory(), Action.WAKE),
    ],
)
def test_each_look_has_its_action(seen: Seen, memory: SleepMemory, action: Action) -> None:
    assert decide(RULE, seen, memory).action is action


def test_some_nodes_and_as_many_workers_stay() -> None:
    rule = replace(RULE, min=2)
    assert decide(rule, replace(AWAKE, workers=3), IDLE).action is Action.RELEASE
    assert decide(rule, replace(AWAKE, workers=2, pods=3), IDLE).action is Action.KEEP
    assert decide(rule, replace(AWAKE, workers=2, pods=2), IDLE).action is Action.LOWER
    assert decide(rule, replace(AWAKE, workers=2, pods=2, target=2), IDLE).action is Action.KEEP
    # A group that is below its minimum is nobody's to raise.
    assert decide(rule, replace(AWAKE, workers=0, pods=0, target=1), IDLE).action is Action.KEEP
    fewer = replace(rule, workers=1)
    assert decide(fewer, replace(AWAKE, workers=1, pods=1), IDLE).action is Action.LOWER


def test_a_group_is_awake_in_its_hours() -> None:
    rule = replace(RULE, hours=Hours.read("Thu 08:00-09:00 UTC"))
    assert decide(rule, AWAKE, IDLE) == SleepDecision(Action.KEEP, "within its hours", SleepMemory(NOW, None))
    assert decide(rule, ASLEEP, IDLE).action is Action.WAKE
    later = replace(AWAKE, now=NOW + 600)
    assert decide(rule, later, SleepMemory(NOW + 590, None)).memory == SleepMemory(NOW + 600, NOW + 600)


def test_what_is_remembered_is_when_the_group_was_seen_and_since_when_it_is_idle() -> None:
    assert decide(RULE, USED, IDLE).memory == SleepMemory(NOW, None)
    assert decide(RULE, AWAKE, IDLE).memory == SleepMemory(NOW, IDLE.idle_since)
    assert decide(RULE, AWAKE, SleepMemory()).memory == SleepMemory(NOW, NOW)


def test_reasons_name_the_first_user_and_count_the_others() -> None:
    seen = replace(AWAKE, users=("run a", "run b", "pod c"))
    assert decide(RULE, seen, IDLE).reason == "used by run a and 2 more"


NAMED = replace(RULE, wake=("gpu-b", "gpu-c"))
WANTED = replace(ASLEEP, users=("run train-7",), nodes=0)


def waiting(minutes: float, late: int = 0) -> SleepMemory:
    return SleepMemory(NOW - 15, waiting_since=NOW - 60 * minutes, late=late)


def test_no_ordinary_wake_is_late() -> None:
    assert creation.later(ray=True)[creation.NODES].high * 60 < WAKE_SECONDS == 30 * 60


@pytest.mark.parametrize(
    ("seen", "memory", "since", "stand_ins"),
    [
        # The first look that finds too low a target counts, refused or not.
        (WANTED, SleepMemory(NOW - 15), NOW, ()),
        (WANTED, waiting(29), NOW - 29 * 60, ()),
        (WANTED, waiting(30), NOW, ("gpu-b",)),
        # The target is reached later, the nodes are not.
        (replace(WANTED, target=4, nodes=3), waiting(29), NOW - 29 * 60, ()),
        (replace(WANTED, target=4, nodes=3), waiting(30), NOW, ("gpu-b",)),
        (replace(WANTED, target=4, nodes=3), waiting(29, late=1), NOW - 29 * 60, ("gpu-b",)),
        (replace(WANTED, target=4, nodes=3), waiting(30, late=1), NOW, ("gpu-b", "gpu-c")),
        (replace(WANTED, target=4, nodes=3), waiting(30, late=2), NOW, ("gpu-b", "gpu-c")),
        # The last group stands in with all of its nodes: no further one is needed.
        (replace(WANTED, replaced=True), waiting(90, late=1), NOW - 90 * 60, ("gpu-b",)),
        # It has its nodes. If its workers run on another group's, they keep those.
        (replace(WANTED, target=4, nodes=4), waiting(90, late=1), None, ()),
        # A node that it loses later is not a wake.
        (replace(WANTED, target=4, nodes=3), SleepMemory(NOW - 15), None, ()),
        # Nobody knows how many nodes there are.
        (replace(WANTED, nodes=None), waiting(90), NOW, ("gpu-b",)),
        (replace(WANTED, target=None), SleepMemory(NOW - 15), None, ()),
        # The clock went back.
        (WANTED, waiting(-5), NOW, ()),
        # Nothing wants it any more.
        (replace(ASLEEP, nodes=0), waiting(90, late=1), None, ()),
    ],
)
def test_the_next_group_stands_in_for_one_that_waits_for_its_nodes(
    seen: Seen, memory: SleepMemory, since: float | None, stand_ins: tuple[str, ...]
) -> None:
    found = decide(NAMED, seen, memory)
    assert (found.memory.waiting_since, found.stand_ins) == (since, stand_ins)
    assert found.action is decide(RULE, seen, memory).action, "the decision about the group itself stays"


def test_each_wait_in_vain_is_counted_once_also_without_another_group() -> None:
    memory, told = waiting(0), []
    for minute in range(300):
        found = decide(RULE, replace(WANTED, now=NOW + 60 * minute), memory)
        told += [minute] if found.memory.late > memory.late else []
        memory = found.memory
    assert told == [30]


seens = st.builds(
    Seen,
    now=st.just(NOW),
    users=st.sampled_from([(), ("run a",)]),
    target=st.none() | st.integers(0, 6),
    workers=st.integers(0, 6),
    pods=st.integers(0, 6),
)
times = st.none() | st.floats(NOW - 4000, NOW + 4000)
memories = st.builds(SleepMemory, seen_at=times, idle_since=times)
rules = st.builds(
    SleepRule,
    group=st.just("gpu"),
    count=st.integers(1, 5),
    min=st.integers(0, 4),
    after_seconds=st.sampled_from([600.0, AFTER]),
    hours=st.none() | st.just(Hours.read("Mon-Sun 00:00-24:00 UTC")),
    workers=st.integers(0, 5),
)


@given(rules, seens, memories)
def test_no_node_or_worker_goes_while_used_in_hours_unwatched_or_unknown(
    rule: SleepRule, seen: Seen, memory: SleepMemory
) -> None:
    found = decide(rule, seen, memory)
    assert found.memory.seen_at == seen.now
    if found.action in (Action.RELEASE, Action.LOWER):
        assert not seen.users
        assert rule.hours is None
        assert memory.seen_at is not None
        assert 0 <= seen.now - memory.seen_at <= GAP_SECONDS
        assert memory.idle_since is not None
        assert seen.now - memory.idle_since >= rule.after_seconds
    if found.action is Action.LOWER:
        assert seen.target is not None
        assert seen.target > rule.min
        assert max(seen.pods, seen.workers) <= rule.workers_asleep
    if found.action is Action.WAKE:
        assert seen.users or rule.hours


def at(text: str, zone: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (
            "Mon-Fri 07:00-19:00 Europe/Berlin",
            ["2026-03-27T07:00", "2026-03-30T18:59:59", "2026-10-26T07:00"],
            ["2026-03-27T06:59:59", "2026-03-30T19:00", "2026-03-28T12:00", "2026-03-29T12:00"],
        ),
        (
            "Sat,Sun 09:30-24:00 UTC",
            ["2026-03-28T23:59:59", "2026-03-29T09:30"],
            ["2026-03-30T00:00", "2026-03-27T12:00"],
        ),
        ("Fri-Mon 00:00-24:00 UTC", ["2026-03-27T00:00", "2026-03-30T12:00"], ["2026-03-31T00:00", "2026-03-26T12:00"]),
        ("Sun 00:00-03:00 America/Los_Angeles", ["2026-03-08T01:30", "2026-11-01T01:30"], ["2026-03-08T03:00"]),
    ],
)
def test_hours_are_those_of_their_zone_in_summer_and_winter(text: str, inside: list[str], outside: list[str]) -> None:
    hours = Hours.read(text)
    assert [each for each in inside if not hours.contain(at(each, hours.zone))] == []
    assert [each for each in outside if hours.contain(at(each, hours.zone))] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "0 words"),
        ("Mon 08:00-09:00", "2 words"),
        ("Mon 08:00-09:00 UTC x", "4 words"),
        ("Mon 8:00-09:00 UTC", "'8:00'"),
        ("Mon 08:00 UTC", "no range"),
        ("Mon 09:00-08:00 UTC", "does not end after"),
        ("Mon 08:00-08:00 UTC", "does not end after"),
        ("Mon 08:00-24:01 UTC", "'24:01'"),
        ("Mon 08:60-09:00 UTC", "'08:60'"),
        ("Monday 08:00-09:00 UTC", "'Monday'"),
        ("Mon, 08:00-09:00 UTC", "''"),
        ("Mon 08:00-09:00 Berlin", "'Berlin'"),
        ("Mon 08:00-09:00 ../UTC", "'../UTC'"),
    ],
)
def test_unreadable_hours_are_errors_that_say_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"Allowed|Fix") as raised:
        Hours.read(text)
    assert says in str(raised.value)
