"""CloudFormation's request to the custom resource, as the provider framework passes it on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

# What CloudFormation and CDK add to the properties of every custom resource.
_NOT_OURS = frozenset({"ServiceToken", "ServiceTimeout"})


@dataclass(frozen=True)
class Request:
    """One request. All scalars in the properties are strings: CloudFormation sends no other.

    `accepted_at` (seconds since the epoch) and `deferred` are `on_event`'s own answers, which the framework hands
    to `is_complete`: when the cluster's creation was accepted, and whether an update still has to be sent.
    """

    type: str
    stack_id: str
    logical_id: str
    physical_id: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)
    old_properties: Mapping[str, Any] = field(default_factory=dict)
    accepted_at: float = 0.0
    deferred: bool = False

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> Self:
        """Read the framework's event, of `on_event` or of `is_complete`."""
        return cls(
            type=event["RequestType"],
            stack_id=event["StackId"],
            logical_id=event["LogicalResourceId"],
            physical_id=event.get("PhysicalResourceId", ""),
            properties=_ours(event.get("ResourceProperties", {})),
            old_properties=_ours(event.get("OldResourceProperties", {})),
            accepted_at=event.get("AcceptedAt", 0.0),
            deferred=event.get("UpdateDeferred", False),
        )


def _ours(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if key not in _NOT_OURS}
