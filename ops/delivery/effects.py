"""Say what a planned deployment does, by the rules of a review: its base is what is deployed.

The stacks' templates are known on both sides. What they load, such as lifecycle scripts and the code of functions, is
known on the new side only: if it differs, all of it counts as new.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from config import Environment
from ops.delivery.plan import StackPlan
from ops.review.assembly import Assembly, Pair
from ops.review.kubernetes.differences import notes
from ops.review.model import Compared, Verdict
from ops.review.verdict import verdict_on

_STACK: Final = "aws:cloudformation:stack"


def verdict(environment: Environment, plans: Sequence[StackPlan], assembly: Path) -> Verdict:
    """Return the verdict on the plan.

    Raises ReviewError if the assembly cannot be read, or a chart not be rendered.
    """
    head = Assembly(assembly)
    with tempfile.TemporaryDirectory() as scratch:
        deployed = {each.name: each for each in plans if each.deployed is not None}
        base = _deployed(head, deployed, Path(scratch)) if deployed else None
        pair = Pair(environment.name, base, head)
        found = verdict_on(pair)
        return Verdict((found,), tuple(notes(pair)), Compared("", "", {}, every_environment=False))


def rows(verdict: Verdict) -> list[dict[str, Any]]:
    """Return the effects for programs, the worst first."""
    return [
        {
            "stack": each.stack,
            "title": each.title,
            "what": each.what,
            "effect": each.effect.value,
            "reason": each.reason,
            "action": each.action,
            "dangers": sorted(each.gated),
        }
        for environment in verdict.environments
        for each in environment.changes
    ]


def _deployed(head: Assembly, deployed: Mapping[str, StackPlan], folder: Path) -> Assembly:
    """Write the deployed stacks as an assembly. What CloudFormation was not asked for is as in the new one."""
    artifacts: dict[str, Any] = {}
    for stack in head.stacks.values():
        if plan := deployed.get(stack.name):
            file = f"{stack.name}.template.json"
            (folder / file).write_text(json.dumps(plan.deployed))
            settings = {key: value for key, value in stack.settings.items() if key != "environment"}
            own = {"templateFile": file, "stackName": stack.name, "terminationProtection": plan.protected}
            artifacts[stack.artifact] = {
                "type": _STACK,
                "environment": stack.settings["environment"],
                "properties": {**settings, **own},
                "dependencies": sorted(stack.dependencies),
            }
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return Assembly(folder)
