"""Read an environment's stacks from CloudFormation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from config import Environment, naming

DESTROY_ORDER: Final = tuple(reversed(naming.STACKS))
"""The stacks in the order in which they are destroyed: each before those that it uses."""
_GIVEN_UP: Final = frozenset({"DELETE_COMPLETE", "DELETE_SKIPPED"})
"""A stack still lists what it deleted, and what it left behind when it was rolled back: that has no owner."""


@dataclass(frozen=True)
class DeployedStack:
    """A stack that exists."""

    part: str
    name: str
    id: str
    status: str
    reason: str
    protected: bool
    """CloudFormation refuses to delete it (termination protection)."""

    @property
    def is_being_deleted(self) -> bool:
        """Return whether a deletion runs."""
        return self.status == "DELETE_IN_PROGRESS"

    @property
    def is_busy(self) -> bool:
        """Return whether another change runs, which a deletion would have to wait for."""
        return self.status.endswith("_IN_PROGRESS") and not self.is_being_deleted


def existing(cloudformation: Any, environment: Environment) -> list[DeployedStack]:
    """Return the environment's stacks that exist, in DESTROY_ORDER."""
    parts = reversed(environment.stacks)
    return [stack for part in parts if (stack := find(cloudformation, environment, part))]


def find(cloudformation: Any, environment: Environment, part: str) -> DeployedStack | None:
    """Return the environment's stack of this part, or None if it does not exist."""
    name = naming.stack(environment, part)
    try:
        found = _described(cloudformation, name)
    except ClientError as error:
        # CloudFormation has no code of its own for a stack that does not exist.
        if error.response["Error"]["Code"] == "ValidationError" and "does not exist" in str(error):
            return None
        raise
    return DeployedStack(
        part,
        name,
        found["StackId"],
        found["StackStatus"],
        found.get("StackStatusReason", ""),
        found.get("EnableTerminationProtection", False),
    )


def status(cloudformation: Any, stack: str) -> str:
    """Return the status of a stack, which is given by its name, or by its id if it may be deleted by now."""
    return str(_described(cloudformation, stack)["StackStatus"])


def resources(cloudformation: Any, stack: DeployedStack) -> list[Mapping[str, Any]]:
    """Return the summaries of the resources that the stack owns."""
    pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack.id)
    listed = (each for page in pages for each in page["StackResourceSummaries"])
    return [each for each in listed if each["ResourceStatus"] not in _GIVEN_UP]


def template(cloudformation: Any, stack: DeployedStack) -> Mapping[str, Any]:
    """Return the template with which the stack was deployed."""
    return dict(cloudformation.get_template(StackName=stack.id)["TemplateBody"])


def failures(cloudformation: Any, stack: DeployedStack) -> list[str]:
    """Return why resources of the stack's last deletion failed, newest first: `logical id: reason`."""
    parts = []
    pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack.id)
    for event in (each for page in pages for each in page["StackEvents"]):
        of_stack = event["ResourceType"] == "AWS::CloudFormation::Stack"
        if of_stack and event["ResourceStatus"] == "DELETE_IN_PROGRESS":
            break
        if event["ResourceStatus"] == "DELETE_FAILED" and not of_stack:
            parts.append(f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', 'no reason given')}")
    return parts


def _described(cloudformation: Any, stack: str) -> Mapping[str, Any]:
    [found] = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    return dict(found)
