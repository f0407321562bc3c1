"""CloudFormation's request to the custom resource, as the provider framework passes it on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

CONFIRMED = "ConfirmGroupRemoval"
"""The one property that is no field of CreateCluster: names of instance groups that an update may remove.

Older versions of a template come back on rollback and Delete: a property may be added here, never renamed or dropped.
"""

# What CloudFormation and CDK add to the properties of every custom resource, and our own.
_NO_FIELDS = frozenset({"ServiceToken", "ServiceTimeout", CONFIRMED})


@dataclass(frozen=True)
class Request:
    """One request. All scalars in the properties are strings: CloudFormation sends no other.

    `accepted_at` (seconds since the epoch), `deferred`, `goes_back` and `newest_before` are `on_event`'s own answers,
    which the framework hands to `is_complete`: when `on_event` was done, whether an update may still have to be sent,
    whether the request takes its stack back (None: not asked yet), and which request was the newest before it.
    `properties` and
    `old_properties` are fields of CreateCluster; `confirmed` are the names that the template gives for CONFIRMED. `id`
    is CloudFormation's, the same in every delivery.
    """

    type: str
    stack_id: str
    logical_id: str
    id: str = ""
    physical_id: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)
    old_properties: Mapping[str, Any] = field(default_factory=dict)
    confirmed: frozenset[str] = frozenset()
    accepted_at: float = 0.0
    deferred: bool = False
    goes_back: bool | None = None
    newest_before: str = ""

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> Self:
        """Read the framework's event, of `on_event` or of `is_complete`."""
        return cls(
            type=event["RequestType"],
            stack_id=event["StackId"],
            logical_id=event["LogicalResourceId"],
            id=event["RequestId"],
            physical_id=event.get("PhysicalResourceId", ""),
            properties=_fields(event.get("ResourceProperties", {})),
            old_properties=_fields(event.get("OldResourceProperties", {})),
            confirmed=_names(event.get("ResourceProperties", {}).get(CONFIRMED)),
            accepted_at=event.get("AcceptedAt", 0.0),
            deferred=event.get("UpdateDeferred", False),
            goes_back=event.get("GoesBack"),
            newest_before=event.get("NewestBefore", ""),
        )


def _fields(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if key not in _NO_FIELDS}


def _names(value: Any) -> frozenset[str]:
    """What is no list of names confirms nothing."""
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset()
