"""Drill: AWS has fewer instances than the environment asks for, and later has them."""

from typing import Final

from rehearsal.drills.context import DrillContext
from rehearsal.drills.drill import Drill
from rehearsal.run.steps import RehearsalError

SHORTAGE: Final = "do not have sufficient"
"""Words of the event that HyperPod writes about a shortage."""


def play(context: DrillContext) -> None:
    """Deploy with one instance too few; look with `ops wait`; let the capacity come."""
    context.without("hyperpod")
    group = context.environment.hyperpod.instance_groups[-1]
    available = group.count - 1
    told = f"AWS has {available} {group.instance_type}, {group.name} asks for {group.count}"
    context.faults(told, capacity={group.instance_type: available})
    context.deploy()
    if (status := context.stack_status("hyperpod")) != "CREATE_COMPLETE":
        raise RehearsalError(f"a shortage must not fail the deployment; the hyperpod stack is {status}")

    printed = context.ops("wait", "--timeout", "0.3", "--interval", "1", expect=(1,))
    for what, words in {
        "how many nodes there are": f"{available} of {group.count} nodes",
        "why the others are not": SHORTAGE,
        "how to go on": "goes on where this stopped",
    }.items():
        if words not in printed:
            raise RehearsalError(f"`ops wait` must say {what} ({words!r})")
    context.ops("wait", "--require", "min", "--timeout", "5", "--interval", "1")

    context.faults(f"AWS has {group.instance_type} again", capacity={group.instance_type: None})
    context.ops("wait", "--timeout", "5", "--interval", "1")


DRILL: Final = Drill(
    name="capacity",
    promise="A shortage of instances does not fail the deployment; `ops wait` says what is missing and why, and is "
    "content when the capacity comes.",
    play=play,
    context=DrillContext,
)
