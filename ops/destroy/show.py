"""Describe the plan of a destroy, for people and programs."""

from collections.abc import Iterator
from typing import Any

from config import Environment
from ops.destroy.plan import Plan


def lines(plan: Plan, environment: Environment) -> Iterator[str]:
    """Yield the plan's lines: what goes, then what stays."""
    if plan.going:
        yield f"{environment.name}: these stacks are destroyed, in this order"
    for going in plan.going:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(going.kinds.items()))
        state = f" [{going.stack.status}]" if going.stack.status.startswith("DELETE") else ""
        yield f"  {going.stack.name}{state}: {kinds or 'nothing is left in it'}"
    if plan.staying:
        yield "these stay"
    for staying in plan.staying:
        yield f"  {staying.title}: {staying.reason}{' (holds data)' if staying.holds_data else ''}"


def document(plan: Plan) -> dict[str, Any]:
    """Return the plan for programs."""
    return {
        "going": [
            {"stack": each.stack.name, "status": each.stack.status, "resources": dict(each.kinds)}
            for each in plan.going
        ],
        "staying": [
            {"title": each.title, "reason": each.reason, "holds_data": each.holds_data} for each in plan.staying
        ],
    }
