"""Define the interface between the engine and the handlers that create, update and delete resources."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from embedded_account.cloudformation.stack import Handle
from embedded_account.errors import ResourceError

Properties = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """The resource and stack of one action."""

    stack_id: str
    stack_name: str
    logical_id: str
    type: str
    tags: Mapping[str, str]


class LeftBehindError(ResourceError):
    """A creation or an update failed after it created something; `handle` is what must be deleted."""

    def __init__(self, message: str, handle: Handle) -> None:
        super().__init__(message)
        self.handle = handle


class ResourceHandler(Protocol):
    """Creates, updates in place and deletes resources. Any exception fails the resource."""

    def create(self, target: Target, properties: Properties) -> Handle:
        """Create the resource and wait until it is usable; return its handle."""

    def update(self, target: Target, handle: Handle, old: Properties, new: Properties) -> Handle:
        """Update the resource; return its handle.

        A handle with another physical id means a replacement: the engine then deletes the old resource.
        """

    def delete(self, target: Target, handle: Handle, properties: Properties) -> None:
        """Delete the resource and wait until it is gone. A missing resource is no failure."""


@dataclass(frozen=True)
class MarkerHandle:
    """A resource that CloudFormation itself creates and that does nothing."""

    physical_id: str

    def attribute(self, name: str) -> Any:
        raise ResourceError(f"Template error: resource {self.physical_id} does not support attribute {name}")


class Marker:
    """AWS::CDK::Metadata: CDK's record of the constructs that a stack uses."""

    def create(self, target: Target, properties: Properties) -> Handle:  # noqa: ARG002 - the protocol's shape
        return MarkerHandle(target.logical_id)

    def update(self, target: Target, handle: Handle, old: Properties, new: Properties) -> Handle:  # noqa: ARG002
        return handle

    def delete(self, target: Target, handle: Handle, properties: Properties) -> None:
        """Do nothing: a marker has no resource behind it."""
