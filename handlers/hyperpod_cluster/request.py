"""CloudFormation's request to the custom resource, in the form that the provider framework passes on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

CONFIRMED = "ConfirmGroupRemoval"
"""The only property that is not a field of CreateCluster: names of instance groups that an update may remove.

A rollback and a Delete send properties of older templates: add properties here, never rename or remove one.
"""

# The properties that CloudFormation and CDK add to every custom resource, and our own.
_NO_FIELDS = frozenset({"ServiceToken", "ServiceTimeout", CONFIRMED})


@dataclass(frozen=True)
class Request:
    """One request. All scalars in the properties are strings, because CloudFormation sends only strings.

    `properties` and `old_properties` are fields of CreateCluster; `confirmed` has the names that the template gives for
    CONFIRMED. `id` is CloudFormation's id, the same in every delivery.

    The framework hands these answers of `on_event` to `is_complete`: `accepted_at`, when `on_event` ended, in seconds
    since the epoch; `deferred`, whether an update may still have to be sent; `goes_back`, whether the request rolls
    its stack back (None: not determined yet); `newest_before`, the id of the newest request before this one.
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
        """Return the request in the framework's event for `on_event` or `is_complete`."""
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
    """Return an empty set unless `value` is a list."""
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset()
