"""Pack statements into managed policies that IAM accepts."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from config import Environment, naming
from ops.policy.role import PersonRole
from ops.policy.roles import statements
from ops.policy.statement import Statement

MOST_CHARACTERS: Final = 6_144
"""The size of a managed policy without white space (IAM user guide, "IAM and AWS STS quotas")."""
MOST_POLICIES: Final = 10
"""Managed policies of a role, by the default quota (same page)."""


@dataclass(frozen=True)
class PolicyDocument:
    """A managed policy: its name, and its document in IAM's form."""

    name: str
    document: dict[str, Any]

    @property
    def characters(self) -> int:
        """Return the size as IAM counts it."""
        return _size(self.document)


def documents(role: PersonRole, environment: Environment) -> list[PolicyDocument]:
    """Return the role's managed policies: as few as IAM's limit of their size allows, in the order of statements."""
    packed = _packed(statements(role, environment))
    name = naming.named(environment, role)
    return [
        PolicyDocument(name if len(packed) == 1 else f"{name}-{number}", _document(each))
        for number, each in enumerate(packed, 1)
    ]


def _packed(given: Iterable[Statement]) -> list[list[Statement]]:
    packed: list[list[Statement]] = [[]]
    for statement in given:
        if packed[-1] and _size(_document([*packed[-1], statement])) > MOST_CHARACTERS:
            packed.append([])
        packed[-1].append(statement)
    return packed


def _document(given: Iterable[Statement]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [statement.document() for statement in given]}


def _size(document: dict[str, Any]) -> int:
    return len(re.sub(r"\s", "", json.dumps(document)))
