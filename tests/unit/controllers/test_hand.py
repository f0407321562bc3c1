"""What a person asks of a group with `ops wake` and `ops sleep`, and what the sleeper's rule makes of it."""

from dataclasses import replace
from datetime import datetime

import pytest

from controllers.hand import Hand, in_force
from controllers.sleep_decision import Action, Hours, Seen, SleepMemory, SleepRule, decide, is_over


def at(text: str) -> float:
    """Return the seconds since the epoch of a time in UTC."""
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


NOW = at("2026-06-01T12:00")  # a Monday
AFTER = 1800.0
OPEN = Hours.read("Mon-Fri 11:00-13:00 UTC")
RULE = SleepRule("gpu", count=4, min=0, after_seconds=AFTER, hours=None, workers=4)
AWAKE = Seen(now=NOW, users=(), target=4, workers=4, pods=4)
RELEASED, ENDED = replace(AWAKE, workers=0), replace(AWAKE, workers=0, pods=0)
ASLEEP = replace(ENDED, target=0)
JUST_USED = SleepMemory(NOW - 20, None)
WAITED = SleepMemory(NOW - 20, NOW - AFTER)
RUN = ("run train-7",)
WAKE, SLEEP = Hand(awake=True, at=NOW + 3600), Hand(awake=False, at=NOW - 60)


@pytest.mark.parametrize("hand", [WAKE, SLEEP])
def test_a_request_is_read_as_it_was_written(hand: Hand) -> None:
    assert Hand.read(str(hand)) == hand


def test_a_request_is_written_for_people_too() -> None:
    assert str(WAKE) == "awake until 2026-06-01T13:00:00Z"
    assert str(SLEEP) == "asleep since 2026-06-01T11:59:00Z"


@pytest.mark.parametrize(
    "text",
    [
        *("", "awake", "true", "awake until", "awake until ", "awake until 14:00", "awake 2026-06-01T13:00:00Z"),
        *("asleep since tomorrow", "awake until 2026-06-31T13:00:00Z", "awake until 2026-06-01T13:00:00+02:00"),
        *("asleep until 2026-06-01T13:00:00Z", "Awake until 2026-06-01T13:00:00Z", "awake until NaN"),
    ],
)
def test_another_text_is_no_request(text: str) -> None:
    with pytest.raises(ValueError, match=r"is invalid\. Allowed: "):
        Hand.read(text)


@pytest.mark.parametrize(
    ("hands", "found"),
    [
        ((), None),
        ((SLEEP,), SLEEP),
        ((SLEEP, WAKE), WAKE),
        ((WAKE, replace(WAKE, at=NOW + 7200), SLEEP), replace(WAKE, at=NOW + 7200)),
        ((replace(WAKE, at=NOW), SLEEP), SLEEP),
        ((replace(WAKE, at=NOW),), None),
        ((replace(SLEEP, at=NOW - 600), SLEEP), SLEEP),
    ],
)
def test_of_several_requests_one_to_be_awake_counts_then_the_latest(
    hands: tuple[Hand, ...], found: Hand | None
) -> None:
    assert in_force(hands, NOW) == found


@pytest.mark.parametrize(
    ("rule", "seen", "memory", "action"),
    [
        # Woken by hand: as if it were used, until that moment.
        (RULE, replace(ASLEEP, hand=WAKE), WAITED, Action.WAKE),
        (RULE, replace(AWAKE, hand=WAKE), WAITED, Action.KEEP),
        (RULE, replace(AWAKE, hand=replace(WAKE, at=NOW)), WAITED, Action.RELEASE),
        (RULE, replace(ASLEEP, hand=WAKE, target=None, workers=4), WAITED, Action.KEEP),
        # Put to sleep by hand: without waiting for `after`, workers first, then nodes.
        (RULE, replace(AWAKE, hand=SLEEP), JUST_USED, Action.RELEASE),
        (RULE, replace(AWAKE, hand=SLEEP), SleepMemory(), Action.RELEASE),
        (RULE, replace(RELEASED, hand=SLEEP), JUST_USED, Action.KEEP),
        (RULE, replace(ENDED, hand=SLEEP), JUST_USED, Action.LOWER),
        (RULE, replace(ENDED, hand=SLEEP, target=None), JUST_USED, Action.KEEP),
        (RULE, replace(ASLEEP, hand=SLEEP), JUST_USED, Action.KEEP),
        (replace(RULE, min=2), replace(ASLEEP, target=2, workers=2, pods=2, hand=SLEEP), JUST_USED, Action.KEEP),
        # Within its hours all the same, unless they have begun since.
        (replace(RULE, hours=OPEN), replace(AWAKE, hand=SLEEP), JUST_USED, Action.RELEASE),
        (replace(RULE, hours=OPEN), replace(ASLEEP, hand=SLEEP), JUST_USED, Action.KEEP),
        (
            replace(RULE, hours=OPEN),
            replace(ASLEEP, hand=replace(SLEEP, at=at("2026-06-01T10:59"))),
            WAITED,
            Action.WAKE,
        ),
        # Never against a user, nor against a doubt, which is among the users.
        (RULE, replace(AWAKE, hand=SLEEP, users=RUN), WAITED, Action.KEEP),
        (RULE, replace(RELEASED, hand=SLEEP, users=("cannot be asked: head",)), WAITED, Action.WAKE),
    ],
)
def test_each_request_has_its_action(rule: SleepRule, seen: Seen, memory: SleepMemory, action: Action) -> None:
    assert decide(rule, seen, memory).action is action


