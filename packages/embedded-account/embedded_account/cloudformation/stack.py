"""A stack, its resources, events and exports."""

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from embedded_account.cloudformation.templates.parameters import NO_PARAMETERS, DeploymentParameters
from embedded_account.cloudformation.templates.template import Template

STACK_TYPE = "AWS::CloudFormation::Stack"


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


class Handle(Protocol):
    """What a resource handler keeps for an existing resource."""

    @property
    def physical_id(self) -> str:
        """Return what Ref returns."""

    def attribute(self, name: str) -> Any:
        """Return what Fn::GetAtt returns. Raises ResourceError if the resource lacks the attribute."""


@dataclass
class StackResource:
    """One resource of a stack. `properties` are resolved; `definition` is the resource's text in the template."""

    logical_id: str
    type: str
    definition: dict[str, Any]
    properties: dict[str, Any]
    depends_on: frozenset[str]
    handle: Handle | None = None
    status: str = ""
    reason: str | None = None
    timestamp: datetime = field(default_factory=now)

    @property
    def physical_id(self) -> str:
        """Return the physical id, or an empty string if there is none yet."""
        return self.handle.physical_id if self.handle else ""


@dataclass(frozen=True)
class StackEvent:
    """One entry of DescribeStackEvents."""

    stack_id: str
    stack_name: str
    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str | None
    token: str | None
    timestamp: datetime
    event_id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass(frozen=True)
class Output:
    """One output of a stack; `export` is the name of its export, if it has one."""

    key: str
    value: str
    description: str | None
    export: str | None


@dataclass(frozen=True)
class Desired:
    """The desired state of a stack: the validated input of one create or update."""

    body: str
    template: Template
    parameters: DeploymentParameters
    tags: Mapping[str, str]
    capabilities: tuple[str, ...] = ()
    role_arn: str | None = None
    needs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The resources whose conditions hold, and for each those that must exist before it."""

    @property
    def live(self) -> dict[str, dict[str, Any]]:
        """The definitions of the resources whose conditions hold."""
        return {name: self.template["Resources"][name] for name in self.needs}


NOTHING = Desired(body="", template={}, parameters=NO_PARAMETERS, tags={})
"""The state of a stack before its first deployment and after its deletion."""


@dataclass
class Stack:
    """One stack. `desired` was last deployed successfully, or is being deployed for the first time."""

    stack_id: str
    name: str
    desired: Desired = NOTHING
    status: str = "REVIEW_IN_PROGRESS"
    reason: str | None = None
    resources: dict[str, StackResource] = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()
    imports: frozenset[str] = frozenset()
    events: list[StackEvent] = field(default_factory=list)
    termination_protection: bool = False
    created: datetime = field(default_factory=now)
    updated: datetime | None = None
    deleted: datetime | None = None
    token: str | None = None
    caller: str = ""
    """The ARN of who asked for the last operation; CloudFormation acts with the caller's rights if it has no role."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def role_arn(self) -> str | None:
        """Return the service role of the stack, or None."""
        return self.desired.role_arn

    @property
    def busy(self) -> bool:
        """Return whether an operation is running."""
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    def set_status(self, status: str, reason: str | None = None) -> None:
        """Set the stack's status, and add its event."""
        with self.lock:
            self.status, self.reason = status, reason
            self._add_event(self.name, self.stack_id, STACK_TYPE, status, reason)

    def set_resource_status(self, resource: StackResource, status: str, reason: str | None = None) -> None:
        """Set a resource's status, and add its event."""
        with self.lock:
            resource.status, resource.reason, resource.timestamp = status, reason, now()
            self._add_event(resource.logical_id, resource.physical_id, resource.type, status, reason)

    def _add_event(self, logical_id: str, physical_id: str, kind: str, status: str, reason: str | None) -> None:
        # Clients sort events by time, and the API has milliseconds: no two events of a stack may have the same time.
        moment = now()
        if self.events:
            moment = max(moment, self.events[-1].timestamp + timedelta(milliseconds=1))
        what = (logical_id, physical_id, kind, status, reason)
        self.events.append(StackEvent(self.stack_id, self.name, *what, self.token, moment))
