"""Hold one statement of a policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

STACK_TAG: Final = "aws:ResourceTag/aws:cloudformation:stack-name"
"""The condition key of the tag with the stack's name, which CloudFormation sets on all that it creates and tags."""
Conditions = Mapping[str, Mapping[str, str | Sequence[str]]]


@dataclass(frozen=True)
class Statement:
    """Actions on resources. `denies` makes it an exception from what other statements allow."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Conditions = field(default_factory=dict)
    denies: bool = False

    def document(self) -> dict[str, Any]:
        """Return the statement in IAM's form."""
        given: dict[str, Any] = {
            "Sid": self.sid,
            "Effect": "Deny" if self.denies else "Allow",
            "Action": sorted(self.actions),
            "Resource": list(self.resources),
        }
        if self.conditions:
            given["Condition"] = {operator: _values(keys) for operator, keys in self.conditions.items()}
        return given


def _values(keys: Mapping[str, str | Sequence[str]]) -> dict[str, Any]:
    return {key: value if isinstance(value, str) else list(value) for key, value in keys.items()}


def actions(service: str, names: str) -> tuple[str, ...]:
    """Return the actions of a service, from names with spaces between them."""
    return tuple(f"{service}:{name}" for name in names.split())
