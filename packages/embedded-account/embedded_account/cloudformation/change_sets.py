"""Compute change sets: what a deployment would do."""

import json
import uuid
from collections.abc import Iterator
from graphlib import TopologicalSorter
from typing import Any

from embedded_account.cloudformation.change_set import Change, ChangeSet
from embedded_account.cloudformation.custom_resources import is_custom
from embedded_account.cloudformation.deployment import intrinsics_of
from embedded_account.cloudformation.lookups import AccountLookups, Foresight
from embedded_account.cloudformation.models import tagged
from embedded_account.cloudformation.planning import PropertyChange, property_changes
from embedded_account.cloudformation.stack import Desired, Output, Stack, StackResource
from embedded_account.cloudformation.templates.intrinsics import NOT_YET_KNOWN, as_text
from embedded_account.cloudformation.templates.resource_types import Replacement

NO_CHANGES = "The submitted information didn't contain changes. Submit different information to create a change set."

_RECREATION: dict[Replacement, str] = {"no": "Never", "maybe": "Conditionally", "yes": "Always"}
_OTHER_ATTRIBUTES = ("DeletionPolicy", "UpdateReplacePolicy", "Metadata")


def make_change_set(
    name: str, stack: Stack, desired: Desired, lookups: AccountLookups, *, kind: str, description: str | None = None
) -> ChangeSet:
    """Compare `stack` with `desired`; return the change set.

    Without a difference its status is FAILED, as on AWS.
    """
    comparison = _Comparison(stack, desired, lookups)
    changes = comparison.changes()
    where = ":".join(stack.stack_id.split(":")[:5])
    change_set = ChangeSet(
        name=name,
        stack=stack,
        type=kind,
        desired=desired,
        changes=changes,
        change_set_id=f"{where}:changeSet/{name}/{uuid.uuid4()}",
        description=description,
    )
    same_tags = dict(desired.tags) == dict(stack.desired.tags)
    if kind == "UPDATE" and not changes and same_tags and comparison.outputs_stay():
        change_set.status, change_set.execution_status = "FAILED", "UNAVAILABLE"
        change_set.status_reason = NO_CHANGES
    return change_set


def without_values(change: Change) -> Change:
    """Return a change as DescribeChangeSet shows it without IncludePropertyValues."""
    hidden = {"BeforeContext", "AfterContext"}
    plain = {key: value for key, value in change.items() if key not in hidden}
    if "Details" in plain:
        plain["Details"] = [_without_target_values(detail) for detail in plain["Details"]]
    return plain


def _without_target_values(detail: dict[str, Any]) -> dict[str, Any]:
    hidden = {"BeforeValue", "AfterValue", "Path", "AttributeChangeType"}
    target = {key: value for key, value in detail["Target"].items() if key not in hidden}
    return {**detail, "Target": target}


