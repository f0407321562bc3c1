"""Describe a decision of the gate, for people and programs."""

from collections.abc import Iterator
from typing import Any

from ops.gate.decision import Decision, Stop
from ops.review.report.approvals import entries, file
from ops.review.report.outcome import owners


def lines(decision: Decision) -> Iterator[str]:
    """Yield what owners must read, what is approved, then what stops with the entry that would approve it."""
    yield from owners(decision.content)
    for passed in decision.passed:
        change = passed.change
        yield f"approved  {passed.environment}: {change.title}: {change.what} ({', '.join(passed.by)})"
    for stop in decision.stops:
        change = stop.change
        yield f"STOPPED   {stop.environment}: {change.title}: {change.what}: {change.effect}"
        if change.reason:
            yield f"          {change.reason}"
        yield from (f"          {line}" for line in _entry(stop))
    if decision.opens:
        yield "the gate is open: nothing needs an approval that it lacks"
    elif decision.stops:
        yield f"the gate is closed: {len(decision.stops)} changes need an approval"


def document(decision: Decision) -> dict[str, Any]:
    """Return the decision for programs."""
    return {
        "opens": decision.opens,
        "stopped": [
            {
                "environment": each.environment,
                "stack": each.change.stack,
                "resource": each.change.resource,
                "title": each.change.title,
                "what": each.change.what,
                "effect": each.change.effect.value,
                "reason": each.change.reason,
                "dangers": [danger.value for danger in each.dangers],
                "digest": each.change.digest,
            }
            for each in decision.stops
        ],
        "approved": [
            {"environment": each.environment, "resource": each.change.resource, "by": list(each.by)}
            for each in decision.passed
        ],
        "errors": [str(finding) for finding in decision.errors],
    }


def _entry(stop: Stop) -> Iterator[str]:
    """Yield what a reviewer would write into the approvals file, if he accepts the change."""
    yield f"to accept it, add to {file(stop.environment)} under `approvals:`"
    yield from entries(stop.change, stop.dangers)
