"""List what fails: every type, action and moment of an app once, with a fault and an end that the seed draws."""

import copy
import random
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from embedded_account.action_faults import ACTIONS, KINDS, MOMENTS, Action, Moment
from embedded_account.cloudformation.custom_resources import is_custom
from embedded_account.cloudformation.models import tagged
from embedded_account.cloudformation.templates.resource_types import METADATA_TYPE, ResourceTypes
from embedded_account.services.shared.resource_model import REGISTERED
from embedded_account.testing.updates import CASES
from handlers.hyperpod_cluster import index as hyperpod
from tests.synth.support.faults.functions import OF_ANY, OURS
from tests.synth.support.synthesis import Resource, Template

End = Literal["rollback", "retry", "continue", "destroy", "clean-up", "left"]
ENDS: Final[Mapping[Action, tuple[End, ...]]] = {
    "create": ("rollback", "retry", "destroy"),
    "update": ("rollback", "retry", "continue", "destroy"),
    "delete": ("retry", "clean-up", "left"),
}
"""What follows the failure.

A rollback is followed by the same deployment again. `retry` keeps what was deployed (`--no-rollback`) and deploys
again. `continue`: the rollback fails, too, and is continued. `destroy` deletes what the failure left. `clean-up` and
`left`: not the stack is deleted, but an update removes the resource and all that needs it. CloudFormation tries again,
and with `left` in vain.
"""
_OF_UPDATES: Final = {"clean-up", "left"}
_DOCUMENTS: Final = ("PolicyDocument", "AssumeRolePolicyDocument", "KeyPolicy")
_RULES: Final = {"AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress"}
"""The embedded account changes their description only where they name addresses."""
_SUBSTITUTED: Final = re.compile(r"\$\{(\w+)")
_CHANGED: Final = {"fault": "changed"}


@dataclass(frozen=True, order=True)
class Case:
    """One failure: which resource, at which action and moment, how, and what follows."""

    app: str
    part: str
    type: str
    logical_id: str
    action: Action
    moment: Moment
    fault: str
    """A kind of the account's faults, or one of a function."""
    end: End

    def __str__(self) -> str:
        where = f"{self.app}/{self.part} {self.type} {self.logical_id}"
        return f"{where}: {self.fault} {self.moment} {self.action}, {self.end}"


Templates = Mapping[str, Template]


def all_cases(app: str, templates: Templates, types: ResourceTypes) -> list[Case]:
    """Return the whole product of an app: every resource, action, moment, fault and end."""
    return [
        Case(app, part, resource["Type"], id, action, moment, fault, end)
        for part, template in templates.items()
        for id, resource in template.body["Resources"].items()
        if resource["Type"] != METADATA_TYPE
        for action in ACTIONS
        if _happens(action, resource, types)
        for moment, fault in _faults(resource["Type"])
        for end in ENDS[action]
        if end not in _OF_UPDATES or without(template.body, id) is not None
        # Nobody can delete by hand what a function made: another request to it would come too late.
        if end != "left" or not is_custom(resource["Type"])
    ]


def matrix(cases: Iterable[Case], draw: random.Random) -> list[Case]:
    """Return one case for each type, action and moment, and for each fault of a function; the rest is drawn.

    A deletion counts twice: that of the stack, and that in the clean-up of an update.
    """
    groups: dict[tuple[str | bool, ...], list[Case]] = {}
    for case in cases:
        of_function = case.fault if case.fault not in KINDS else ""
        key = (case.type, case.action, case.moment, of_function, case.end in _OF_UPDATES)
        groups.setdefault(key, []).append(case)
    return sorted(draw.choice(group) for _, group in sorted(groups.items()))


def _happens(action: Action, resource: Resource, types: ResourceTypes) -> bool:
    """Return whether CloudFormation carries out the action on this resource: it deletes nothing that is retained."""
    if action == "delete":
        return not str(resource.get("DeletionPolicy", "")).startswith("Retain")
    return action != "update" or changed(resource, types) is not None


