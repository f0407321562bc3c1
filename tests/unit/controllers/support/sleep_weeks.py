"""Weeks of a group that may sleep: what happens in each, drawn by the week's number and by nothing else.

All times are whole seconds since the epoch.
"""

import random
from bisect import bisect_right
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from controllers.sleep_decision import Hours, SleepRule

MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY

_QUARTER: Final = 15 * MINUTE
_WITH_HANDS: Final = 4
"""One of five weeks, quiet ones too, has persons who wake the group and put it to sleep."""
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Days on which clocks change in one of the zones.
_CHANGES: Final = ("2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01", "2027-03-14")
_ZONES: Final = (
    *("Europe/Berlin", "America/Los_Angeles", "America/St_Johns", "Australia/Lord_Howe"),
    *("Asia/Kolkata", "Asia/Kathmandu", "America/Phoenix", "UTC"),
)

Span = tuple[int, int]
"""Begin and end; the end does not belong to it."""


@dataclass(frozen=True)
class OpenHours:
    """Hours as a user writes them, and when they are, worked out apart from the rule."""

    days: tuple[int, ...]
    start: int
    end: int
    zone: str

    @property
    def text(self) -> str:
        """Return what stands in the environment's file."""
        start, end = (f"{minutes // 60:02}:{minutes % 60:02}" for minutes in (self.start, self.end))
        first, last = self.days[0], self.days[-1]
        in_a_row = len(self.days) > 2 and self.days == tuple(range(first, last + 1))
        names = f"{_DAYS[first]}-{_DAYS[last]}" if in_a_row else ",".join(_DAYS[day] for day in self.days)
        return f"{names} {start}-{end} {self.zone}"

    def spans(self, begins: int, ends: int) -> list[Span]:
        """Return when it is within the hours. All begins, ends and changes of clocks are at quarters of an hour."""
        found: list[Span] = []
        zone = ZoneInfo(self.zone)
        for quarter in range(begins - begins % _QUARTER, ends, _QUARTER):
            local = datetime.fromtimestamp(quarter, zone)
            if local.weekday() in self.days and self.start <= local.hour * 60 + local.minute < self.end:
                found.append((quarter, quarter + _QUARTER))
        return union(found)

    def openings(self, begins: int, ends: int) -> list[int]:
        """Return when the hours begin, once on each of their days."""
        found: dict[date, int] = {}
        zone = ZoneInfo(self.zone)
        for quarter in range(begins - begins % _QUARTER, ends, _QUARTER):
            local = datetime.fromtimestamp(quarter, zone)
            if local.weekday() in self.days and local.hour * 60 + local.minute >= self.start:
                found.setdefault(local.date(), quarter)
        # The first day may have begun earlier.
        return [quarter for quarter in found.values() if quarter >= begins]


@dataclass(frozen=True)
class Down:
    """A controller that does not look for a while. Of what it remembered, the last `lost` looks are not saved."""

    span: Span
    lost: int | None
    """None: the Lease was deleted."""


@dataclass(frozen=True)
class Week:
    """What happens to a group in a week, whatever its controller does."""

    number: int
    begins: int
    asleep: bool
    """Whether the group sleeps when the week begins."""
    rule: SleepRule
    hours: OpenHours | None
    boots: tuple[int, ...]
    """Seconds that each node takes to come."""
    departures: tuple[int, ...]
    """Seconds that each node takes to go."""
    pod_end: int
    """Seconds that a pod takes to end."""
    runs: tuple[tuple[int, int], ...]
    """Arrivals and lengths."""
    notebooks: tuple[Span, ...]
    silent: tuple[Span, ...] = ()
    """When a head does not answer."""
    downs: tuple[Down, ...] = ()
    unknown: tuple[Span, ...] = ()
    """When HyperPod answers no count."""
    refused: tuple[Span, ...] = ()
    """When HyperPod takes no change."""
    without_capacity: tuple[Span, ...] = ()
    deployments: tuple[int, ...] = ()
    """When the replicas become the file's."""
    operator: tuple[tuple[int, int], ...] = ()
    """When an operator sets the target, and to what."""
    hands: tuple[tuple[int, int], ...] = ()
    """When a person asks for something: to be awake for so many seconds or, if they are 0, to be asleep."""
    jumps: tuple[tuple[int, int], ...] = ()
    """When the controller's clock is set, and to how much before or after the true time."""

    @property
    def ends(self) -> int:
        return self.begins + WEEK

    @property
    def floor(self) -> int:
        """Return how many workers stay when the group sleeps."""
        return min(self.rule.min, self.rule.workers)

    @property
    def after(self) -> int:
        return int(self.rule.after_seconds)

    @property
    def quiet(self) -> bool:
        """Return whether nothing is disturbed."""
        spans = (self.silent, self.downs, self.unknown, self.refused, self.without_capacity)
        return not any((*spans, self.deployments, self.operator, self.jumps))

    @cached_property
    def within(self) -> list[Span]:
        """Return when it is within the hours, a little longer than the week as clocks may be wrong."""
        return self.hours.spans(self.begins - HOUR, self.ends + HOUR) if self.hours else []

    @cached_property
    def openings(self) -> list[int]:
        """Return when the hours begin."""
        return self.hours.openings(self.begins - HOUR, self.ends + HOUR) if self.hours else []

    @cached_property
    def bounds(self) -> list[int]:
        """Return the begins and ends of the hours."""
        return [time for span in self.within for time in span]

    def opened(self, clock: int) -> bool:
        """Return whether a clock's time is within the hours."""
        return bisect_right(self.bounds, clock) % 2 == 1


