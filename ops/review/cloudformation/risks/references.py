"""Find resources that newly act with, join, run or reach something else, by what their properties stand for."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ops.review.cloudformation.risks.concepts import Concept, concept
from ops.review.cloudformation.risks.network import network_covers
from ops.review.cloudformation.risks.protection import RULES
from ops.review.cloudformation.risks.routes import same_ways
from ops.review.cloudformation.sides import ChangedResource, ResolvedTemplates, Risk, TemplateComparison, referred
from ops.review.cloudformation.values import Leaf, elements, is_off, leaves, nested, same, short, text
from ops.review.model import Danger

_DANGERS: Final = {
    Concept.ROLE: Danger.WIDER_PERMISSIONS,
    Concept.LOGIN: Danger.WIDER_PERMISSIONS,
    Concept.POLICY: Danger.WIDER_PERMISSIONS,
    Concept.GROUP: Danger.OPENED_PORT,
    Concept.SUBNET: Danger.OPENED_PORT,
    Concept.ADDRESSES: Danger.OPENED_PORT,
    Concept.KEY: Danger.LOWER_PROTECTION,
    Concept.CODE: Danger.RUNS_CODE,
    Concept.TARGET: Danger.RUNS_CODE,
    Concept.ENDPOINT: Danger.WIDER_PERMISSIONS,
}
# Type and top-level property whose value another module of this folder reviews.
_ELSEWHERE: Final = tuple(
    (re.compile(kind), re.compile(names))
    for kind, names in (
        (r"AWS::IAM::(?!InstanceProfile)\w+", ".*"),
        (r"AWS::EC2::(SecurityGroup\w*|Route\w*|Subnet\w*|NetworkAcl\w*|NatGateway|VPC(?!Endpoint)\w*|EIP)", ".*"),
        (r"AWS::EC2::VPCEndpoint", "PolicyDocument|SubnetIds"),
        (r"AWS::EKS::(AccessEntry|PodIdentityAssociation)|AWS::Lambda::Permission", ".*"),
        # Another role replaces the cluster.
        (r"AWS::EKS::Cluster", "ResourcesVpcConfig|RoleArn"),
        (r"AWS::EKS::Nodegroup", "RemoteAccess"),
        (r"AWS::Lambda::Function", "Code|Environment"),
        (r"AWS::Lambda::LayerVersion", "Content"),
        (r"AWS::S3::Bucket", "BucketName|LifecycleConfiguration|ReplicationConfiguration|WebsiteConfiguration"),
        (r"AWS::S3::(BucketPolicy|AccessPoint)|AWS::(SNS::Topic|SQS::Queue|Events::EventBus)Policy", ".*"),
        (r"AWS::(SecretsManager::Resource|ECR::Registry|Logs::Resource)Policy", ".*"),
        (r"AWS::KMS::Key", "KeyPolicy"),
        (r"AWS::ECR::Repository", "RepositoryPolicyText|LifecyclePolicy|EncryptionConfiguration"),
        (r"AWS::EFS::FileSystem", "FileSystemPolicy"),
        (r"AWS::Backup::\w+", "AccessPolicy|BackupPlan|BackupSelection"),
        (r"AWS::FSx::\w+", "SubnetIds|DataRepositoryPath"),
        # Other modules know the project's own types; security groups count for all of them.
        (r"Custom::\w.*", "(?!ServiceToken|VpcConfig)\\w+"),
    )
)
# Of a definition of a state machine: names of steps are free, so that only the innermost name says what it is.
_TIMING: Final = re.compile(r"Comment|\w+Seconds|MaxAttempts|BackoffRate|JitterStrategy")
# What programs read, and no rule knows what they do with it.
_READ: Final = {("AWS::SSM::Parameter", "Value")}
_OF_NODES: Final = "AWS::EC2::LaunchTemplate"
_PREFIXES: Final = "AWS::EC2::PrefixList"
_OWN_LAYER: Final = "AWS::Lambda::LayerVersion"
_OWN_TOPIC: Final = "AWS::SNS::Topic"


def other_references(sides: TemplateComparison) -> Iterator[Risk]:
    """Yield properties that name something else than before, and roles that new resources take over."""
    if sides.base.assembly is None:
        return
    for each in sides.differing():
        if each.new:
            yield from _existing_roles(each, sides)
            if each.kind == _OF_NODES:
                yield from _of_new_template(each, sides)
        else:
            for leaf in single(each.before, each.after):
                yield from _of_leaf(each, leaf, sides)


def _of_new_template(template: ChangedResource, sides: TemplateComparison) -> Iterator[Risk]:
    """Yield what a new launch template lets nodes run: existing nodes may get it."""
    for leaf in single({}, template.after):
        if concept(leaf[0]) in (Concept.CODE, Concept.LOGIN):
            yield from _of_leaf(template, leaf, sides)


def single(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield what differs like `leaves`, down into lists of different length and JSON texts.

    What an element of a list loses with the element itself is left out.
    """
    for where, old, new in leaves(before, after, path):
        one, other = _unpacked(old), _unpacked(new)
        if isinstance(one, list) and isinstance(other, list) and _holds_objects([*one, *other]):
            yield from ((inner, None, value) for each in _added(one, other) for inner, value in _values(each, where))
        elif one is not old or other is not new:
            yield from single(one, other, where)
        elif isinstance(new, Mapping) or (isinstance(new, list) and _holds_objects(new)):
            yield from ((inner, None, value) for inner, value in _values(new, where))
        else:
            yield where, old, new


