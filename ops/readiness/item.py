"""One line of what `ops wait` looks at, and how much of it is asked for."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum


class State(StrEnum):
    """FAILED is what no waiting mends."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


class Require(StrEnum):
    """How much is asked for.

    ALL is what the environment says. MIN is what training can begin with: `min_count` nodes of each instance group
    (one when it has none), `min_replicas` workers of each worker group. NONE is a report.
    """

    ALL = "all"
    MIN = "min"
    NONE = "none"


@dataclass(frozen=True)
class Item:
    """One thing that has to be ready; `detail` is the figure or the reason a person reads."""

    kind: str
    name: str
    state: State
    detail: str


def clock(moment: datetime) -> str:
    """The time of day in UTC: the AWS SDK gives moments in the operator's own time zone."""
    return f"{moment.astimezone(UTC):%H:%M} UTC"


def counts(counter: Counter[str]) -> str:
    """Say how many of each there are, the most first."""
    return ", ".join(f"{count} {what}" for what, count in counter.most_common())


def spoken(reasons: Mapping[str, str], limit: int = 2) -> list[str]:
    """Say who gives which reason, each reason once; at most `limit` reasons, and nothing for an empty one."""
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
