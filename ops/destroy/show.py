"""Describe the plan of a destroy, for people and programs."""

from collections.abc import Iterator
from typing import Any

from config import Environment
from ops.destroy.plan import DestroyPlan, Going


def lines(plan: DestroyPlan, environment: Environment) -> Iterator[str]:
    """Yield the plan's lines: what goes, then what stays and what it costs."""
    if plan.going:
        yield f"{environment.name}: these stacks are destroyed, in this order"
    for going in plan.going:
        state = f" [{going.stack.status}]" if going.stack.status.startswith("DELETE") else ""
        yield f"  {going.stack.name}{state}: {_count(going)}"
        yield from (f"    - {each}" for each in going.notable)
    if plan.data:
        yield "this data is deleted for good; nothing brings it back"
        yield from (f"  {each}" for each in plan.data)
    if plan.staying:
        yield "these stay"
    for staying in plan.staying:
        data = " (holds data)" if staying.holds_data else ""
        cost = f", about US$ {staying.usd_per_hour:,.2f} per hour" if staying.usd_per_hour else ""
        yield f"  {staying.title}: {staying.reason}{data}{cost}"


def _count(going: Going) -> str:
    count = sum(going.kinds.values())
    if not count:
        return "nothing is left in it"
    among = ", among them" if going.notable else ""
    return f"{count} resource{'s' * (count > 1)}{among}"


def document(plan: DestroyPlan) -> dict[str, Any]:
    """Return the plan for programs."""
    return {
        "going": [
            {
                "stack": each.stack.name,
                "status": each.stack.status,
                "resources": dict(each.kinds),
                "notable": list(each.notable),
            }
            for each in plan.going
        ],
        "data": plan.data,
        "staying": [
            {
                "title": each.title,
                "reason": each.reason,
                "holds_data": each.holds_data,
                "usd_per_hour": round(each.usd_per_hour, 4),
            }
            for each in plan.staying
        ],
    }
