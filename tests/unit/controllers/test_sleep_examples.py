"""Examples of hours, and each sentence about the rule that lets groups sleep, on single decisions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import product
from typing import Final

import pytest

from controllers import sleep_decision
from controllers.sleep_decision import Action, Hours, Seen, SleepMemory, SleepRule, decide

WORKDAYS: Final = frozenset(range(5))


@pytest.mark.parametrize(
    ("text", "days", "start", "end", "zone"),
    [
        ("Mon-Fri 07:00-19:00 Europe/Berlin", WORKDAYS, 420, 1140, "Europe/Berlin"),
        ("Sat,Sun 09:30-24:00 UTC", {5, 6}, 570, 1440, "UTC"),
        ("Mon-Sun 00:00-24:00 America/Los_Angeles", set(range(7)), 0, 1440, "America/Los_Angeles"),
        ("Mon 00:00-00:01 Asia/Kolkata", {0}, 0, 1, "Asia/Kolkata"),
        ("Tue,Thu 23:59-24:00 America/Argentina/Buenos_Aires", {1, 3}, 1439, 1440, "America/Argentina/Buenos_Aires"),
        ("Wed-Thu 12:00-12:30 Etc/GMT+5", {2, 3}, 720, 750, "Etc/GMT+5"),
    ],
)
def test_hours_are_read(text: str, days: set[int], start: int, end: int, zone: str) -> None:
    assert Hours.read(text) == Hours(frozenset(days), start, end, zone)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "Mon-Fri",
        "Mon-Fri 07:00-19:00",
        "07:00-19:00 UTC",
        "Mon-Fri UTC",
        "Mon-Fri 07:00 UTC",
        "Mon-Fri 07:00-19:00 UTC and on holidays",
        "Mon-Fri 07:00-19:00 20:00-21:00 UTC",
        # Days that are none.
        "Mon-Fry 07:00-19:00 UTC",
        "Montag 07:00-19:00 UTC",
        "0-4 07:00-19:00 UTC",
        "Mon- 07:00-19:00 UTC",
        "-Fri 07:00-19:00 UTC",
        "Mon,,Fri 07:00-19:00 UTC",
        "Mon, 07:00-19:00 UTC",
        ",Mon 07:00-19:00 UTC",
        "Mon-Wed-Fri 07:00-19:00 UTC",
        # Times that are none, or end before they begin.
        "Mon-Fri 19:00-07:00 UTC",
        "Mon-Fri 07:00-07:00 UTC",
        "Mon-Fri 24:00-24:00 UTC",
        "Mon-Fri 07:00-24:01 UTC",
        "Mon-Fri 07:00-25:00 UTC",
        "Mon-Fri 07:60-19:00 UTC",
        "Mon-Fri 07:00-18:60 UTC",
        "Mon-Fri -7:00-19:00 UTC",
        "Mon-Fri 07-19 UTC",
        "Mon-Fri 07.00-19.00 UTC",
        "Mon-Fri 7am-7pm UTC",
        "Mon-Fri 07:00:00-19:00:00 UTC",
        "Mon-Fri \u0660\u0667:00-19:00 UTC",
        # Zones that the tz database does not have, or that leave its folder.
        "Mon-Fri 07:00-19:00 Europe/Nowhere",
        "Mon-Fri 07:00-19:00 Europe",
        "Mon-Fri 07:00-19:00 +02:00",
        "Mon-Fri 07:00-19:00 ../etc/passwd",
        "Mon-Fri 07:00-19:00 /usr/share/zoneinfo/UTC",
        "Mon-Fri 07:00-19:00 zone.tab",
    ],
)
def test_invalid_hours_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Hours.read(text)


# The tz database (files `europe`, `northamerica`, `asia`, `australasia`): the European Union changes its clocks on the
# last Sundays of March and October at 01:00 UTC, the United States on the second Sunday of March and the first of
# November at 02:00 local time, Lord Howe Island on the first Sundays of April and October by half an hour.
CONTAINED: Final = [
    # Begin and end: the first minute belongs to the hours, the last does not.
    ("Mon-Fri 07:00-19:00 UTC", "2026-06-01T06:59:59", False),
    ("Mon-Fri 07:00-19:00 UTC", "2026-06-01T07:00:00", True),
    ("Mon-Fri 07:00-19:00 UTC", "2026-06-05T18:59:59", True),
    ("Mon-Fri 07:00-19:00 UTC", "2026-06-05T19:00:00", False),
    ("Mon-Fri 07:00-19:00 UTC", "2026-06-06T12:00:00", False),
    ("Mon-Fri 07:00-19:00 UTC", "2026-06-07T12:00:00", False),
    ("Tue,Thu 07:00-19:00 UTC", "2026-06-03T12:00:00", False),
    ("Tue,Thu 07:00-19:00 UTC", "2026-06-04T12:00:00", True),
    # Ends of days.
    ("Sat 09:30-24:00 UTC", "2026-06-06T23:59:59", True),
    ("Sat 09:30-24:00 UTC", "2026-06-07T00:00:00", False),
    ("Sat,Sun 00:00-24:00 UTC", "2026-06-07T00:00:00", True),
    ("Sun 00:00-24:00 UTC", "2026-06-06T23:59:59", False),
    ("Sun 00:00-24:00 UTC", "2026-06-08T00:00:00", False),
    ("Wed 23:59-24:00 UTC", "2026-12-31T23:59:00", False),
    ("Thu 23:59-24:00 UTC", "2026-12-31T23:59:00", True),
    # The day is the zone's, not UTC's.
    ("Mon 00:00-01:00 Asia/Tokyo", "2026-05-31T15:00:00", True),
    ("Mon 00:00-01:00 Asia/Tokyo", "2026-06-01T00:30:00", False),
    ("Sun 17:00-24:00 America/Los_Angeles", "2026-06-08T06:59:59", True),
    ("Sun 17:00-24:00 America/Los_Angeles", "2026-06-08T07:00:00", False),
    # Europe/Berlin is one hour ahead of UTC in winter, two in summer.
    ("Mon-Fri 07:00-19:00 Europe/Berlin", "2026-03-27T05:59:59", False),
    ("Mon-Fri 07:00-19:00 Europe/Berlin", "2026-03-27T06:00:00", True),
    ("Mon-Fri 07:00-19:00 Europe/Berlin", "2026-03-30T04:59:59", False),
    ("Mon-Fri 07:00-19:00 Europe/Berlin", "2026-03-30T05:00:00", True),
    ("Mon-Fri 07:00-19:00 Europe/Berlin", "2026-03-30T16:59:59", True),
    ("Mon-Fri 07:00-19:00 Europe/Berlin", "2026-03-30T17:00:00", False),
    ("Mon-Fri 07:00-19:00 Europe/Berlin", "2026-10-23T05:00:00", True),
    ("Mon-Fri 07:00-19:00 Europe/Berlin", "2026-10-26T05:59:59", False),
    ("Mon-Fri 07:00-19:00 Europe/Berlin", "2026-10-26T06:00:00", True),
    ("Mon-Fri 07:00-19:00 Europe/Berlin", "2026-10-26T17:59:59", True),
    ("Mon-Fri 07:00-19:00 Europe/Berlin", "2026-10-26T18:00:00", False),
    # Berlin's night in spring has no time between 02:00 and 03:00.
    ("Sun 01:00-02:30 Europe/Berlin", "2026-03-28T23:59:59", False),
    ("Sun 01:00-02:30 Europe/Berlin", "2026-03-29T00:00:00", True),
    ("Sun 01:00-02:30 Europe/Berlin", "2026-03-29T00:59:59", True),
    ("Sun 01:00-02:30 Europe/Berlin", "2026-03-29T01:00:00", False),
    ("Sun 02:30-04:00 Europe/Berlin", "2026-03-29T00:59:59", False),
    ("Sun 02:30-04:00 Europe/Berlin", "2026-03-29T01:00:00", True),
    ("Sun 02:30-04:00 Europe/Berlin", "2026-03-29T01:59:59", True),
    ("Sun 02:30-04:00 Europe/Berlin", "2026-03-29T02:00:00", False),
    ("Sun 02:00-03:00 Europe/Berlin", "2026-03-29T00:59:59", False),
    ("Sun 02:00-03:00 Europe/Berlin", "2026-03-29T01:00:00", False),
    # Berlin's night in autumn has the times between 02:00 and 03:00 twice.
    ("Sun 02:00-02:30 Europe/Berlin", "2026-10-24T23:59:59", False),
    ("Sun 02:00-02:30 Europe/Berlin", "2026-10-25T00:00:00", True),
    ("Sun 02:00-02:30 Europe/Berlin", "2026-10-25T00:29:59", True),
    ("Sun 02:00-02:30 Europe/Berlin", "2026-10-25T00:30:00", False),
    ("Sun 02:00-02:30 Europe/Berlin", "2026-10-25T01:00:00", True),
    ("Sun 02:00-02:30 Europe/Berlin", "2026-10-25T01:29:59", True),
    ("Sun 02:00-02:30 Europe/Berlin", "2026-10-25T01:30:00", False),
    ("Sun 00:00-24:00 Europe/Berlin", "2026-10-24T22:00:00", True),
    ("Sun 00:00-24:00 Europe/Berlin", "2026-10-25T22:59:59", True),
    ("Sun 00:00-24:00 Europe/Berlin", "2026-10-25T23:00:00", False),
    # America/Los_Angeles is eight hours behind UTC in winter, seven in summer.
    ("Mon-Fri 09:00-17:00 America/Los_Angeles", "2026-03-06T16:59:59", False),
    ("Mon-Fri 09:00-17:00 America/Los_Angeles", "2026-03-06T17:00:00", True),
    ("Mon-Fri 09:00-17:00 America/Los_Angeles", "2026-03-09T15:59:59", False),
    ("Mon-Fri 09:00-17:00 America/Los_Angeles", "2026-03-09T16:00:00", True),
    ("Mon-Fri 09:00-17:00 America/Los_Angeles", "2026-03-10T00:00:00", False),
    ("Mon-Fri 09:00-17:00 America/Los_Angeles", "2026-10-31T00:00:00", False),
    ("Mon-Fri 09:00-17:00 America/Los_Angeles", "2026-11-02T16:59:59", False),
    ("Mon-Fri 09:00-17:00 America/Los_Angeles", "2026-11-02T17:00:00", True),
    ("Mon-Fri 09:00-17:00 America/Los_Angeles", "2026-11-03T00:59:59", True),
    ("Mon-Fri 09:00-17:00 America/Los_Angeles", "2026-11-03T01:00:00", False),
    ("Sun 01:30-03:30 America/Los_Angeles", "2026-03-08T09:29:59", False),
    ("Sun 01:30-03:30 America/Los_Angeles", "2026-03-08T09:30:00", True),
    ("Sun 01:30-03:30 America/Los_Angeles", "2026-03-08T10:29:59", True),
    ("Sun 01:30-03:30 America/Los_Angeles", "2026-03-08T10:30:00", False),
    ("Sun 01:30-02:00 America/Los_Angeles", "2026-11-01T08:30:00", True),
    ("Sun 01:30-02:00 America/Los_Angeles", "2026-11-01T09:00:00", False),
    ("Sun 01:30-02:00 America/Los_Angeles", "2026-11-01T09:30:00", True),
    ("Sun 01:30-02:00 America/Los_Angeles", "2026-11-01T10:00:00", False),
    # Zones whose clocks do not change, on days on which others do.
    ("Mon-Fri 09:00-17:00 America/Phoenix", "2026-03-06T16:00:00", True),
    ("Mon-Fri 09:00-17:00 America/Phoenix", "2026-03-09T15:59:59", False),
    ("Mon-Fri 09:00-17:00 America/Phoenix", "2026-03-09T16:00:00", True),
    ("Mon-Fri 09:00-17:00 Asia/Kolkata", "2026-03-30T03:29:59", False),
    ("Mon-Fri 09:00-17:00 Asia/Kolkata", "2026-03-30T03:30:00", True),
    ("Mon-Fri 09:00-17:00 Asia/Kathmandu", "2026-10-26T03:14:59", False),
    ("Mon-Fri 09:00-17:00 Asia/Kathmandu", "2026-10-26T03:15:00", True),
    # A zone whose clocks change by half an hour: to 10:30 h ahead of UTC in April, to 11 h in October.
    ("Mon-Fri 09:00-17:00 Australia/Lord_Howe", "2026-04-05T22:29:59", False),
    ("Mon-Fri 09:00-17:00 Australia/Lord_Howe", "2026-04-05T22:30:00", True),
    ("Mon-Fri 09:00-17:00 Australia/Lord_Howe", "2026-10-04T21:59:59", False),
    ("Mon-Fri 09:00-17:00 Australia/Lord_Howe", "2026-10-04T22:00:00", True),
    # Without a sign that deceives: POSIX's GMT+5 is behind UTC.
    ("Mon 00:00-12:00 Etc/GMT+5", "2026-06-01T04:59:59", False),
    ("Mon 00:00-12:00 Etc/GMT+5", "2026-06-01T05:00:00", True),
]


@pytest.mark.parametrize(("text", "moment", "contained"), CONTAINED)
def test_hours_contain_what_the_zones_clocks_show(text: str, moment: str, *, contained: bool) -> None:
    assert Hours.read(text).contain(datetime.fromisoformat(f"{moment}+00:00").timestamp()) is contained


NOW: Final = datetime.fromisoformat("2026-06-01T12:00:00+00:00").timestamp()
AFTER: Final = 1800.0
OPEN, CLOSED = Hours.read("Mon 11:00-13:00 UTC"), Hours.read("Mon 13:00-14:00 UTC")
AWAKE: Final = Seen(now=NOW, users=(), target=4, workers=4, pods=4)
RELEASED: Final = replace(AWAKE, workers=0)
ENDED: Final = replace(RELEASED, pods=0)
ASLEEP: Final = replace(ENDED, target=0)
WAITED: Final = SleepMemory(NOW - 20, NOW - AFTER)
RUN: Final = ("run train-7",)
UNKNOWN: Final = ("cannot be asked: head of main",)
KEEP, WAKE, RELEASE, LOWER = Action.KEEP, Action.WAKE, Action.RELEASE, Action.LOWER


def a_rule(least: int = 0, workers: int = 4, hours: Hours | None = None) -> SleepRule:
    return SleepRule("gpu", count=4, min=least, after_seconds=AFTER, hours=hours, workers=workers)


RULE: Final = a_rule()


@dataclass(frozen=True)
class Case:
    """A decision, and since when the group is idle afterwards."""

    said: str
    seen: Seen
    action: Action
    idle_since: float | None
    memory: SleepMemory = WAITED
    rule: SleepRule = RULE


SINCE = NOW - AFTER
CASES: Final = [
    # Time that nobody watched is not idle. Idleness begins now if `memory.seen_at` is None,
    Case("nothing is remembered", AWAKE, KEEP, NOW, SleepMemory()),
    Case("the last look is not remembered", AWAKE, KEEP, NOW, SleepMemory(None, SINCE)),
    # if it is in the future,
    Case("the last look is in the future", AWAKE, KEEP, NOW, SleepMemory(NOW + 1, SINCE)),
    Case("the last look is five minutes in the future", ASLEEP, KEEP, NOW, SleepMemory(NOW + 300, SINCE)),
    Case("the last look is now", AWAKE, RELEASE, SINCE, SleepMemory(NOW, SINCE)),
    # or if it is more than 120 s before now.
    Case("the last look is 120 s ago", AWAKE, RELEASE, SINCE, SleepMemory(NOW - 120, SINCE)),
    Case("the last look is longer ago", AWAKE, KEEP, NOW, SleepMemory(NOW - 120.5, SINCE)),
    Case("the last look is hours ago", AWAKE, KEEP, NOW, SleepMemory(NOW - 7200, NOW - 9000)),
    Case("nobody watched, and nodes are left", ENDED, KEEP, NOW, SleepMemory(NOW - 121, SINCE)),
    # Used, or within hours: not idle.
    Case("used", replace(AWAKE, users=RUN), KEEP, None),
    Case("used after a gap", replace(AWAKE, users=RUN), KEEP, None, SleepMemory()),
    Case("unknown is busy", replace(AWAKE, users=UNKNOWN), KEEP, None),
    Case("within hours", AWAKE, KEEP, None, rule=a_rule(hours=OPEN)),
    Case("outside the hours", AWAKE, RELEASE, SINCE, rule=a_rule(hours=CLOSED)),
    Case("used outside the hours", replace(AWAKE, users=RUN), KEEP, None, rule=a_rule(hours=CLOSED)),
    # It wakes if the target is known and low, or if workers are missing; otherwise it is kept.
    Case("used and asleep", replace(ASLEEP, users=RUN), WAKE, None),
    Case("unknown and asleep", replace(ASLEEP, users=UNKNOWN), WAKE, None),
    Case("within hours and asleep", ASLEEP, WAKE, None, rule=a_rule(hours=OPEN)),
    Case("asleep outside the hours", ASLEEP, KEEP, SINCE, rule=a_rule(hours=CLOSED)),
    Case("used, a node missing", replace(AWAKE, users=RUN, target=3), WAKE, None),
    Case("used, a worker missing", replace(AWAKE, users=RUN, workers=3), WAKE, None),
    Case("used, all asked for, no pod yet", replace(AWAKE, users=RUN, pods=0), KEEP, None),
    Case("used, released workers still end", replace(RELEASED, users=RUN), WAKE, None),
    Case("used, no workers on this group", replace(ENDED, users=RUN), KEEP, None, rule=a_rule(workers=0)),
    # Idle for less than `after`: kept.
    Case("used until the last look", AWAKE, KEEP, NOW, SleepMemory(NOW - 20, None)),
    Case("idle for nearly as long", AWAKE, KEEP, SINCE + 1, SleepMemory(NOW - 20, SINCE + 1)),
    Case("idle for nearly as long, released", ENDED, KEEP, SINCE + 1, SleepMemory(NOW - 20, SINCE + 1)),
    Case("idle and lowered by hand", replace(AWAKE, target=2), KEEP, NOW - 60, SleepMemory(NOW - 20, NOW - 60)),
    # A group that was woken and not used sleeps after `after` again.
    Case("woken, not used", AWAKE, KEEP, NOW - 1799, SleepMemory(NOW - 10, NOW - 1799)),
    Case("woken, not used, for long", AWAKE, RELEASE, SINCE, WAITED),
    # Idle for `after`: released if more workers are asked for than stay, which are as many as nodes stay;
    Case("idle for as long", AWAKE, RELEASE, SINCE),
    Case("idle for longer", AWAKE, RELEASE, SINCE - 999, SleepMemory(NOW - 20, SINCE - 999)),
    Case("one worker left", replace(AWAKE, workers=1), RELEASE, SINCE),
    Case("more workers than stay", replace(AWAKE, workers=3), RELEASE, SINCE, rule=a_rule(2)),
    Case("more workers than nodes stay", AWAKE, RELEASE, SINCE, rule=a_rule(3)),
    Case("a deployment set the workers back", replace(ASLEEP, workers=4, pods=4), RELEASE, SINCE),
    Case("target unknown, workers left", replace(AWAKE, target=None), RELEASE, SINCE),
    # otherwise kept if more pods exist than stay, as they still end;
    Case("pods still end", RELEASED, KEEP, SINCE),
    Case("the last pod still ends", replace(RELEASED, pods=1), KEEP, SINCE),
    Case("more pods than stay", replace(AWAKE, workers=2, pods=3), KEEP, SINCE, rule=a_rule(2)),
    Case("pods of few workers end", replace(AWAKE, workers=1, pods=2), KEEP, SINCE, rule=a_rule(3, workers=1)),
    # otherwise kept if the target is unknown;
    Case("target unknown", replace(ENDED, target=None), KEEP, SINCE),
    # otherwise lowered if more nodes are there than stay;
    Case("nothing left but nodes", ENDED, LOWER, SINCE),
    Case("one node more than stays", replace(ENDED, target=1), LOWER, SINCE),
    Case("as many pods as stay", replace(AWAKE, workers=2, pods=2), LOWER, SINCE, rule=a_rule(2)),
    Case("few workers stay", replace(AWAKE, workers=1, pods=1), LOWER, SINCE, rule=a_rule(3, workers=1)),
    Case("no workers on this group", ENDED, LOWER, SINCE, rule=a_rule(workers=0)),
    Case("raised by hand", replace(ASLEEP, target=2), LOWER, SINCE),
    # otherwise asleep, and kept.
    Case("asleep", ASLEEP, KEEP, SINCE),
    Case("asleep with two nodes", Seen(NOW, (), 2, 2, 2), KEEP, SINCE, rule=a_rule(2)),
    Case("asleep for days", ASLEEP, KEEP, NOW - 300_000, SleepMemory(NOW - 20, NOW - 300_000)),
    # An unknown target neither wakes nor lowers nodes; workers alone may wake.
    Case("used, target unknown", replace(AWAKE, users=RUN, target=None), KEEP, None),
    Case("used, target unknown, workers missing", replace(ASLEEP, users=RUN, target=None), WAKE, None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.said)
def test_each_sentence_has_its_decision(case: Case) -> None:
    decision = decide(case.rule, case.seen, case.memory)
    assert (decision.action, decision.memory) == (case.action, SleepMemory(NOW, case.idle_since))
    assert decision.reason


def test_a_gap_is_what_the_table_says() -> None:
    assert sleep_decision.GAP_SECONDS == 120


Situation = tuple[SleepRule, Seen, SleepMemory]


def _used(rule: SleepRule, seen: Seen, memory: SleepMemory) -> bool:
    return bool(seen.users) or rule.hours is OPEN


def _unwatched(rule: SleepRule, seen: Seen, memory: SleepMemory) -> bool:
    return memory.seen_at is None or memory.seen_at > NOW or memory.seen_at < NOW - 120


def _waited(rule: SleepRule, seen: Seen, memory: SleepMemory) -> bool:
    idle = memory.idle_since is not None and memory.idle_since <= NOW - AFTER
    return idle and not _unwatched(rule, seen, memory) and not _used(rule, seen, memory)


def _stay(rule: SleepRule) -> int:
    return min(rule.min, rule.workers)


# Each sentence: when it applies, and what is decided then. At most one sentence applies to a situation.
SENTENCES: Final[dict[str, tuple[Callable[[SleepRule, Seen, SleepMemory], bool], Action]]] = {
    "used, nodes low": (lambda *at: _used(*at) and at[1].target is not None and at[1].target < 4, WAKE),
    "used, only workers low": (
        lambda *at: _used(*at) and at[1].target in (None, 4) and at[1].workers < at[0].workers,
        WAKE,
    ),
    "used, nothing low": (
        lambda *at: _used(*at) and at[1].target in (None, 4) and at[1].workers >= at[0].workers,
        KEEP,
    ),
    "not idle for `after`": (lambda *at: not _used(*at) and not _waited(*at), KEEP),
    "workers left": (lambda *at: _waited(*at) and at[1].workers > _stay(at[0]), RELEASE),
    "pods left": (lambda *at: _waited(*at) and at[1].workers <= _stay(at[0]) < at[1].pods, KEEP),
    "target unknown": (
        lambda *at: _waited(*at) and max(at[1].workers, at[1].pods) <= _stay(at[0]) and at[1].target is None,
        KEEP,
    ),
    "nodes left": (
        lambda *at: (
            _waited(*at)
            and max(at[1].workers, at[1].pods) <= _stay(at[0])
            and at[1].target is not None
            and at[1].target > at[0].min
        ),
        LOWER,
    ),
    "asleep": (
        lambda *at: (
            _waited(*at)
            and max(at[1].workers, at[1].pods) <= _stay(at[0])
            and at[1].target is not None
            and at[1].target <= at[0].min
        ),
        KEEP,
    ),
}


def _situations() -> list[Situation]:
    rules = [
        a_rule(least, workers, hours) for least, workers, hours in product((0, 1, 3), (0, 2, 4), (None, OPEN, CLOSED))
    ]
    sights = [
        Seen(NOW, users, target, workers, pods)
        for users, target, workers, pods in product(((), RUN), (None, 0, 1, 3, 4), (0, 1, 2, 4), (0, 1, 2, 4))
    ]
    memories = [
        SleepMemory(seen_at, idle_since)
        for seen_at, idle_since in product(
            (None, NOW + 1, NOW, NOW - 120, NOW - 121), (None, NOW - 1799, NOW - 1800, NOW - 9999)
        )
    ]
    return list(product(rules, sights, memories))


def test_every_situation_is_decided_by_the_one_sentence_that_applies_to_it() -> None:
    met = set()
    for rule, seen, memory in _situations():
        [(sentence, action)] = [
            (sentence, action) for sentence, (applies, action) in SENTENCES.items() if applies(rule, seen, memory)
        ]
        met.add(sentence)
        decision = decide(rule, seen, memory)
        if _used(rule, seen, memory):
            idle_since = None
        elif _unwatched(rule, seen, memory) or memory.idle_since is None:
            idle_since = NOW
        else:
            idle_since = memory.idle_since
        assert (decision.action, decision.memory) == (action, SleepMemory(NOW, idle_since)), (
            sentence,
            rule,
            seen,
            memory,
        )
    assert met == set(SENTENCES)
