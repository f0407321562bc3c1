"""Estimate when an environment is ready, from when its parts began and the table of AWS's minutes.

AWS promises none of these times, and nobody knows when capacity comes: then there is no expected end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from config.estimates import creation
from config.estimates.creation import CreationTime
from ops.readiness.item import ExpectedEnd, ReadinessItem, ReadinessState, clock

_IMAGE: Final = "Ray image"
_RAY_CLUSTER: Final = "RayCluster"
_FIRST: Final = ("HyperPod cluster", "instance group", _IMAGE, "volume claim")
"""The kinds of items that wait for AWS; the others follow them: their pods need nodes, the volume and the image."""


@dataclass(frozen=True)
class Outlook:
    """When everything is ready, and the item that decides it; without `end`, an item whose end nobody knows."""

    item: ReadinessItem
    end: ExpectedEnd | None

    def overdue(self, now: datetime) -> bool:
        """Return whether even the longest published time has passed."""
        return self.end is not None and now > self.end.latest

    def sentence(self, now: datetime) -> str:
        """Return the expected end with its range, or that it is late, overdue or unknown, and the item that decides."""
        what = f"{self.item.kind} {self.item.name}"
        if self.end is None:
            return f"no expected end: nobody knows when {what} is ready"
        typical, latest = clock(self.end.typical), clock(self.end.latest)
        if self.overdue(now):
            return (
                f"overdue by {_minutes(now - self.end.latest)} min: {what} should be ready since {latest} at the latest"
            )
        if now > self.end.typical:
            return (
                f"late by {_minutes(now - self.end.typical)} min: expected {typical}, at the latest {latest} ({what})"
            )
        return f"expected {typical} ({self.end.earliest:%H:%M} to {self.end.latest:%H:%M}; {what})"

    def as_data(self, now: datetime) -> dict[str, Any]:
        """Return the times in ISO 8601, null without an expected end."""
        names = ("earliest", "typical", "latest")
        times = {name: getattr(self.end, name).isoformat() if self.end else None for name in names}
        return {**times, "overdue": self.overdue(now), "decided_by": f"{self.item.kind} {self.item.name}"}


def after(began: datetime, *steps: CreationTime) -> ExpectedEnd:
    """Return the end of steps that follow each other."""
    minutes = (sum(s.low for s in steps), sum(s.typical for s in steps), sum(s.high for s in steps))
    return ExpectedEnd(*(began.astimezone(UTC) + timedelta(minutes=each) for each in minutes))


def of_nodes(*, deep_checks: bool) -> tuple[CreationTime, ...]:
    """Return the steps from a node's launch until it takes work."""
    later = creation.later(ray=False)
    return (later[creation.NODES], later[creation.DEEP_CHECKS]) if deep_checks else (later[creation.NODES],)


def outlook(items: Sequence[ReadinessItem], now: datetime) -> Outlook | None:
    """Return when all items are ready; None if all are, or if waiting will not help."""
    if {item.state for item in items} & {ReadinessState.FAILED, ReadinessState.PAUSED}:
        return None
    waiting = [item for item in items if item.state is ReadinessState.WAITING]
    deciding = [item for item in waiting if item.kind in _FIRST] or waiting
    if not deciding:
        return None
    if unknown := next((item for item in deciding if item.expected is None), None):
        return Outlook(unknown, None)
    pull = creation.later(ray=True)[creation.PULL]
    # Pods that started before the image was built pull it since then.
    built = [after(item.expected.latest, pull) for item in items if item.kind == _IMAGE and item.expected]
    ends = {
        item: _latest([item.expected, *(built if item.kind == _RAY_CLUSTER else [])])
        for item in deciding
        if item.expected
    }
    if overdue := next((item for item, end in ends.items() if now > end.latest), None):
        return Outlook(overdue, ends[overdue])
    slowest = max(ends, key=lambda item: ends[item].typical)
    last = _latest(ends.values())
    if slowest.kind in _FIRST and any(item.kind == _RAY_CLUSTER for item in waiting):
        last = ExpectedEnd(*(max(end, now) + timedelta(minutes=m) for end, m in zip(last, pull[:3], strict=True)))
    return Outlook(slowest, last)


def _latest(ends: Iterable[ExpectedEnd]) -> ExpectedEnd:
    return ExpectedEnd(*(max(times) for times in zip(*ends, strict=True)))


def _minutes(length: timedelta) -> int:
    return round(length.total_seconds() / 60)