def union(spans: list[Span]) -> list[Span]:
    """Return spans that neither overlap nor touch, in order."""
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    assert all(left[1] < right[0] for left, right in pairwise(joined))
    return joined


def draw(number: int) -> Week:
    """Return the week of this number. In one of four weeks nothing is disturbed."""
    drawn = random.Random(f"week {number}")  # noqa: S311 (tests, not secrets)
    midnight = int(datetime.fromisoformat(drawn.choice(_CHANGES)).replace(tzinfo=UTC).timestamp())
    # The change of the clocks lies in the week: in its first hours, in its middle, or near its end.
    begins = midnight - drawn.randrange(6 * DAY) // HOUR * HOUR
    count = drawn.randint(1, 6)
    minutes = drawn.choice((10, 10, 15, 30, 30, 60, 180, 360, drawn.randint(10, 360)))
    hours = _hours(drawn) if drawn.random() < 0.6 else None
    rule = SleepRule(
        group="gpu",
        count=count,
        min=drawn.choice((0, 0, drawn.randrange(count))),
        after_seconds=float(minutes * MINUTE),
        hours=Hours.read(hours.text) if hours else None,
        workers=drawn.choice((count, count, drawn.randint(0, count))),
    )
    boots = tuple(drawn.randint(8 * MINUTE, 15 * MINUTE) for _ in range(count))
    runs = _runs(drawn, begins, minutes * MINUTE, max(boots)) if rule.workers else []
    notebooks = [
        (begin, begin + drawn.choice((drawn.randint(2, 40) * MINUTE, drawn.randint(1, 10) * HOUR)))
        for begin in (begins + drawn.randrange(WEEK) for _ in range(drawn.choice((0, 1, 3, 6))))
    ]
    quiet = Week(
        number=number,
        begins=begins,
        asleep=drawn.random() < 0.5,
        rule=rule,
        hours=hours,
        boots=boots,
        departures=tuple(drawn.randint(1 * MINUTE, 4 * MINUTE) for _ in range(count)),
        pod_end=drawn.randint(20, 90),
        runs=tuple(runs),
        notebooks=tuple(sorted(notebooks)),
    )
    week = quiet if number % 4 == 0 else _Disturbances(drawn, quiet).week()
    return replace(week, hands=_hands(week)) if number % 5 == _WITH_HANDS else week


def _hands(week: Week) -> tuple[tuple[int, int], ...]:
    """Return what persons ask for: half of it near the moments at which something begins or ends.

    Nobody asks a group whose hours begin at a time that is left out once a year.
    """
    drawn = random.Random(f"hands of week {week.number}")  # noqa: S311 (tests, not secrets)
    if week.hours and 2 * 60 <= week.hours.start < 3 * 60:
        return ()
    moments = [sum(run) for run in week.runs] + [arrival for arrival, _ in week.runs]
    moments += [time for span in (*week.notebooks, *week.within) for time in span]
    times = []
    for _ in range(drawn.randint(1, 10)):
        near = drawn.choice(moments) + drawn.randint(-10, 40) * MINUTE if moments else week.begins
        anywhere = week.begins + drawn.randrange(WEEK)
        times.append(near if drawn.random() < 0.5 and week.begins <= near < week.ends else anywhere)
    lengths = (0, 0, 0, drawn.randint(1, 90) * MINUTE, drawn.randint(1, 20) * HOUR)
    return tuple((time, drawn.choice(lengths)) for time in sorted(set(times)))


