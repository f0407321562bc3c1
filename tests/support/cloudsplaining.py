"""Run cloudsplaining from checkov's environment (`make setup-policies`), which contains it."""

import json
import subprocess
from collections.abc import Mapping
from typing import Any, Final

import pytest

from rehearsal.paths import REPOSITORY

_PYTHON: Final = REPOSITORY / ".venv-policies" / "bin" / "python"
_PROGRAM: Final = """
import json, sys
from cloudsplaining.scan.policy_document import PolicyDocument
KINDS = {
    "privilege escalation": lambda it: [each["type"] for each in it.allows_privilege_escalation],
    "credentials exposure": lambda it: it.credentials_exposure,
    "data exfiltration": lambda it: it.allows_data_exfiltration_actions,
    "resource exposure": lambda it: it.permissions_management_without_constraints,
    "changes without constraints": lambda it: it.write_actions_without_constraints,
    "tags without constraints": lambda it: it.tagging_actions_without_constraints,
    "whole services": lambda it: it.service_wildcard,
}
def findings(document):
    scanned = PolicyDocument(document)
    return [[kind, each] for kind, found in KINDS.items() for each in found(scanned)]
print(json.dumps({name: findings(document) for name, document in json.load(sys.stdin).items()}))
"""

Findings = dict[str, set[tuple[str, str]]]


def findings(policies: Mapping[str, Mapping[str, Any]]) -> Findings:
    """Return the findings of each policy by its name: their kind, and the action or the way."""
    if not _PYTHON.exists():
        pytest.skip("cloudsplaining is not installed: `make setup-policies`")
    done = subprocess.run(
        [_PYTHON, "-c", _PROGRAM], input=json.dumps(policies), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[tuple[str, str]]] = json.loads(done.stdout)
    return {name: {(kind, action) for kind, action in each} for name, each in found.items()}
