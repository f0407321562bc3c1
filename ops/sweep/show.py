"""Draw what a sweep found, for people and programs."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from ops.sweep.leftover import Leftover


def table(leftovers: Sequence[Leftover]) -> Table:
    """Return a table with a row per leftover."""
    drawn = Table("kind", "id", "data", "US$ a month", "why it is there", box=None, pad_edge=False)
    for each in leftovers:
        drawn.add_row(each.kind, each.id, "yes" if each.holds_data else "", _price(each), each.reason)
    return drawn


def document(leftovers: Sequence[Leftover], not_seen: Sequence[str]) -> dict[str, Any]:
    """Return what was found for programs."""
    return {
        "leftovers": [
            {
                "kind": each.kind,
                "id": each.id,
                "reason": each.reason,
                "holds_data": each.holds_data,
                "usd_per_month": each.usd_per_month,
            }
            for each in leftovers
        ],
        "not_seen": list(not_seen),
    }


def _price(leftover: Leftover) -> str:
    return "" if leftover.usd_per_month is None else f"{leftover.usd_per_month:,.2f}"