def _hours(drawn: random.Random) -> OpenHours:
    days = drawn.choice(((0, 1, 2, 3, 4), (0, 1, 2, 3, 4, 5, 6), (5, 6), (6,), (0, 2, 4), (6, 0)))
    # A quarter of an hour at least; also nights, in which clocks change, and whole days.
    start = drawn.choice((drawn.randrange(95), drawn.randrange(12), 28, 0)) * 15
    end = drawn.choice((min(start + drawn.randint(1, 48) * 15, 1440), 1440))
    return OpenHours(tuple(sorted(days)), start, end, drawn.choice(_ZONES))


def _runs(drawn: random.Random, begins: int, after: int, boot: int) -> list[tuple[int, int]]:
    """Return runs by day, arriving at daytime: nights and whole days have none.

    Some users come back when the group has just been let sleep, is about to, or its nodes go.
    """
    busy = drawn.choice((0.2, 0.6, 0.9))
    runs: list[tuple[int, int]] = []
    for day in range(7):
        if drawn.random() > busy:
            continue
        for _ in range(drawn.randint(1, 4)):
            arrival = begins + day * DAY + drawn.randint(7 * HOUR, 20 * HOUR)
            burst = drawn.randint(2, 8) if drawn.random() < 0.2 else 1
            runs += [(arrival + drawn.randrange(10 * MINUTE), _length(drawn)) for _ in range(burst)]
            if drawn.random() < 0.4:
                asleep = max(sum(run) for run in runs) + drawn.choice((0, boot)) + after
                runs.append((asleep + drawn.randint(-MINUTE, drawn.choice((2, 5)) * MINUTE), _length(drawn)))
    return sorted(run for run in runs if run[0] < begins + WEEK)


def _length(drawn: random.Random) -> int:
    few_minutes, some_hours = drawn.randint(1, 60) * MINUTE, drawn.randint(1, 8) * HOUR
    days = drawn.randint(24, 60) * HOUR
    return drawn.choices((few_minutes, some_hours, days), (0.65, 0.32, 0.03))[0] + drawn.randrange(MINUTE)


class _Disturbances:
    """Draw what disturbs a week: half of it near the moments at which the rule decides something."""

    def __init__(self, drawn: random.Random, week: Week) -> None:
        self._drawn, self._week = drawn, week

    def week(self) -> Week:
        drawn, week = self._drawn, self._week
        kinds = set(drawn.sample(range(8), drawn.randint(1, 8)))
        spans = [self._spans(longest) for longest in (2 * HOUR, 4 * HOUR, 3 * HOUR, 2 * HOUR, 8 * HOUR)]
        silent, down, unknown, refused, full = (each if kind in kinds else () for kind, each in enumerate(spans))
        deployments = tuple(self._times(8)) if 5 in kinds else ()
        operator = tuple((time, drawn.randint(week.rule.min, week.rule.count)) for time in self._times(6))
        # Every second jump sets the clock right again.
        jumps = [(time, 0 if turn % 2 else drawn.randint(-300, 300)) for turn, time in enumerate(self._times(6))]
        return replace(
            week,
            silent=silent,
            unknown=unknown,
            refused=refused,
            without_capacity=full,
            downs=tuple(Down(span, drawn.choice((0, 0, 1, 1, 2, 3, None))) for span in down),
            deployments=deployments,
            operator=operator if 6 in kinds else (),
            jumps=tuple(jumps) if 7 in kinds else (),
        )

    def _times(self, most: int) -> list[int]:
        return sorted(self._time() for _ in range(self._drawn.randint(1, most)))

    def _time(self) -> int:
        week, drawn = self._week, self._drawn
        anywhere = week.begins + drawn.randrange(WEEK)
        moments = [arrival for arrival, _ in week.runs] + [arrival + length for arrival, length in week.runs]
        moments += [end for _, end in week.notebooks] + [end for _, end in week.within]
        if not moments or drawn.random() < 0.3:
            return anywhere
        late = drawn.choice((0, 0, week.after, week.after))
        margin = drawn.choice((MINUTE, 5 * MINUTE, 20 * MINUTE))
        near = drawn.choice(moments) + late + drawn.randint(-margin, margin)
        return near if week.begins <= near < week.ends else anywhere

    def _spans(self, longest: int) -> tuple[Span, ...]:
        """Return spans that do not overlap: of seconds, of minutes and of hours."""
        lengths = (5, 90, 10 * MINUTE, longest)
        found = [(time, time + self._drawn.randint(1, self._drawn.choice(lengths))) for time in self._times(10)]
        return tuple(union(found))
