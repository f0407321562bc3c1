"""Decide what a deployment does to a resource: updated, replaced, deleted, kept."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ops.review.assembly import RETAINED, ResourceChange, number, stable
from ops.review.cloudformation.kinds import KINDS, Holds, ResourceKind, title
from ops.review.cloudformation.schema import Update, schema
from ops.review.cloudformation.sides import Key, TemplateComparison, referred
from ops.review.cloudformation.values import Leaf, leaves, listed, mapping, same, short, tags
from ops.review.consequences import ReviewFinding, endangers, refused, unknown
from ops.review.model import Danger, Effect
from ops.review.steps import operator_before, steps

_LOSS: Final = {
    Holds.DATA: Danger.DATA_LOSS,
    Holds.CLUSTER: Danger.CLUSTER_LOSS,
    Holds.GUARD: Danger.LOWER_PROTECTION,
    Holds.CALL: Danger.LOWER_PROTECTION,
}
_ATTRIBUTES: Final = ("DeletionPolicy", "UpdateReplacePolicy", "CreationPolicy", "UpdatePolicy")
_IGNORED: Final = ("DependsOn", "Metadata", "Type", "Properties")
_READ_BY_PROGRAMS: Final = ("AWS::CloudFormation::Init", "AWS::CloudFormation::Authentication")
# What the service cannot change on an existing resource, although CloudFormation's schema says "in place".
_CANNOT_CHANGE: Final = {
    # FSx's UpdateFileSystem has no such field.
    ("AWS::FSx::FileSystem", "EfaEnabled"): "FSx cannot change it on an existing file system.",
    ("AWS::FSx::FileSystem", "StorageType"): "FSx cannot change it on an existing Lustre file system.",
    # CloudFormation's reference of AWS::KMS::Key: "the update request fails".
    ("AWS::KMS::Key", "KeySpec"): "KMS cannot change it on an existing key.",
    ("AWS::KMS::Key", "KeyUsage"): "KMS cannot change it on an existing key.",
    ("AWS::KMS::Key", "Origin"): "KMS cannot change it on an existing key.",
    ("AWS::KMS::Key", "MultiRegion"): "KMS cannot change it on an existing key.",
}
_NODE_GROUP: Final = "AWS::EKS::Nodegroup"
_DRAINED: Final = "EKS drains and deletes nodes of the group."
_ROLLS_NODES: Final = {
    _NODE_GROUP: ("Version", "ReleaseVersion", "LaunchTemplate"),
    "AWS::EC2::LaunchTemplate": ("LaunchTemplateData",),
}
_OPAQUE: Final = frozenset(
    {"AWS::CloudFormation::Stack", "AWS::CloudFormation::Macro", "AWS::CloudFormation::StackSet"}
)
_CONTENT_HASH: Final = re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{16})(?![0-9a-f])")
# Types without a row that run programs, act on other resources, give rights, or carry data to another place.
_ACTING: Final = re.compile(
    r"AWS::(SSM|Scheduler|SSO|RolesAnywhere|DLM|DataSync|Config|Code\w+|Batch|ECS|Pipes|Budgets|FIS|AutoScaling\w*|ImageBuilder"
    r"|KinesisFirehose|LakeFormation|Glue|EMR\w*|Organizations|ServiceCatalog|Transfer|IAM|Lambda|CloudFormation|RAM)::\w+"
    r"|AWS::(Logs::(?!LogGroup|LogStream|MetricFilter|QueryDefinition)\w+|S3::\w+|KMS::\w+|SecretsManager::\w+)"
)
_ACTS_WITH: Final = frozenset({"Role", "Policy", "ResourcePolicy", "Target", "Targets"})
_FROM_OUTSIDE: Final = ('"Fn::Transform"', '"Fn::ForEach')


def outcome(change: ResourceChange, sides: TemplateComparison, replaced: Mapping[Key, str]) -> ReviewFinding:
    """Return what a deployment does to a resource that differs. `replaced`: why each replaced resource is."""
    key = (change.stack, change.logical_id)
    if change.before is None:
        return _created(change, key, sides)
    if change.after is None:
        return _deleted(change, key, sides)
    old, new = change.before.get("Type"), change.after.get("Type")
    if old != new:
        lost = removal(change.before, f"type {old} → {new}", "CloudFormation refuses to change a resource's type.")
        return lost if lost.dangers else refused(lost.what, lost.reason)
    if _unread(change.before) or _unread(change.after):
        return unknown("Properties", "A macro or template from outside decides.")
    if key in replaced:
        return replacement(key, sides, replaced[key])
    return _updated(change, key, sides)


def _created(change: ResourceChange, key: Key, sides: TemplateComparison) -> ReviewFinding:
    # In a new environment there is nothing to act on.
    acts = sides.base.assembly is not None and _acts(change.type, change.after)
    known = change.type in KINDS or (schema().knows(change.type) and not acts)
    if not known or change.type in _OPAQUE or _unread(change.after):
        return unknown("new", f"No rule knows {change.type}.")
    if "Condition" in (change.after or {}):
        return ReviewFinding("new, under a condition", Effect.CREATED)
    old = sides.earlier(key)
    return ReviewFinding(
        f"new, with the definition of {stable(old[1])} in stack {old[0]}" if old else "new", Effect.CREATED
    )


def _acts(type_name: str, resource: Mapping[str, Any] | None = None) -> bool:
    """Return whether a type without a row, or a resource by its role or policy, may act on other resources."""
    names = (resource or {}).get("Properties") or {}
    by_name = any(name in _ACTS_WITH or str(name).lower().endswith("rolearn") for name in names)
    return type_name not in KINDS and (by_name or bool(_ACTING.fullmatch(type_name)))


def _deleted(change: ResourceChange, key: Key, sides: TemplateComparison) -> ReviewFinding:
    before = change.before or {}
    head = sides.head.assembly
    if head and change.stack not in head.stacks:
        reason = f"Stack {change.stack} is no longer part of the environment. A deployment leaves it as it is."
        return ReviewFinding("removed with its stack", Effect.KEPT, reason)
    if change.type == "AWS::Logs::LogGroup" and _logger_goes(key, sides):
        return ReviewFinding("removed", Effect.DELETED, "Its function is removed or renamed too.")
    if key in sides.renames:
        stack, logical_id = sides.renames[key]
        reason = f"The same definition appears as {stable(logical_id)} in stack {stack}: CloudFormation deletes "
        reason += "this one and creates that one."
        return removal(before, f"renamed to {stable(logical_id)}", reason, continues=True)
    if change.type == "AWS::EKS::Addon" and (before.get("Properties") or {}).get("AddonName") == "vpc-cni":
        why = "Without it NetworkPolicies are not enforced."
        return endangers(Danger.LOOSER_ISOLATION, "removed", why, Effect.DELETED)
    successor = next(
        (
            other
            for other, each in sides.head.resources.items()
            if each.get("Type") == change.type and not sides.existed(other)
        ),
        None,
    )
    kind = KINDS.get(change.type)
    holds = kind is None or kind.holds is not Holds.NOTHING
    note = f"{stable(successor[1])} in stack {successor[0]} is new and empty." if successor and holds else ""
    if change.type == "AWS::FSx::FileSystem":
        note = f"{note} {mirrored(key, sides)}".strip()
    calls = kind is not None and kind.holds is Holds.CALL
    return removal(before, "removed", note, continues=successor is not None and not calls)


def _logger_goes(key: Key, sides: TemplateComparison) -> bool:
    """Return whether the functions that write to a log group are removed or renamed too, at least one."""
    functions = [
        function
        for function, properties in sides.base.of_type("AWS::Lambda::Function")
        if key in referred(properties.get("LoggingConfig"))
    ]
    return bool(functions) and not any(function in sides.head.resources for function in functions)


def removal(before: Mapping[str, Any], what: str, reason: str = "", *, continues: bool = False) -> ReviewFinding:
    """Return what is lost when CloudFormation removes a resource. `continues`: another one takes its place."""
    type_name = str(before.get("Type"))
    kind = KINDS.get(type_name)
    policy = str(before.get("DeletionPolicy", "Delete"))
    if policy in RETAINED:
        holds = kind.holds if kind else Holds.DATA
        # A retained resource is not lost, but what uses an empty successor does not find its data.
        danger = holds is Holds.CLUSTER or (continues and holds is Holds.DATA)
        kept = f"DeletionPolicy {policy}: it stays in the account, and no stack manages it. {reason}".strip()
        return ReviewFinding(what, Effect.KEPT, kept, dangers=_loss(kind) if danger else frozenset())
    return _lost(kind, type_name, what, reason, policy, gone=Effect.DELETED, continues=continues)


def _loss(kind: ResourceKind | None) -> frozenset[Danger]:
    if kind is None:
        return frozenset({Danger.UNKNOWN})
    return frozenset({_LOSS[kind.holds]}) if kind.holds in _LOSS else frozenset()


def _lost(
    kind: ResourceKind | None, type_name: str, what: str, reason: str, policy: str, *, gone: Effect, continues: bool
) -> ReviewFinding:
    if kind is None:
        text = f"No rule knows what {type_name} holds. {reason}".strip()
        return endangers(Danger.UNKNOWN, what, text, gone)
    snapshot = "CloudFormation makes a snapshot first." if policy == "Snapshot" else ""
    text = " ".join(each for each in (reason, kind.lost, snapshot) if each)
    if kind.holds is Holds.DATA:
        action = operator_before("save the data") if type_name != "AWS::KMS::Key" else ""
        return ReviewFinding(what, Effect.DATA_LOST, text, action, _loss(kind))
    if kind.holds is Holds.NODES:
        replaced = continues or gone is Effect.REPLACED
        effect = Effect.NODES_REPLACED if replaced else Effect.NODES_REMOVED
        return ReviewFinding(what, effect, text, dangers=frozenset() if replaced else frozenset({Danger.CLUSTER_LOSS}))
    # A new association or flow log takes over; a new log group is empty, but a function's history guards nothing.
    if kind.holds in (Holds.GUARD, Holds.CALL) and continues and type_name != "AWS::Logs::LogGroup":
        return ReviewFinding(what, gone, text)
    return ReviewFinding(what, gone, text, dangers=_loss(kind))


def replacement(key: Key, sides: TemplateComparison, why: str) -> ReviewFinding:
    """Return what is lost when CloudFormation replaces a resource."""
    before, after = sides.base.resources[key], sides.head.resources[key]
    type_name = str(before.get("Type"))
    kind = KINDS.get(type_name)
    properties = sides.base.properties[key], sides.head.properties[key]
    what = _what(*properties) or "replaced"
    importers = _importers(key, sides)
    is_data = bool(kind and kind.holds is Holds.DATA)
    reason = f"{why} CloudFormation creates a new, empty one and deletes the old one." if is_data else why
    action, unless = "", ""
    if importers:
        names = ", ".join(importers)
        unless = f"stack {names} is destroyed first, because it uses {title(type_name, stable(key[1]))}"
        reason += f" CloudFormation refuses this while stack {names} exists, because it uses the {_word(kind)}."
    if type_name == "AWS::FSx::FileSystem":
        reason += f" {mirrored(key, sides)}"
        action = steps(*_to_replace_a_file_system(importers, sides))
    policies = [str(each.get("UpdateReplacePolicy", "Delete")) for each in (before, after)]
    if all(each == "Retain" for each in policies):
        reason = f"UpdateReplacePolicy Retain: the old one stays in the account. {reason}"
        dangers = _loss(kind) if kind is None or _is_held(kind) else frozenset()
        return ReviewFinding(what, Effect.KEPT, reason, action, dangers, fails_unless=unless)
    policy = "Snapshot" if all(each != "Delete" for each in policies) else "Delete"
    lost = _lost(kind, type_name, what, reason, policy, gone=Effect.REPLACED, continues=True)
    fewer = _nodes_lost(leaves(*properties)) if type_name == _NODE_GROUP else 0
    if fewer != 0:
        lost = replace(lost, effect=Effect.NODES_REMOVED, reason=f"{lost.reason} {_DRAINED}", lost=fewer)
    return replace(lost, action=action or lost.action, fails_unless=unless)


def _word(kind: ResourceKind | None) -> str:
    return kind.title if kind else "resource"


def _to_replace_a_file_system(importers: list[str], sides: TemplateComparison) -> Iterator[str]:
    yield operator_before("copy the files that are needed later")
    stacks = sides.base.assembly.stacks if sides.base.assembly else {}
    for part in importers:
        command = f"`cdk destroy {stacks[part].name} -c environment={sides.environment}`"
        yield operator_before(f"destroy stack {part}, which ends all jobs: {command}; the deployment creates it again")


def mirrored(key: Key, sides: TemplateComparison) -> str:
    """Return which paths of a file system are exported to a bucket, and that all other files are lost."""
    paths = [
        str(properties.get("FileSystemPath", "/"))
        for _, properties in sides.base.of_type("AWS::FSx::DataRepositoryAssociation")
        if key in referred(properties.get("FileSystemId")) and "AutoExportPolicy" in mapping(properties.get("S3"))
    ]
    if not paths:
        return "No data repository association exports its files: all of them are lost."
    return f"Files below {', '.join(sorted(paths))} are exported to a bucket; all others are lost."


def _is_held(kind: ResourceKind) -> bool:
    return kind.holds in (Holds.DATA, Holds.CLUSTER)


def _importers(key: Key, sides: TemplateComparison) -> list[str]:
    """Return the stacks of the base that import an export of the resource."""
    names = [
        name
        for name, (stack, value) in sides.base.exports.items()
        if stack == key[0] and key in referred(sides.base.resolve(value, stack))
    ]
    stacks = sides.base.assembly.stacks if sides.base.assembly else {}
    quoted = [json.dumps(name) for name in names]
    return [
        part
        for part, stack in stacks.items()
        if part != key[0] and any(name in json.dumps(stack.template) for name in quoted)
    ]


def _updated(change: ResourceChange, key: Key, sides: TemplateComparison) -> ReviewFinding:
    before, after = change.before or {}, change.after or {}
    others = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    strange = [name for name in others if name not in (*_ATTRIBUTES, *_IGNORED)]
    if strange or ("Metadata" in others and _programs(before) != _programs(after)):
        what = ", ".join(strange) or "Metadata"
        reason = "It decides whether the resource exists, or what a program does with it."
        return unknown(what, reason)
    if not same(before.get("Properties"), after.get("Properties")):
        return _of_properties(change.type, sides.base.properties[key], sides.head.properties[key])
    if "Properties" in others:
        return ReviewFinding("order of a list", Effect.IN_PLACE)
    if attributes := [name for name in others if name in _ATTRIBUTES]:
        words = [f"{name} {short(before.get(name))} → {short(after.get(name))}" for name in attributes]
        return ReviewFinding(listed(words), Effect.IN_PLACE)
    return ReviewFinding(", ".join(others), Effect.NOTHING)


def _what(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return what differs on one line, tags by their keys."""
    old, new = (tags(side.get("Tags")) for side in (before, after))
    if old is not None and new is not None:
        before, after = {**before, "Tags": old or None}, {**after, "Tags": new or None}
    return listed([_leaf(each) for each in leaves(before, after)])


