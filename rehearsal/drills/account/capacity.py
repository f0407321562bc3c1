"""Drill: AWS has fewer instances than the environment needs, and more of them later."""

from typing import Final

from rehearsal.drills.context import DrillContext
from rehearsal.drills.drill import Drill
from rehearsal.run.steps import RehearsalError

SHORTAGE: Final = "do not have sufficient"
"""Words of HyperPod's event about a shortage."""


def play(context: DrillContext) -> None:
    """Deploy with one instance too few; run `ops wait`; make the capacity available."""
    context.without("hyperpod")
    group = context.environment.hyperpod.instance_groups[-1]
    available = group.count - 1
    message = f"AWS has {available} {group.instance_type}; {group.name} needs {group.count}"
    context.faults(message, capacity={group.instance_type: available})
    context.deploy()
    if (status := context.stack_status("hyperpod")) != "CREATE_COMPLETE":
        raise RehearsalError(f"a shortage must not fail the deployment; the hyperpod stack is {status}")

    printed = context.ops("wait", "--timeout", "18s", "--interval", "1s", expect=(1,))
    for what, words in {
        "how many nodes there are": f"{available} of {group.count} nodes",
        "why the others are not": SHORTAGE,
        "how to resume": "rerun `ops wait",
    }.items():
        if words not in printed:
            raise RehearsalError(f"`ops wait` must say {what} ({words!r})")
    context.ops("wait", "--require", "min", "--timeout", "15m", "--interval", "1s")

    context.faults(f"AWS has enough {group.instance_type} again", capacity={group.instance_type: None})
    context.ops("wait", "--timeout", "15m", "--interval", "1s")


DRILL: Final = Drill(
    name="capacity",
    promise="A shortage of instances does not fail the deployment; `ops wait` shows what is missing and why, and "
    "succeeds once the capacity is available.",
    play=play,
    context=DrillContext,
)
