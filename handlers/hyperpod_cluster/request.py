"""CloudFormation's request to the custom resource, in the form that the provider framework passes on."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

CONFIRMED = "ConfirmGroupRemoval"
"""The instance groups that an update may remove.

This property and SLEEPING are no fields of CreateCluster. A rollback or a Delete sends properties of older templates:
properties may be added, but never renamed or dropped.
"""
SLEEPING = "SleepingGroups"
"""The instance groups whose counts GroupCounts sets, by name, with the nodes that stay: `{"gpu": 0}`."""

# Properties that CloudFormation and CDK add to every custom resource, and our own.
NO_FIELDS = frozenset({"ServiceToken", "ServiceTimeout", CONFIRMED, SLEEPING})

# The address for the answer is a presigned URL of S3, which says when CloudFormation signed it.
_SIGNED = re.compile(r"[?&]X-Amz-Date=(\d{8}T\d{6}Z)")


@dataclass(frozen=True)
class CustomResourceRequest:
    """One request of CloudFormation. All scalars in the properties are strings, as CloudFormation sends them.

    `id` and `issued` are CloudFormation's, the same in every delivery; `issued` is the time of the request, and sorts
    as text ("" if unknown). `properties` and `old_properties` hold fields of CreateCluster; `confirmed` holds the group
    names in the template's CONFIRMED property, `confirmed_before` those of the template before; `sleeping` holds the
    template's SLEEPING property.

    `on_event` returns the other five, and the framework passes them to `is_complete`: `accepted_at` is when `on_event`
    ended (seconds since the epoch); `deferred` says that an update may still have to be sent; `goes_back` says whether
    the stack is rolled back (None: not asked yet); `newest_before` is the request that was the newest before this one;
    `updated_arn` is the cluster that an update or a deletion found ("" from an older version of this code).
    """

    type: str
    stack_id: str
    logical_id: str
    id: str = ""
    issued: str = ""
    physical_id: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)
    old_properties: Mapping[str, Any] = field(default_factory=dict)
    confirmed: frozenset[str] = frozenset()
    confirmed_before: frozenset[str] = frozenset()
    sleeping: Mapping[str, int] = field(default_factory=dict)
    accepted_at: float = 0.0
    deferred: bool = False
    goes_back: bool | None = None
    newest_before: str = ""
    updated_arn: str = ""

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> Self:
        """Return the request in the framework's event, of `on_event` or of `is_complete`."""
        signed = _SIGNED.search(event.get("ResponseURL", ""))
        return cls(
            type=event["RequestType"],
            stack_id=event["StackId"],
            logical_id=event["LogicalResourceId"],
            id=event["RequestId"],
            issued=signed[1] if signed else "",
            physical_id=event.get("PhysicalResourceId", ""),
            properties=_fields(event.get("ResourceProperties", {})),
            old_properties=_fields(event.get("OldResourceProperties", {})),
            confirmed=_names(event.get("ResourceProperties", {}).get(CONFIRMED)),
            confirmed_before=_names(event.get("OldResourceProperties", {}).get(CONFIRMED)),
            sleeping=_numbers(event.get("ResourceProperties", {}).get(SLEEPING)),
            accepted_at=event.get("AcceptedAt", 0.0),
            deferred=event.get("UpdateDeferred", False),
            goes_back=event.get("GoesBack"),
            newest_before=event.get("NewestBefore", ""),
            updated_arn=event.get("UpdatedArn", ""),
        )


def _fields(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if key not in NO_FIELDS}


def _names(value: Any) -> frozenset[str]:
    """Return the names in the list; an empty set unless `value` is a list."""
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset()


def _numbers(value: Any) -> dict[str, int]:
    """Return the numbers in the mapping, by name; an empty mapping unless `value` is a mapping."""
    given = value.items() if isinstance(value, Mapping) else ()
    return {str(name): int(number) for name, number in given if str(number).isdecimal()}