class _Comparison:
    """Compares resources in dependency order: a replacement also changes the resources that depend on it."""

    def __init__(self, stack: Stack, desired: Desired, lookups: AccountLookups) -> None:
        self._stack = stack
        self._desired = desired
        self._types = lookups.resource_types
        self._unknown: set[str] = set()
        self._surroundings = Foresight(lookups, stack.resources, self._unknown)
        self._intrinsics = intrinsics_of(stack, desired, self._surroundings)
        self._live = desired.live

    def changes(self) -> list[Change]:
        """Return the changes: additions and modifications in dependency order, then removals."""
        graph = self._desired.needs
        found = []
        for logical_id in TopologicalSorter(graph).static_order():
            change = self._change(logical_id, graph[logical_id])
            if change:
                found.append(change)
        removed = [resource for name, resource in self._stack.resources.items() if name not in self._live]
        return found + [_removal(resource) for resource in removed]

    def outputs_stay(self) -> bool:
        """Return whether the outputs stay the same. Call it after `changes`."""
        return {*self._outputs()} == {*self._stack.outputs}

    def _outputs(self) -> Iterator[Output]:
        for key, item in self._desired.template.get("Outputs", {}).items():
            if self._intrinsics.applies(item):
                export = item.get("Export")
                name = as_text(self._intrinsics.resolve(export["Name"])) if export else None
                value = as_text(self._intrinsics.resolve(item["Value"]))
                yield Output(key, value, item.get("Description"), name)

    def _change(self, logical_id: str, depends_on: frozenset[str]) -> Change | None:
        definition = self._live[logical_id]
        existing = self._stack.resources.get(logical_id)
        properties = self._intrinsics.resolve(definition.get("Properties", {}))
        properties = tagged(self._types, definition["Type"], properties, self._desired.tags)
        wanted = StackResource(logical_id, definition["Type"], definition, properties, depends_on)
        if existing is None or existing.handle is None or existing.status in {"CREATE_FAILED", "DELETE_FAILED"}:
            return _addition(wanted)
        changed = property_changes(wanted.type, existing.properties, properties, self._types)
        others = [name for name in _OTHER_ATTRIBUTES if existing.definition.get(name) != definition.get(name)]
        if not changed and not others and existing.status != "UPDATE_FAILED":
            return None
        replacement = _overall(changed)
        if replacement == "True":
            self._unknown.add(logical_id)
        elif changed and is_custom(wanted.type):
            self._surroundings.attributes_unknown.add(logical_id)
        return {
            "Action": "Modify",
            "LogicalResourceId": logical_id,
            "PhysicalResourceId": existing.physical_id,
            "ResourceType": wanted.type,
            "Replacement": replacement,
            "Scope": sorted({_attribute(change.name) for change in changed} | set(others)),
            "Details": [
                *(self._detail(existing, wanted, change) for change in changed),
                *(_plain_detail(name) for name in others),
            ],
            "BeforeContext": _context(existing),
            "AfterContext": _context(wanted),
            **_policy_action(existing, replacement),
        }

    def _detail(self, existing: StackResource, wanted: StackResource, change: PropertyChange) -> dict[str, Any]:
        dynamic = NOT_YET_KNOWN in json.dumps(change.after)
        target = {"Attribute": _attribute(change.name), "RequiresRecreation": _RECREATION[change.replacement]}
        if target["Attribute"] == "Properties":
            target |= {"Name": change.name, "Path": f"/Properties/{change.name}"}
        target |= _values(change)
        source, cause = self._source(existing, wanted, change)
        return {
            "Target": target,
            "Evaluation": "Dynamic" if dynamic else "Static",
            "ChangeSource": source,
            **({"CausingEntity": cause} if cause else {}),
        }

    def _source(self, existing: StackResource, wanted: StackResource, change: PropertyChange) -> tuple[str, str | None]:
        """Return why a property changes: its text in the template, or a value that the text refers to."""
        before = existing.definition.get("Properties", {}).get(change.name)
        after = wanted.definition.get("Properties", {}).get(change.name)
        if before != after:
            return "DirectModification", None
        for reference in self._intrinsics.references(after):
            if reference.name in self._desired.parameters.given:
                return "ParameterReference", reference.name
            if reference.attribute is not None:
                return "ResourceAttribute", f"{reference.name}.{reference.attribute}"
            if reference.name in self._live:
                return "ResourceReference", reference.name
        return "Automatic", None


def _attribute(property_name: str) -> str:
    return "Tags" if property_name == "Tags" else "Properties"


def _addition(wanted: StackResource) -> Change:
    return {
        "Action": "Add",
        "LogicalResourceId": wanted.logical_id,
        "ResourceType": wanted.type,
        "Scope": [],
        "Details": [],
        "AfterContext": _context(wanted),
    }


def _removal(resource: StackResource) -> Change:
    retained = str(resource.definition.get("DeletionPolicy", "Delete")).startswith("Retain")
    return {
        "PolicyAction": "Retain" if retained else "Delete",
        "Action": "Remove",
        "LogicalResourceId": resource.logical_id,
        "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.type,
        "Scope": [],
        "Details": [],
        "BeforeContext": _context(resource),
    }


def _policy_action(existing: StackResource, replacement: str) -> dict[str, str]:
    if replacement != "True":
        return {}
    policy = existing.definition.get("UpdateReplacePolicy", "Delete")
    return {"PolicyAction": "ReplaceAndRetain" if policy == "Retain" else "ReplaceAndDelete"}


def _overall(changed: list[PropertyChange]) -> str:
    """Return "True" if the resource will be replaced, "Conditional" if its values decide, else "False"."""
    overall = "False"
    for change in changed:
        if change.replacement == "yes" and NOT_YET_KNOWN not in json.dumps(change.after):
            return "True"
        if change.replacement != "no":
            overall = "Conditional"
    return overall


def _plain_detail(attribute: str) -> dict[str, Any]:
    return {
        "Target": {"Attribute": attribute, "RequiresRecreation": "Never"},
        "Evaluation": "Static",
        "ChangeSource": "DirectModification",
    }


def _values(change: PropertyChange) -> dict[str, str]:
    values = {"BeforeValue": change.before, "AfterValue": change.after}
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
        if value is not None
    }


def _context(resource: StackResource) -> str:
    kept = ("DeletionPolicy", "UpdateReplacePolicy", "Metadata")
    other = {name: resource.definition[name] for name in kept if name in resource.definition}
    return json.dumps({"Properties": resource.properties, **other})
