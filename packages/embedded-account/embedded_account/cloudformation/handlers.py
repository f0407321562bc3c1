"""What the engine asks of whoever creates, changes and deletes resources of a type."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from embedded_account.cloudformation.stack import Handle
from embedded_account.errors import ResourceError

Properties = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """Which resource of which stack is meant."""

    stack_id: str
    stack_name: str
    logical_id: str
    type: str
    tags: Mapping[str, str]


class LeftBehindError(ResourceError):
    """A creation or an update failed after something came to be; `handle` is what must be deleted."""

    def __init__(self, message: str, handle: Handle) -> None:
        super().__init__(message)
        self.handle = handle


class Handler(Protocol):
    """Creates, updates in place and deletes resources. Any exception fails the resource."""

    def create(self, target: Target, properties: Properties) -> Handle:
        """Create the resource and wait until it is usable."""

    def update(self, target: Target, handle: Handle, old: Properties, new: Properties) -> Handle:
        """Change the resource. A handle with another physical id is a replacement: the engine deletes the old."""

    def delete(self, target: Target, handle: Handle, properties: Properties) -> None:
        """Delete the resource and wait until it is gone. One that is gone already is no failure."""


@dataclass(frozen=True)
class MarkerHandle:
    """A resource that CloudFormation itself makes and that does nothing."""

    physical_id: str

    def attribute(self, name: str) -> Any:
        raise ResourceError(f"Template error: resource {self.physical_id} does not support attribute {name}")


class Marker:
    """AWS::CDK::Metadata: CDK's note of which constructs a stack uses."""

    def create(self, target: Target, properties: Properties) -> Handle:  # noqa: ARG002 - the protocol's shape
        return MarkerHandle(target.logical_id)

    def update(self, target: Target, handle: Handle, old: Properties, new: Properties) -> Handle:  # noqa: ARG002
        return handle

    def delete(self, target: Target, handle: Handle, properties: Properties) -> None:
        """Nothing is there to go."""