def _of_properties(type_name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> ReviewFinding:
    changed, what = list(leaves(before, after)), _what(before, after)
    if not changed:
        return ReviewFinding("names of references", Effect.IN_PLACE)
    kind = KINDS.get(type_name)
    if type_name in _OPAQUE or (type_name.startswith("Custom::") and kind is None) or _acts(type_name):
        return unknown(what, f"No rule knows {type_name}.")
    if type_name.startswith("Custom::"):
        return ReviewFinding(what, Effect.IN_PLACE)
    if fails := _refused(type_name, changed, what):
        return fails
    strange = [path for path, before, after in changed if _update(type_name, path, before, after) is Update.UNKNOWN]
    if strange:
        reason = f"CloudFormation's schema of {type_name} has no property {'.'.join(strange[0])}."
        return unknown(what, reason)
    return _in_place(type_name, changed, what)


def _refused(type_name: str, changed: list[Leaf], what: str) -> ReviewFinding | None:
    for path, before, after in changed:
        reason = _CANNOT_CHANGE.get((type_name, path[-1]))
        if reason and not (before is None and str(after).lower() == "false"):
            action = steps(operator_before("save the data"), operator_before("run `ops destroy`, then deploy"))
            return refused(what, reason, action)
        if (type_name, path) == ("AWS::FSx::FileSystem", ("StorageCapacity",)) and _smaller(before, after):
            return refused(what, "FSx cannot shrink a file system.")
    return None


def _in_place(type_name: str, changed: list[Leaf], what: str) -> ReviewFinding:
    if type_name.startswith("AWS::IAM::") and all(_follows_content(each) for each in changed):
        return ReviewFinding("rights follow the new content hashes, no wider than before", Effect.IN_PLACE)
    names = {path[0] for path, _, _ in changed}
    if type_name == _NODE_GROUP and (lost := _nodes_lost(changed)) != 0:
        return ReviewFinding(what, Effect.NODES_REMOVED, _DRAINED, lost=lost)
    if names & set(_ROLLS_NODES.get(type_name, ())):
        return ReviewFinding(what, Effect.NODES_REPLACED, "EKS replaces the nodes of the group one by one.")
    return ReviewFinding(what, Effect.IN_PLACE)


def _nodes_lost(changed: Iterable[Leaf]) -> int | None:
    """Return how many nodes a managed node group may lose; None if only the deployment knows."""
    fewer = [
        (number(before), number(after))
        for path, before, after in changed
        if path[0] == "ScalingConfig" and path[-1] != "MinSize" and _smaller(before, after)
    ]
    if any(None in sides for sides in fewer):
        return None
    return max((old - new for old, new in fewer if old is not None and new is not None), default=0)


def _smaller(before: object, after: object) -> bool:
    numbers = [str(each) for each in (before, after)]
    return not all(each.isdigit() for each in numbers) or int(numbers[1]) < int(numbers[0])


def _update(type_name: str, path: tuple[str, ...], before: object, after: object) -> Update:
    return schema().update(type_name, path, (before, after))


def _follows_content(leaf: Leaf) -> bool:
    """Return whether both values are texts that differ only in hashes of contents."""
    _, before, after = leaf
    if not isinstance(before, str) or not isinstance(after, str):
        return False
    return _CONTENT_HASH.sub("HASH", before) == _CONTENT_HASH.sub("HASH", after)


def _leaf(leaf: Leaf) -> str:
    path, before, after = leaf
    return f"{'.'.join(path) or 'Properties'} {short(before)} → {short(after)}"


def _programs(resource: Mapping[str, Any]) -> list[object]:
    metadata = resource.get("Metadata") or {}
    return [metadata.get(name) for name in _READ_BY_PROGRAMS]


def _unread(resource: Mapping[str, Any] | None) -> bool:
    """Return whether the properties come from outside the template."""
    properties = (resource or {}).get("Properties") or {}
    written = json.dumps(properties)
    return (
        not isinstance(properties, Mapping)
        or any(each in written for each in _FROM_OUTSIDE)
        or any(str(name).startswith("Fn::") for name in properties)
    )
