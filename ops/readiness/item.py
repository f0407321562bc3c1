"""The rows that `ops wait` shows, and what it requires of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple


class ReadinessState(StrEnum):
    """The state of an item. Waiting helps neither FAILED nor PAUSED: only `ops resume` ends a pause."""

    READY = "ready"
    WAITING = "waiting"
    PAUSED = "paused"
    FAILED = "failed"


class Require(StrEnum):
    """What `ops wait` requires.

    ALL is everything in the environment. MIN is enough for training to start: `min_count` nodes of each instance group
    (one if it is not set), `min_replicas` workers of each worker group. NONE only reports.
    """

    ALL = "all"
    MIN = "min"
    NONE = "none"


class ExpectedEnd(NamedTuple):
    """When something should be ready, by the table of AWS's minutes."""

    earliest: datetime
    typical: datetime
    latest: datetime


@dataclass(frozen=True)
class ReadinessItem:
    """One thing that must become ready; `detail` is a figure or a reason for people to read.

    `expected` is None if nobody knows when it is ready; of a ready image, it is when its build ended.
    """

    kind: str
    name: str
    state: ReadinessState
    detail: str
    expected: ExpectedEnd | None = None


def clock(moment: datetime) -> str:
    """Return the time of day in UTC: the AWS SDK returns times in the operator's own time zone."""
    return f"{moment.astimezone(UTC):%H:%M} UTC"


def counts(counter: Counter[str]) -> str:
    """Format a counter, largest first, such as `3 Running, 1 Pending`."""
    return ", ".join(f"{count} {what}" for what, count in counter.most_common())


def spoken(reasons: Mapping[str, str], limit: int = 2) -> list[str]:
    """Return a line for each distinct reason, by how many names give it; at most `limit`, empty reasons skipped."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        if reason:
            by_reason.setdefault(reason, []).append(name)
    lines = [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"
        for reason, names in sorted(by_reason.items(), key=lambda entry: -len(entry[1]))
    ]
    more = len(lines) - limit
    return lines[:limit] + ([f"{more} other reasons"] if more > 0 else [])
