"""Compare a synthesised app with what is deployed, and sum up both sides in one digest.

A change set follows from the deployed template and the new one; the stacks' only parameter is the bootstrap's version.
Two plans with the same digest therefore make the same change sets: nothing was deployed between them, and the source
is the same.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config import Environment, naming
from ops import stacks
from ops.errors import in_plain_words

Template = Mapping[str, Any]


class AssemblyError(Exception):
    """The folder with the synthesis cannot be used; the message says why."""


@dataclass(frozen=True)
class PlannedChange:
    """A resource that a deployment adds, removes or changes."""

    change: str
    type: str
    logical_id: str


@dataclass(frozen=True)
class StackPlan:
    """One stack: `deployed` is None if it does not exist."""

    name: str
    deployed: Template | None
    new: Template
    protected: bool = False
    """Whether termination protection is on now."""

    def changes(self) -> Iterator[PlannedChange]:
        """Yield the resources whose text in the template differs."""
        before = (self.deployed or {}).get("Resources", {})
        after = self.new.get("Resources", {})
        for id in sorted(before.keys() | after.keys()):
            if before.get(id) == after.get(id):
                continue
            change = "add" if id not in before else "remove" if id not in after else "change"
            yield PlannedChange(change, (after.get(id) or before[id])["Type"], id)


def plan(environment: Environment, cloudformation: Any, assembly: Path) -> list[StackPlan]:
    """Return the plan of every stack of the environment, in the order of the deployment.

    Raises AssemblyError if the folder lacks a template, UnreachableError if AWS refuses to show one.
    """
    new = {part: _read(assembly, naming.stack(environment, part)) for part in environment.stacks}
    with in_plain_words():
        # A change set in review has made a stack without a template.
        there = [each for each in stacks.existing(cloudformation, environment) if each.status != "REVIEW_IN_PROGRESS"]
        deployed = {each.part: stacks.template(cloudformation, each) for each in there}
    protected = {each.part for each in there if each.protected}
    return [
        StackPlan(naming.stack(environment, part), deployed.get(part), body, part in protected)
        for part, body in new.items()
    ]


def digest(plans: Sequence[StackPlan]) -> str:
    """Return the SHA-256 of the deployed and the new template of every stack."""
    both = [[each.name, each.deployed, each.new] for each in plans]
    return hashlib.sha256(json.dumps(both, sort_keys=True).encode()).hexdigest()


def _read(assembly: Path, stack: str) -> Template:
    file = assembly / f"{stack}.template.json"
    try:
        body: Template = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise AssemblyError(
            f"{file} cannot be read: {reason}. Fix: run `cdk synth` for this environment, or correct --app"
        ) from error
    return body
