"""Compare the planned costs with those of what exists, and draw them for people and programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from config import Environment
from config.estimates import costs
from config.estimates.costs import HOURS_PER_MONTH, Cost, SleepingNodes


@dataclass(frozen=True)
class EnvironmentCosts:
    """The costs of an environment. `live` is None if the account was not asked."""

    environment: Environment
    planned: Sequence[Cost]
    live: Sequence[Cost] | None = None

    @property
    def unpriced(self) -> list[str]:
        """What the sums leave out."""
        lines = [*self.planned, *(self.live or [])]
        missing = dict.fromkeys(line.what for line in lines if line.usd_per_hour is None)
        return [*missing, *costs.unpriced(self.environment)]

    @property
    def rows(self) -> list[tuple[str, Cost | None, Cost | None]]:
        """Item, planned and live line of each item, in the order of the file; then what only exists."""
        planned, live = _by_item(self.planned), _by_item(self.live or [])
        return [(item, planned.get(item), live.get(item)) for item in dict.fromkeys([*planned, *live])]


def table(bill: EnvironmentCosts) -> Group:
    """Return the costs per hour for people, with the sums per hour and month."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("cost", no_wrap=True)
    sides = ("planned",) if bill.live is None else ("planned", "now")
    for side in sides:
        drawn.add_column(side, no_wrap=True)
        drawn.add_column("US$ per hour", justify="right", no_wrap=True)
    for item, *both in bill.rows:
        drawn.add_row(item, *(cell for line in both[: len(sides)] for cell in _cells(line)))
    drawn.add_section()
    sums = [_sum(lines) for lines in (bill.planned, bill.live)[: len(sides)] if lines is not None]
    drawn.add_row("per hour", *(cell for usd in sums for cell in ("", f"{usd:,.2f}")), style="bold")
    drawn.add_row("per month", *(cell for usd in sums for cell in ("", f"{usd * HOURS_PER_MONTH:,.0f}")), style="bold")
    return Group(drawn, *map(_of_a_sleeper, costs.sleeping(bill.environment)), Text(_note(bill), style="dim"))


def document(bill: EnvironmentCosts) -> dict[str, Any]:
    """Return the costs for programs; `live` is null if the account was not asked."""
    table = costs.prices()
    return {
        "environment": bill.environment.name,
        "prices": {"date": table["date"], "region": table["region"]},
        "planned": _side(bill.planned),
        "live": None if bill.live is None else _side(bill.live),
        "sleeping": [
            {
                "item": each.group,
                "asleep_usd_per_hour": round(each.asleep, 4),
                "awake_usd_per_hour": round(each.awake, 4),
                "least_usd_per_month": round(each.least_per_month, 2),
            }
            for each in costs.sleeping(bill.environment)
        ],
        "unpriced": bill.unpriced,
    }


def _of_a_sleeper(group: SleepingNodes) -> str:
    """Say what a group costs that sleeps while nothing uses it: the sums count it as always awake."""
    hours = f", awake {group.hours_per_week:g} hours a week" if group.hours_per_week else ""
    return (
        f"{group.group} sleeps while nothing uses it, at {group.asleep:,.2f} per hour: unused{hours}, it costs "
        f"{group.least_per_month:,.0f} per month instead of {group.awake * HOURS_PER_MONTH:,.0f}"
    )


def _by_item(lines: Sequence[Cost]) -> dict[str, Cost]:
    """Return the lines by item; two of one name (file systems of two claims) are numbered."""
    found: dict[str, Cost] = {}
    for line in lines:
        number = sum(each.item == line.item for each in found.values()) + 1
        found[line.item if number == 1 else f"{line.item} ({number})"] = line
    return found


def _cells(line: Cost | None) -> tuple[str, str]:
    if line is None:
        return "none", "0.00"
    return line.amount or "1", "no price" if line.usd_per_hour is None else f"{line.usd_per_hour:,.2f}"


def _side(lines: Sequence[Cost]) -> dict[str, Any]:
    usd = _sum(lines)
    return {
        "usd_per_hour": round(usd, 4),
        "usd_per_month": round(usd * HOURS_PER_MONTH, 2),
        "items": [{"item": each.item, "amount": each.amount, "usd_per_hour": each.usd_per_hour} for each in lines],
    }


def _sum(lines: Sequence[Cost]) -> float:
    return sum(line.usd_per_hour or 0.0 for line in lines)


def _note(bill: EnvironmentCosts) -> str:
    table = costs.prices()
    region = bill.environment.region
    elsewhere = "" if region == table["region"] else f"; {region} has other prices"
    return (
        f"On-demand prices of {table['region']} as of {table['date']}{elsewhere}.\n"
        f"Not priced: {', '.join(bill.unpriced)}."
    )