def test_reasons_name_the_hand() -> None:
    assert decide(RULE, replace(ASLEEP, hand=WAKE), WAITED).reason == "woken by hand until 13:00 UTC"
    tomorrow = replace(ASLEEP, hand=Hand(awake=True, at=NOW + 86_400))
    assert decide(RULE, tomorrow, WAITED).reason == "woken by hand until 2026-06-02 12:00 UTC"
    assert decide(RULE, replace(AWAKE, hand=SLEEP), JUST_USED).reason == "put to sleep by hand at 11:59 UTC"


def test_group_that_was_woken_by_hand_waits_for_after_again() -> None:
    held = decide(RULE, replace(AWAKE, hand=WAKE), WAITED).memory
    assert held.idle_since is None
    ended = replace(AWAKE, now=NOW + 20)
    found = decide(RULE, ended, held)
    assert (found.action, found.memory.idle_since) == (Action.KEEP, NOW + 20)


@pytest.mark.parametrize(
    ("hours", "since", "now", "began"),
    [
        # The moment of the begin itself belongs to the hours.
        ("Mon-Fri 07:00-19:00 UTC", "2026-06-01T06:59:59", "2026-06-01T06:59:59", False),
        ("Mon-Fri 07:00-19:00 UTC", "2026-06-01T06:59:59", "2026-06-01T07:00:00", True),
        ("Mon-Fri 07:00-19:00 UTC", "2026-06-01T07:00:00", "2026-06-01T18:00:00", False),
        ("Mon-Fri 07:00-19:00 UTC", "2026-06-01T12:00:00", "2026-06-02T06:59:59", False),
        ("Mon-Fri 07:00-19:00 UTC", "2026-06-01T12:00:00", "2026-06-02T07:00:00", True),
        # From Friday afternoon until Monday morning.
        ("Mon-Fri 07:00-19:00 UTC", "2026-06-05T15:00:00", "2026-06-08T06:59:59", False),
        ("Mon-Fri 07:00-19:00 UTC", "2026-06-05T15:00:00", "2026-06-08T07:00:00", True),
        # The zone's clocks: Berlin's are set forward on 29 March.
        ("Sun,Mon 07:00-19:00 Europe/Berlin", "2026-03-28T12:00:00", "2026-03-29T04:59:59", False),
        ("Sun,Mon 07:00-19:00 Europe/Berlin", "2026-03-28T12:00:00", "2026-03-29T05:00:00", True),
        # Once a week, and long ago.
        ("Mon 07:00-19:00 UTC", "2026-06-01T07:00:00", "2026-06-08T06:59:59", False),
        ("Mon 07:00-19:00 UTC", "2026-06-01T07:00:00", "2026-06-08T07:00:00", True),
        ("Mon 07:00-19:00 UTC", "0001-01-01T00:00:00", "2026-06-08T06:00:00", True),
        # A clock that is wrong.
        ("Mon-Fri 07:00-19:00 UTC", "2026-06-05T07:00:00", "2026-06-01T07:00:00", False),
    ],
)
def test_hours_begin_when_the_zones_clocks_show_it(hours: str, since: str, now: str, *, began: bool) -> None:
    assert Hours.read(hours).began(at(since), at(now)) is began


def test_a_request_ends_when_the_group_is_used_when_its_hours_begin_or_at_its_end() -> None:
    in_hours = replace(RULE, hours=OPEN)
    assert not is_over(SLEEP, in_hours, AWAKE)
    assert is_over(SLEEP, RULE, replace(AWAKE, users=RUN))
    assert is_over(SLEEP, in_hours, replace(AWAKE, now=at("2026-06-02T11:00")))
    assert not is_over(SLEEP, RULE, replace(AWAKE, now=at("2027-06-02T11:00")))
    assert not is_over(WAKE, in_hours, replace(AWAKE, users=RUN))
    assert is_over(WAKE, RULE, replace(AWAKE, now=WAKE.at))
