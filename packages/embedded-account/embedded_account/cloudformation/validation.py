"""Check templates as CloudFormation does before it changes anything.

CloudFormation reports most errors when it creates the change set, but invalid properties of some types only when it
reaches the resource. This module refuses at once whatever can be known from the template.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from embedded_account.cloudformation.custom_resources import is_custom
from embedded_account.cloudformation.faults import RefusedCallError, invalid
from embedded_account.cloudformation.templates import constraints
from embedded_account.cloudformation.templates.intrinsics import Intrinsics, function_of
from embedded_account.cloudformation.templates.resource_types import (
    METADATA_TYPE,
    Property,
    ResourceType,
    ResourceTypes,
)
from embedded_account.cloudformation.templates.template import Template
from embedded_account.services.shared.resource_model import REGISTERED

_RESOURCE_ATTRIBUTES = {
    "Type", "Properties", "Condition", "DependsOn", "DeletionPolicy", "UpdateReplacePolicy", "Metadata",
}  # fmt: skip

_UNSUPPORTED_ATTRIBUTES = {"CreationPolicy", "UpdatePolicy"}

_POLICIES = {
    "DeletionPolicy": {"Delete", "Retain", "RetainExceptOnCreate", "Snapshot"},
    "UpdateReplacePolicy": {"Delete", "Retain", "Snapshot"},
}

SNAPSHOT_TYPES = {
    "AWS::DocDB::DBCluster", "AWS::EC2::Volume", "AWS::ElastiCache::CacheCluster",
    "AWS::ElastiCache::ReplicationGroup", "AWS::Neptune::DBCluster", "AWS::RDS::DBCluster",
    "AWS::RDS::DBInstance", "AWS::Redshift::Cluster",
}  # fmt: skip
"""The types that support the policy Snapshot (DeletionPolicy attribute, CloudFormation's user guide)."""

_SERVICE_TIMEOUTS = frozenset(map(str, range(1, 3601)))

_NO_VALUE = {"Ref": "AWS::NoValue"}

Resources = Mapping[str, dict[str, Any]]
Kinds = Mapping[str, ResourceType]

_CONTAINERS = {"array": list, "map": dict, "ref": dict}

_NAMED_IAM_TYPES = {
    "AWS::IAM::Group": "GroupName", "AWS::IAM::InstanceProfile": "InstanceProfileName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName", "AWS::IAM::Role": "RoleName", "AWS::IAM::User": "UserName",
}  # fmt: skip
_IAM_TYPES = {*_NAMED_IAM_TYPES, "AWS::IAM::AccessKey", "AWS::IAM::Policy", "AWS::IAM::UserToGroupAddition"}


def kinds_of(template: Template, types: ResourceTypes) -> Kinds:
    """Return what is known of each resource type of the template; custom resources and CDK's marker are left out.

    Raises RefusedCallError for types that do not exist, and types for which the embedded account has no model.
    """
    names = {_type_of(logical_id, definition) for logical_id, definition in template["Resources"].items()}
    wanted = sorted(name for name in names if not (is_custom(name) or name == METADATA_TYPE))
    kinds = {name: types.get(name) for name in wanted}
    if unknown := [name for name in wanted if kinds[name] is None]:
        raise invalid(f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]")
    if missing := [name for name in wanted if name not in REGISTERED]:
        raise invalid(f"The embedded account has no model for resource types: [{', '.join(missing)}]")
    return {name: kind for name, kind in kinds.items() if kind}


def check_resources(live: Resources, intrinsics: Intrinsics, kinds: Kinds, types: ResourceTypes) -> None:
    """Refuse invalid attributes, policies and properties of resources whose conditions hold."""
    checker = _PropertyCheck(intrinsics, types)
    problems = [
        problem
        for logical_id, definition in live.items()
        for problem in _problems(logical_id, definition, kinds.get(definition["Type"]), checker)
    ]
    if problems:
        raise invalid("\n".join(problems))


def check_references(template: Template, live: Resources, intrinsics: Intrinsics, kinds: Kinds) -> None:
    """Refuse Fn::GetAtt of attributes that the type lacks, and references to missing resources."""
    outputs = {name: item for name, item in template.get("Outputs", {}).items() if intrinsics.applies(item)}
    for reference in intrinsics.resource_references([[each.get("Properties") for each in live.values()], outputs]):
        if reference.name not in live:
            block = "Outputs" if reference.name in _names(intrinsics, outputs) else "Resources"
            raise invalid(
                f"Template format error: Unresolved resource dependencies [{reference.name}] in the {block} "
                "block of the template"
            )
        known = kinds.get(live[reference.name]["Type"])
        if reference.attribute and known and reference.attribute not in known.attributes:
            raise invalid(
                f"Template error: resource {reference.name} does not support attribute type "
                f"{reference.attribute} in Fn::GetAtt"
            )


def check_capabilities(template: Template, capabilities: tuple[str, ...]) -> None:
    """Refuse IAM resources without the caller's acknowledgement."""
    needed = None
    for definition in template["Resources"].values():
        kind = definition["Type"]
        if _NAMED_IAM_TYPES.get(kind) in definition.get("Properties", {}):
            needed = "CAPABILITY_NAMED_IAM"
            break
        if kind in _IAM_TYPES:
            needed = "CAPABILITY_IAM"
    enough = {"CAPABILITY_NAMED_IAM", needed}
    if needed and not enough & set(capabilities):
        raise RefusedCallError("InsufficientCapabilitiesException", f"Requires capabilities : [{needed}]")


def _names(intrinsics: Intrinsics, value: Any) -> set[str]:
    return {reference.name for reference in intrinsics.resource_references(value)}


def _type_of(logical_id: str, definition: Any) -> str:
    if not logical_id.isalnum():
        raise invalid(f"Template format error: Resource name {logical_id} is non alphanumeric.")
    if not isinstance(definition, dict) or not isinstance(definition.get("Type"), str):
        raise invalid(f"Template format error: [/Resources/{logical_id}] Every Resources object must contain a "
                      "Type member.")  # fmt: skip
    return str(definition["Type"])


def _problems(
    logical_id: str, definition: Mapping[str, Any], known: ResourceType | None, checker: "_PropertyCheck"
) -> Iterator[str]:
    unknown = sorted(definition.keys() - _RESOURCE_ATTRIBUTES)
    if unknown:
        if unknown[0] in _UNSUPPORTED_ATTRIBUTES:
            yield f"The embedded account does not support {unknown[0]} (resource {logical_id})"
        else:
            yield f"Invalid template resource property '{unknown[0]}' of resource {logical_id}"
    yield from _policy_problems(logical_id, definition)
    properties = definition.get("Properties", {})
    if known:
        found = list(checker.object("#", properties, known.properties))
        paths = {path for path, _ in found}
        found += [(path, problem) for path, problem in checker.broken(known.name, properties) if path not in paths]
        yield from (constraints.message(logical_id, path, problem) for path, problem in found)
    elif definition["Type"] != METADATA_TYPE:
        yield from _problems_of_custom(logical_id, properties)


def _problems_of_custom(logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
    """Check what CloudFormation itself reads of a custom resource.

    Source: CloudFormation template reference, AWS::CloudFormation::CustomResource.
    """
    if "ServiceToken" not in properties:
        yield constraints.message(logical_id, "#", "required key [ServiceToken] not found")
    seconds = properties.get("ServiceTimeout", 3600)
    if not isinstance(seconds, Mapping) and str(seconds) not in _SERVICE_TIMEOUTS:
        yield constraints.message(logical_id, "#/ServiceTimeout", f"{seconds} is not an integer from 1 to 3600")


def _policy_problems(logical_id: str, definition: Mapping[str, Any]) -> Iterator[str]:
    for name, allowed in _POLICIES.items():
        policy = definition.get(name, "Delete")
        if policy not in allowed:
            yield f"Template error: {name} of resource {logical_id} must be one of {sorted(allowed)}, not {policy}"
        elif policy == "Snapshot" and definition["Type"] not in SNAPSHOT_TYPES:
            yield f"Template error: resource type {definition['Type']} does not support {name} Snapshot"


class _PropertyCheck:
    """Compares values with the types of the resource database. Yields (path, problem)."""

    def __init__(self, intrinsics: Intrinsics, types: ResourceTypes) -> None:
        self._intrinsics = intrinsics
        self._types = types

    def object(self, path: str, value: Any, known: Mapping[str, Property]) -> Iterator[tuple[str, str]]:
        """Yield unknown and missing keys of an object, and the problems of each value."""
        value, function = self._chosen(value)
        if not isinstance(value, dict) or function:
            return
        chosen = {name: self._chosen(item) for name, item in value.items()}
        present = {name: each for name, each in chosen.items() if each[0] != _NO_VALUE}
        for name, (item, function) in present.items():
            if name not in known:
                yield path, f"extraneous key [{name}] is not permitted"
            elif not function:
                yield from self._value(f"{path}/{name}", item, known[name].type)
        for name, needed in known.items():
            if needed.required and name not in present:
                yield path, f"required key [{name}] not found"

    def broken(self, resource_type: str, properties: Any) -> Iterator[tuple[str, str]]:
        """Yield what breaks the type's constraints, as far as the values are known before the deployment."""
        try:
            known = self._intrinsics.resolve(properties)
        except RefusedCallError:
            return  # the deployment fails at this resource, with the reason
        if isinstance(known, dict):
            yield from constraints.problems(resource_type, known)

    def _value(self, path: str, value: Any, kind: dict[str, Any]) -> Iterator[tuple[str, str]]:
        if kind["type"] in {"json", "union", "tag"}:
            return
        container = _CONTAINERS.get(kind["type"])
        if container is None:
            if isinstance(value, dict | list):
                yield path, f"expected type: {kind['type'].capitalize()}, found: {_json_type(value)}"
            elif not _is_allowed(value, kind):
                yield path, f"{value} is not a valid enum value"
        elif not isinstance(value, container):
            yield path, f"expected type: {_json_type(container())}, found: {_json_type(value)}"
        elif kind["type"] == "ref":
            yield from self.object(path, value, self._types.definition(kind["reference"]["$ref"]))
        else:
            entries = value.items() if isinstance(value, dict) else enumerate(value)
            for key, each in entries:
                item, function = self._chosen(each)
                if not function:
                    yield from self._value(f"{path}/{key}", item, kind["element"])

    def _chosen(self, value: Any) -> tuple[Any, str | None]:
        """Return the branch of Fn::If that is taken, or the value itself, and the function that it still calls."""
        while (function := function_of(value)) == "Fn::If":
            condition, yes, no = value["Fn::If"]
            value = yes if self._intrinsics.condition(condition) else no
        return value, function


def _is_allowed(value: Any, kind: Mapping[str, Any]) -> bool:
    allowed = kind.get("allowedValues")
    return not allowed or not isinstance(value, str) or value in allowed or "{{resolve:" in value


def _json_type(value: Any) -> str:
    names = {dict: "JSONObject", list: "JSONArray", str: "String", bool: "Boolean"}
    return names.get(type(value), "Number")
