"""Show drift to people and to programs."""

from dataclasses import asdict
from typing import Any

from rich.table import Table

from ops.drift.finding import Drifts


def document(environment: str, drifts: Drifts) -> dict[str, Any]:
    """Return the drift as data for programs."""
    return {
        "environment": environment,
        "drift": [asdict(each) for each in drifts.found],
        "not_compared": list(drifts.not_compared),
    }


def table(drifts: Drifts) -> Table:
    """Return the drift as a table."""
    drawn = Table("kind", "name", "differs", box=None, pad_edge=False)
    for each in drifts.found:
        drawn.add_row(each.kind, each.name, each.detail)
    return drawn
