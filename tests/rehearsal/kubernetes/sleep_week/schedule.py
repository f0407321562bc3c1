"""What happens in a week of a cluster whose group may sleep, drawn by the week's number and by nothing else.

All times are seconds since the week's first Monday, 00:00 UTC.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

MINUTE: Final = 60.0
HOUR: Final = 60 * MINUTE
WEEK: Final = 168 * HOUR
COUNT: Final = 3
"""Nodes of the group, and Ray workers on it."""
MONDAY: Final = datetime(2026, 1, 5, tzinfo=UTC)

Span = tuple[float, float]
"""Begin and end; the end does not belong to it."""


@dataclass(frozen=True)
class Work:
    """Something that trains on workers: a run of `ops job submit`, or a job that somebody sent to the head."""

    name: str
    supervised: bool
    at: float
    minutes: int
    """Its steps: each takes a minute with all of its workers."""
    workers: int
    kill_after: float | None = None
    """Seconds of training after which one of its pods is killed, once."""
    fault_after: float | None = None
    """Seconds of training after which one of its nodes fails, once."""


@dataclass(frozen=True)
class Deployment:
    """A deployment of the custom resource: which edits of its template it turns on or off, and whether it fails."""

    at: float
    edits: frozenset[str]
    fails: bool


@dataclass(frozen=True)
class Restart:
    """The end of the sleeper that acts; another of its name comes half a minute later."""

    at: float
    how: str
    """`stop`, `kill`, or `kill before|after workers|counts`: in its next change of them."""


@dataclass(frozen=True)
class Schedule:
    """A week."""

    number: int
    least: int
    """`min` of the group."""
    after: float
    hours: str | None
    provision: float
    """Minutes that a node takes to come."""
    works: tuple[Work, ...]
    notebooks: tuple[Span, ...]
    silent: tuple[Span, ...]
    """When the head does not answer."""
    capacity: tuple[tuple[float, float, int], ...]
    """When AWS has only so many nodes."""
    conflicts: tuple[tuple[float, float, str], ...]
    """When UpdateCluster answers this error."""
    no_function: tuple[Span, ...]
    deployments: tuple[Deployment, ...]
    replicas_set: tuple[float, ...]
    """When a deployment sets the RayCluster's replicas to the file's."""
    deep_checks: tuple[float, ...]
    """When somebody starts deep health checks on the group's nodes."""
    restarts: tuple[Restart, ...]
    outages: tuple[Span, ...]
    """When the API server is down."""

    def within_hours(self, until: float) -> list[Span]:
        """Return the group's hours until then."""
        if self.hours is None:
            return []
        found: list[Span] = []
        at, quarter = -24 * HOUR, 15 * MINUTE
        while at < until:
            local = datetime.fromtimestamp(MONDAY.timestamp() + at, ZoneInfo("Europe/Berlin"))
            # What `HOURS` says.
            if local.weekday() < 5 and 8 <= local.hour < 18:
                found.append((at, at + quarter))
            at += quarter
        return union(found)


HOURS: Final = "Mon-Fri 08:00-18:00 Europe/Berlin"

TEMPLATE_EDITS: Final = ("labels", "other tags", "more", "more sleeps", "head labels")
"""`more` adds a group and `more sleeps` lets it sleep, as a key of another group."""


def union(spans: Iterable[Span]) -> list[Span]:
    """Return spans that neither overlap nor touch, in order."""
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        elif end > begin:
            joined.append((begin, end))
    return joined


def draw(number: int) -> Schedule:
    """Return the week of this number."""
    drawn = random.Random(f"sleeping week {number}")  # noqa: S311 (tests, not secrets)

    def at(first: float = 2 * HOUR, last: float = WEEK - 8 * HOUR) -> float:
        return float(round(drawn.uniform(first, last)))

    works = _works(drawn, at)

    def near(*, before: float, behind: float) -> float:
        """Return a time near an arrival: there a disturbance meets a wake."""
        return float(round(max(HOUR, drawn.choice(works).at + drawn.uniform(-before, behind))))

    conflicts = ("ConflictException", "ResourceLimitExceeded")
    ways = ("stop", "kill", "kill before workers", "kill after workers", "kill before counts", "kill after counts")
    return Schedule(
        number=number,
        least=drawn.choice((0, 0, 1)),
        after=drawn.choice((10, 20, 30, 45)) * MINUTE,
        hours=HOURS if drawn.random() < 0.25 else None,
        provision=float(drawn.randint(6, 18)),
        works=works,
        notebooks=tuple(_span(at(), drawn.randint(5, 150)) for _ in range(drawn.randint(2, 4))),
        silent=tuple(_span(at(), drawn.randint(2, 20)) for _ in range(2)),
        capacity=tuple(
            (*_span(near(before=40 * MINUTE, behind=0), drawn.randint(30, 200)), drawn.randrange(COUNT))
            for _ in range(2)
        ),
        conflicts=tuple(
            (*_span(near(before=20 * MINUTE, behind=2 * HOUR), drawn.randint(5, 50)), drawn.choice(conflicts))
            for _ in range(2)
        ),
        no_function=tuple(_span(near(before=15 * MINUTE, behind=2 * HOUR), drawn.randint(2, 25)) for _ in range(2)),
        deployments=tuple(
            Deployment(
                near(before=20 * MINUTE, behind=3 * HOUR),
                frozenset(drawn.sample(TEMPLATE_EDITS, drawn.randint(1, 2))),
                fails=n % 2 == 1,
            )
            for n in range(6)
        ),
        replicas_set=(at(), at()),
        deep_checks=(near(before=0, behind=3 * HOUR),),
        restarts=tuple(Restart(near(before=HOUR, behind=3 * HOUR), way) for way in drawn.sample(ways, 5)),
        outages=tuple(_span(near(before=20 * MINUTE, behind=2 * HOUR), drawn.randint(1, 7)) for _ in range(2)),
    )


def _span(begin: float, minutes: float) -> Span:
    return begin, begin + minutes * MINUTE


def _works(drawn: random.Random, at: Callable[[], float]) -> tuple[Work, ...]:
    """Draw works that come alone, or together so that some wait for others."""
    found: list[Work] = []
    for begin in sorted(at() for _ in range(13)):
        for _ in range(drawn.choice((1, 1, 1, 2, 3))):
            supervised = drawn.random() < 0.75
            minutes = drawn.choice((drawn.randint(3, 30), drawn.randint(20, 150), drawn.randint(60, 420)))
            found.append(
                Work(
                    name=f"{'train' if supervised else 'direct'}-{len(found)}",
                    supervised=supervised,
                    at=begin + drawn.randrange(600),
                    minutes=minutes,
                    workers=drawn.choice((1, 2, COUNT, COUNT)),
                    kill_after=_perhaps(drawn, 0.35 * supervised, minutes),
                    fault_after=_perhaps(drawn, 0.15 * supervised, minutes),
                )
            )
    return tuple(found)


def _perhaps(drawn: random.Random, chance: float, minutes: int) -> float | None:
    return drawn.uniform(0.1, 0.9) * minutes * MINUTE if drawn.random() < chance else None
