"""A stack, its resources, events and exports."""

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from embedded_account.cloudformation.templates.parameters import NO_PARAMETERS, Parameters
from embedded_account.cloudformation.templates.template import Template

STACK_TYPE = "AWS::CloudFormation::Stack"


def now() -> datetime:
    """The moment of an event, in UTC."""
    return datetime.now(UTC)


class Handle(Protocol):
    """What a resource handler keeps of a resource that exists."""

    @property
    def physical_id(self) -> str:
        """What Ref yields."""

    def attribute(self, name: str) -> Any:
        """What Fn::GetAtt yields; raises ResourceError for an attribute that the resource lacks."""


@dataclass
class Resource:
    """One resource of a stack. `properties` are resolved; `definition` is the template's own text of it."""

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
        """The physical id, empty as long as there is none."""
        return self.handle.physical_id if self.handle else ""


@dataclass(frozen=True)
class Event:
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
    """One output; `export` is its export's name, if it has one."""

    key: str
    value: str
    description: str | None
    export: str | None


@dataclass(frozen=True)
class Desired:
    """What a stack is to be: the input of one create or update, already validated."""

    body: str
    template: Template
    parameters: Parameters
    tags: Mapping[str, str]
    capabilities: tuple[str, ...] = ()
    role_arn: str | None = None
    notification_arns: tuple[str, ...] = ()


NOTHING = Desired(body="", template={}, parameters=NO_PARAMETERS, tags={})
"""What a stack is before its first deployment, and what a deletion makes of it."""


@dataclass
class Stack:
    """One stack. `desired` is what was last deployed successfully (or is being deployed for the first time)."""

    stack_id: str
    name: str
    desired: Desired = NOTHING
    status: str = "REVIEW_IN_PROGRESS"
    reason: str | None = None
    resources: dict[str, Resource] = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()
    imports: frozenset[str] = frozenset()
    events: list[Event] = field(default_factory=list)
    termination_protection: bool = False
    rollback_disabled: bool = False
    created: datetime = field(default_factory=now)
    updated: datetime | None = None
    deleted: datetime | None = None
    token: str | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def role_arn(self) -> str | None:
        """The service role of the stack."""
        return self.desired.role_arn

    @property
    def busy(self) -> bool:
        """Whether an operation is going on."""
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    def set_status(self, status: str, reason: str | None = None) -> None:
        """Give the stack a status, with the event that tells it."""
        with self.lock:
            self.status, self.reason = status, reason
            self._add_event(self.name, self.stack_id, STACK_TYPE, status, reason)

    def set_resource_status(self, resource: Resource, status: str, reason: str | None = None) -> None:
        """Give a resource a status, with the event that tells it."""
        with self.lock:
            resource.status, resource.reason, resource.timestamp = status, reason, now()
            self._add_event(resource.logical_id, resource.physical_id, resource.type, status, reason)

    def _add_event(self, logical_id: str, physical_id: str, kind: str, status: str, reason: str | None) -> None:
        # Clients sort events by time, and the API tells milliseconds: no two events of a stack share one.
        moment = now()
        if self.events:
            moment = max(moment, self.events[-1].timestamp + timedelta(milliseconds=1))
        what = (logical_id, physical_id, kind, status, reason)
        self.events.append(Event(self.stack_id, self.name, *what, self.token, moment))