def _unpacked(value: Any) -> Any:
    found = nested(value) if isinstance(value, str) else None
    return value if found is None else found


def _holds_objects(values: list[Any]) -> bool:
    return any(isinstance(each, Mapping) for each in values)


def _added(before: Any, after: Any) -> list[Any]:
    """Return the elements of a list that the other one lacks, each as often as it is added."""
    known, found = Counter(text(each) for each in elements(before)), []
    for each in elements(after):
        if known[text(each)]:
            known[text(each)] -= 1
        else:
            found.append(each)
    return found


def _values(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value inside a value that is new as a whole."""
    inner = _unpacked(value)
    if isinstance(inner, Mapping):
        for name, each in inner.items():
            yield from _values(each, (*path, str(name)))
    elif isinstance(inner, list) and _holds_objects(inner):
        for each in inner:
            yield from _values(each, path)
    else:
        yield path, inner


def _of_leaf(resource: ChangedResource, leaf: Leaf, sides: TemplateComparison) -> Iterator[Risk]:
    key, kind = resource.key, resource.kind
    path, before, after = leaf
    if not path or any(one.fullmatch(kind) and names.fullmatch(path[0]) for one, names in _ELSEWHERE):
        return
    what = f"{'.'.join(path)} {short(before)} → {short(after)}"
    if before and isinstance(after, list) and (added := _added(before, after)):
        what = f"{'.'.join(path)}: + {short(added)}"
    if (kind, path[0]) in _READ:
        yield Risk(key, Danger.UNKNOWN, what, "Programs read it, and no rule knows what they do with it.")
        return
    found = concept(path[:1] if path[0].startswith("Definition") else path)
    if found is None or (found in (Concept.KEY, Concept.POLICY) and _has_rule(kind, path)):
        return
    if kind == _PREFIXES and found is Concept.ADDRESSES:
        # Its entries are one list of networks, whichever of them a network was part of.
        leaf = (path, [value for other, value in _values(resource.before, ()) if other == path], after)
    if _dangerous(found, leaf, sides):
        yield Risk(key, _DANGERS[found], what, found.value)


def _has_rule(kind: str, path: tuple[str, ...]) -> bool:
    dotted = ".".join(path)
    return any(dotted == rule or dotted.startswith(f"{rule}.") for rule in RULES.get(kind, {}))


def _dangerous(found: Concept, leaf: Leaf, sides: TemplateComparison) -> bool:
    """Return whether the change is one for the worse; another order never is."""
    path, before, after = leaf
    if path[0].startswith("Definition"):
        return len(path) == 1 or not _TIMING.fullmatch(path[-1])
    added = [each for each in _added(before, after) if each is not None]
    worse: dict[Concept, Callable[[], bool]] = {
        # Without a role of its own it may act with that of its node.
        Concept.ROLE: lambda: True,
        Concept.POLICY: lambda: not is_off(after),
        Concept.KEY: lambda: before is not None or any("arn:" in str(each) and not referred(each) for each in added),
        # Without a group it gets the default group of its VPC.
        Concept.GROUP: lambda: bool(added) or not after,
        Concept.SUBNET: lambda: bool(added) and not same_ways(elements(before), added, sides),
        Concept.ADDRESSES: lambda: any(not _in_range(each, before) for each in added),
    }
    return worse.get(found, lambda: any(not _own(each, found, sides.head) for each in added))()


def _in_range(address: Any, ranges: Any) -> bool:
    return any(same(each, address) or network_covers(str(each), str(address)) for each in elements(ranges))


def _own(value: Any, found: Concept, head: ResolvedTemplates) -> bool:
    """Return whether a value names a layer of this assembly, whose content is read, or a topic of it."""
    wanted = {Concept.CODE: _OWN_LAYER, Concept.TARGET: _OWN_TOPIC}.get(found)
    return wanted is not None and head.type_of(value) == wanted


def _existing_roles(resource: ChangedResource, sides: TemplateComparison) -> Iterator[Risk]:
    """Yield the roles of a new resource that this change does not create."""
    kind = resource.kind
    if kind.startswith("Custom::") or any(one.fullmatch(kind) and names.pattern == ".*" for one, names in _ELSEWHERE):
        return
    for path, value in _values(resource.after, ()):
        if concept(path) is Concept.ROLE and value and not _created(value, sides):
            what = f"{'.'.join(path)} {short(value)}"
            yield Risk(resource.key, Danger.WIDER_PERMISSIONS, what, "The new resource acts with a role that exists.")


def _created(role: Any, sides: TemplateComparison) -> bool:
    """Return whether all roles of a value are new in this change."""
    keys = [referred(each) for each in elements(role)]
    return all(each and not any(sides.existed(key) for key in each) for each in keys)