def _faults(resource_type: str) -> Sequence[tuple[Moment, str]]:
    found: list[tuple[Moment, str]] = [(moment, kind) for moment in MOMENTS for kind in KINDS]
    if is_custom(resource_type):
        of_function = (*OF_ANY, "late") if resource_type in OURS else OF_ANY
        found += [("before" if fault in {"crash before", "late"} else "after", fault) for fault in of_function]
    return found


def changed(resource: Resource, types: ResourceTypes) -> Resource | None:
    """Return the resource with a change that CloudFormation carries out in place; None if it has no such property."""
    kind, properties = resource["Type"], copy.deepcopy(resource.get("Properties", {}))
    if is_custom(kind):
        if kind == hyperpod.CLUSTER:
            properties["Tags"] = [*properties.get("Tags", []), {"Key": "fault", "Value": "changed"}]
        else:
            properties["Fault"] = "changed"
        return resource | {"Properties": properties}
    if kind in _RULES and "CidrIp" not in properties:
        return None
    mutable = REGISTERED[kind].MUTABLE
    for name in _DOCUMENTS:
        if name in mutable and "Statement" in (properties.get(name) or ()):
            properties[name]["Statement"][0]["Sid"] = "Changed"
            return resource | {"Properties": properties}
    if (with_tag := retagged(resource, types)) is not None:
        return with_tag
    for path, value in _literal_changes(kind):
        if _set(properties, path.split("."), value):
            return resource | {"Properties": properties}
    return None


def without(template: Mapping[str, Any], id: str) -> dict[str, Any] | None:
    """Return the template without a resource and all that needs it; None if this retains something, or leaves nothing.

    What is retained has a name that the resource's next creation would find taken.
    """
    resources: Mapping[str, Resource] = template["Resources"]
    removed, found = set[str](), {id}
    while found:
        removed |= found
        found = {name for name, each in resources.items() if name not in removed and _needs(each, removed)}
    left = {name: each for name, each in resources.items() if name not in removed}
    retained = any(str(resources[name].get("DeletionPolicy", "")).startswith("Retain") for name in removed)
    if retained or not left:
        return None
    outputs = {name: each for name, each in template.get("Outputs", {}).items() if not _needs(each, removed)}
    return {**template, "Resources": left, "Outputs": outputs}


def _needs(value: Any, ids: Collection[str]) -> bool:
    """Return whether a part of a template refers to one of these resources."""
    match value:
        case {"Ref": str(name)}:
            return name in ids
        case {"Fn::GetAtt": [name, *_]}:
            return name in ids
        case {"Fn::Sub": str(text)}:
            return bool(set(_SUBSTITUTED.findall(text)) & set(ids))
        case Mapping():
            depends = value.get("DependsOn", ())
            named = {depends} if isinstance(depends, str) else {*depends}
            return bool(named & set(ids)) or any(_needs(each, ids) for each in value.values())
        case list():
            return any(_needs(each, ids) for each in value)
    return False


def retagged(resource: Resource, types: ResourceTypes) -> Resource | None:
    """Return the resource with one more tag; None if it takes no tags, or not in place."""
    kind, properties = resource["Type"], resource.get("Properties", {})
    known = None if is_custom(kind) or kind == METADATA_TYPE else types.get(kind)
    if known is None or known.tags is None or known.tags.name not in REGISTERED[kind].MUTABLE:
        return None
    return resource | {"Properties": tagged(types, kind, properties, _CHANGED)}


def _literal_changes(kind: str) -> Iterable[tuple[str, Any]]:
    """Yield the changes of the package's cases that refer to no resource of theirs."""
    for key, case in CASES.items():
        if key.split()[0] == kind:
            yield from ((path, value) for path, value in case.changes.items() if "$" not in str(value))


def _set(properties: dict[str, Any], path: list[str], value: Any) -> bool:
    """Set the value where the properties have another one; return whether they have."""
    name, *rest = path
    if name not in properties or properties[name] == value:
        return False
    if rest:
        return isinstance(properties[name], dict) and _set(properties[name], rest, value)
    properties[name] = value
    return True
