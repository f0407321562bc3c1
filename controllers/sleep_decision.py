"""The sleeper's rule: what to do with an instance group that may sleep, given who uses it, its nodes and the time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final, Self
from zoneinfo import ZoneInfo

from controllers.hand import Hand

GAP_SECONDS: Final = 120.0
"""Longest time between two looks at a group: nobody watched it in a longer one, so it counts as used until now."""

WAKE_SECONDS: Final = 1800.0
"""For how long a group waits for its nodes until the next one stands in: they take 10 to 25 minutes to come."""

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LIKE: Final = "Allowed: days, times and a zone, such as `Mon-Fri 07:00-19:00 Europe/Berlin`"
_DAY_MINUTES: Final = 24 * 60
_WEEK_DAYS: Final = 7


@dataclass(frozen=True)
class Hours:
    """The hours of a week in which a group is awake, whether used or not."""

    days: frozenset[int]
    """0 is Monday."""
    start: int
    """Minutes since midnight, as `end`, which is later; 24:00 is the end of a day."""
    end: int
    zone: str
    """A name of the tz database."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Read hours such as `Mon-Fri 07:00-19:00 Europe/Berlin`. Raises ValueError."""
        parts = text.split()
        if len(parts) != 3:
            raise ValueError(f"{text!r} is invalid: it has {len(parts)} words, not three. {_LIKE}")
        days, times, zone = parts
        first, dash, last = times.partition("-")
        if not dash:
            raise ValueError(f"{times!r} is invalid: it is no range of times. {_LIKE}")
        start, end = _minutes(first), _minutes(last)
        if end <= start:
            raise ValueError(f"{times!r} is invalid: it does not end after its start on the same day. {_LIKE}")
        return cls(frozenset(_days(days)), start, end, _zone(zone))

    def contain(self, now: float) -> bool:
        """Return whether a time, in seconds since the epoch, is within these hours."""
        there = datetime.fromtimestamp(now, ZoneInfo(self.zone))
        return there.weekday() in self.days and self.start <= there.hour * 60 + there.minute < self.end

    def began(self, since: float, now: float) -> bool:
        """Return whether they have begun after `since`, and not after `now`."""
        zone = ZoneInfo(self.zone)
        first, last = (datetime.fromtimestamp(each, zone).date() for each in (since, now))
        if (last - first).days > _WEEK_DAYS:
            return True
        days = (first + timedelta(days=n) for n in range((last - first).days + 1))
        return any(since < self._begin(day, zone) <= now for day in days if day.weekday() in self.days)

    def _begin(self, day: date, zone: ZoneInfo) -> float:
        return datetime(day.year, day.month, day.day, self.start // 60, self.start % 60, tzinfo=zone).timestamp()


@dataclass(frozen=True)
class SleepRule:
    """What the environment's file says of a group."""

    group: str
    count: int
    """The most nodes."""
    min: int
    """The nodes that stay."""
    after_seconds: float
    """For how long nothing must have used the group."""
    hours: Hours | None
    workers: int
    """Ray workers that the RayClusters ask for on this group when it is awake: one pod per node."""
    wake: tuple[str, ...] = ()
    """The groups that stand in for this one, in this order, if it does not get its nodes."""

    @property
    def workers_asleep(self) -> int:
        """Return how many Ray workers the group has when it sleeps: those of the nodes that stay."""
        return min(self.workers, self.min)


@dataclass(frozen=True)
class Seen:
    """What was read just now."""

    now: float
    """Seconds since the epoch."""
    users: tuple[str, ...]
    """What uses the group, or could not be asked, in words."""
    target: int | None
    """HyperPod's TargetCount; None if it is unknown."""
    workers: int
    """Replicas that the RayClusters ask for on this group now."""
    pods: int
    """Pods of Ray workers for this group that still exist."""
    hand: Hand | None = None
    """What a person asks of the group."""
    nodes: int | None = None
    """HyperPod's CurrentCount; None if it is unknown."""
    replaced: bool = False
    """Whether the last group that stands in has got all of its nodes."""


@dataclass(frozen=True)
class SleepMemory:
    """What is kept from one look to the next, also by another process."""

    seen_at: float | None = None
    """When the group was last looked at, in seconds since the epoch."""
    idle_since: float | None = None
    """Since when nothing has used the group; None if it was in use."""
    waiting_since: float | None = None
    """Since when a group that must be awake waits for its nodes, or for those of the last group that stands in."""
    late: int = 0
    """How often it has waited `WAKE_SECONDS` in vain: at most once more than there are groups to stand in."""


class Action(StrEnum):
    """What to do with a group.

    KEEP: leave it. WAKE: raise its nodes to `count` and its Ray workers to the file's. RELEASE: lower its Ray workers
    to `workers_asleep`. LOWER: lower its nodes to `min`.
    """

    KEEP = "keep"
    WAKE = "wake"
    RELEASE = "release"
    LOWER = "lower"


@dataclass(frozen=True)
class SleepDecision:
    """What to do with a group, why, what to remember, and which groups stand in for it."""

    action: Action
    reason: str
    memory: SleepMemory
    stand_ins: tuple[str, ...] = ()


def decide(rule: SleepRule, seen: Seen, memory: SleepMemory) -> SleepDecision:
    """Return what to do with a group. Nodes go only after their Ray workers have ended."""
    wanted = _wanted(rule, seen)
    if wanted:
        nodes = seen.target is not None and seen.target < rule.count
        action = Action.WAKE if nodes or seen.workers < rule.workers else Action.KEEP
        since, late = _waiting(rule, seen, memory)
        remembered = SleepMemory(seen_at=seen.now, waiting_since=since, late=late)
        return SleepDecision(action, wanted, remembered, rule.wake[:late])
    since = _idle_since(seen.now, memory)
    idle = seen.now - since
    action, reason = _of_idle(rule, seen, idle, by_hand=seen.hand is not None and not is_over(seen.hand, rule, seen))
    return SleepDecision(action, reason, SleepMemory(seen_at=seen.now, idle_since=since))


def _wanted(rule: SleepRule, seen: Seen) -> str:
    """Return why the group must be awake; empty if nothing wants it."""
    if seen.users:
        others = f" and {len(seen.users) - 1} more" if len(seen.users) > 1 else ""
        return f"used by {seen.users[0]}{others}"
    if seen.hand and not is_over(seen.hand, rule, seen):
        return seen.hand.in_words(seen.now) if seen.hand.awake else ""
    return "within its hours" if rule.hours and rule.hours.contain(seen.now) else ""


def is_over(hand: Hand, rule: SleepRule, seen: Seen) -> bool:
    """Return whether a request has ended: one to sleep does when the group is used, or when its hours begin."""
    if hand.awake:
        return not hand.wakes(seen.now)
    return bool(seen.users) or (rule.hours is not None and rule.hours.began(hand.at, seen.now))


def _waiting(rule: SleepRule, seen: Seen, memory: SleepMemory) -> tuple[float | None, int]:
    """Return since when the group waits for its nodes, and how often it has waited in vain.

    A wake begins with a target that is too low. A node that is lost later is none.
    """
    since = memory.waiting_since
    if seen.target is not None and seen.nodes is not None:
        if min(seen.target, seen.nodes) >= rule.count:
            since = None
        elif seen.target < rule.count and since is None:
            since = seen.now
    if since is None:
        return None, 0
    since = min(since, seen.now)
    if seen.replaced or memory.late > len(rule.wake) or seen.now - since < WAKE_SECONDS:
        return since, memory.late
    return seen.now, memory.late + 1


def _idle_since(now: float, memory: SleepMemory) -> float:
    """Return since when the group is idle; it is idle from now on if nobody watched it."""
    watched = memory.seen_at is not None and 0 <= now - memory.seen_at <= GAP_SECONDS
    return min(memory.idle_since, now) if watched and memory.idle_since is not None else now


def _of_idle(rule: SleepRule, seen: Seen, idle: float, *, by_hand: bool) -> tuple[Action, str]:
    """Return what to do with a group that nothing uses, and why."""
    if idle < rule.after_seconds and not by_hand:
        return Action.KEEP, f"idle for {idle:.0f} s of {rule.after_seconds:.0f} s"
    why = seen.hand.in_words(seen.now) if seen.hand and by_hand else f"idle for {idle:.0f} s"
    if seen.workers > rule.workers_asleep:
        return Action.RELEASE, why
    if seen.pods > rule.workers_asleep:
        return Action.KEEP, f"idle, and {seen.pods - rule.workers_asleep} Ray workers still end"
    if seen.target is None:
        return Action.KEEP, "idle, and the number of its nodes is unknown"
    if seen.target > rule.min:
        return Action.LOWER, f"{why}, and its Ray workers have ended"
    return Action.KEEP, "asleep"


def _days(text: str) -> Iterator[int]:
    """Yield the days of a text such as `Mon-Wed,Fri`; a range may pass Sunday. Raises ValueError."""
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start, end = _day(first), _day(last if dash else first)
        yield from (day % 7 for day in range(start, (end if end >= start else end + 7) + 1))


def _day(text: str) -> int:
    if text not in _DAYS:
        raise ValueError(f"{text!r} is invalid: it is no day. Allowed: {', '.join(_DAYS)}")
    return _DAYS.index(text)


def _minutes(text: str) -> int:
    """Return the minutes since midnight of a text such as `07:30`. Raises ValueError."""
    hours, _, minutes = text.partition(":")
    if not all(len(each) == 2 and each.isascii() and each.isdecimal() for each in (hours, minutes)):
        raise ValueError(f"{text!r} is invalid: it is no time of a day. Allowed: 00:00 to 24:00")
    found = int(hours) * 60 + int(minutes)
    if int(minutes) >= 60 or found > _DAY_MINUTES:
        raise ValueError(f"{text!r} is invalid: no day has this time. Allowed: 00:00 to 24:00")
    return found


def _zone(text: str) -> str:
    """Return the name of a zone. Raises ValueError."""
    try:
        ZoneInfo(text)
    except (OSError, ValueError, KeyError) as error:
        fix = "Fix: use a name of the tz database, such as Europe/Berlin"
        raise ValueError(f"{text!r} is invalid: it is no time zone. {fix}") from error
    return text
