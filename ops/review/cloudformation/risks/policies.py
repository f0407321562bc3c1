"""Find wider permissions in policies: of roles and resources, trust, managed policies, boundaries."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ops.review.cloudformation.risks.grants import PolicyGrant, covered, grants
from ops.review.cloudformation.risks.protection import PROTECT, protect_lifted
from ops.review.cloudformation.sides import Key, Renames, ResolvedTemplates, Risk, TemplateComparison, renamed
from ops.review.cloudformation.values import REFERENCE, elements, listed, readable, same, short, text
from ops.review.model import Danger

_PRINCIPALS: Final = ("AWS::IAM::Role", "AWS::IAM::User", "AWS::IAM::Group")
_ATTACHED: Final = (
    "AWS::IAM::Policy",
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::RolePolicy",
    "AWS::IAM::UserPolicy",
    "AWS::IAM::GroupPolicy",
)
_ATTACHED_TO: Final = ("Roles", "Users", "Groups", "RoleName", "UserName", "GroupName")
_OF_A_RESOURCE: Final = {
    # Type: the property with the policy, the property that names its owners ("" for the resource itself).
    "AWS::S3::BucketPolicy": ("PolicyDocument", "Bucket"),
    "AWS::S3::AccessPoint": ("Policy", "Bucket"),
    "AWS::SNS::TopicPolicy": ("PolicyDocument", "Topics"),
    "AWS::SQS::QueuePolicy": ("PolicyDocument", "Queues"),
    "AWS::SecretsManager::ResourcePolicy": ("ResourcePolicy", "SecretId"),
    "AWS::KMS::Key": ("KeyPolicy", ""),
    "AWS::ECR::Repository": ("RepositoryPolicyText", ""),
    "AWS::ECR::RegistryPolicy": ("PolicyText", ""),
    "AWS::EFS::FileSystem": ("FileSystemPolicy", ""),
    "AWS::Backup::BackupVault": ("AccessPolicy", ""),
    "AWS::EC2::VPCEndpoint": ("PolicyDocument", ""),
    "AWS::Logs::ResourcePolicy": ("PolicyDocument", ""),
    "AWS::Events::EventBusPolicy": ("Statement", ""),
}
_EVERYTHING: Final = {"Statement": {"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}}
_POWERFUL: Final = re.compile(
    r"Administrator|FullAccess|PowerUser|IAM|Organizations|SecretsManager|(S3|SSM|policy/)ReadOnlyAccess"
)
# The role of CDK's function behind `auto_delete_objects`, and what it may do with a bucket.
_AUTO_DELETE_ROLE: Final = "CustomS3AutoDeleteObjectsCustomResourceProviderRole"
_EMPTYING: Final = ("s3:putbucketpolicy", "s3:getbucket*", "s3:list*", "s3:deleteobject*")
_TLS: Final = "aws:SecureTransport"
# Everyone, but only from one organization, account, network or resource.
_LIMITED: Final = re.compile(
    r"aws:(PrincipalOrg(ID|Paths)|PrincipalAccount|PrincipalArn|Source(Account|Arn|Vpc|Vpce|Org\w*))\b|kms:CallerAccount",
    re.IGNORECASE,
)
# What deletes a thing that holds data or nodes, changes rights, or acts with those of another role.
_REACHING: Final = re.compile(
    r"(fsx|eks|ec2|ecr|kms|backup|sagemaker|cloudformation|dynamodb|elasticfilesystem|secretsmanager):"
    r"(delete(?!network|tags)|batchdelete|terminate|schedulekeydeletion|disablekey|put\w*policy)"
    r"|s3:(delete(bucket|objectversion)|putbucketpolicy|putlifecycle)|sts:assumerole$|iam:(?!get|list|passrole)"
)
# Examples of these, for actions with wildcards: `fsx:d*` is none of the names above, but allows one.
_REACHED: Final = (
    *("fsx:deletefilesystem", "elasticfilesystem:deletefilesystem", "dynamodb:deletetable", "s3:deletebucket"),
    *("s3:putbucketpolicy", "s3:putlifecycleconfiguration", "s3:deleteobjectversion", "ecr:deleterepository"),
    *("ecr:batchdeleteimage", "kms:schedulekeydeletion", "kms:disablekey", "kms:putkeypolicy"),
    *("secretsmanager:deletesecret", "secretsmanager:putresourcepolicy", "backup:deletebackupvault"),
    *("backup:deleterecoverypoint", "eks:deletecluster", "eks:deletenodegroup", "sagemaker:deletecluster"),
    *("sagemaker:batchdeleteclusternodes", "ec2:terminateinstances", "ec2:deletevolume", "ec2:deletesnapshot"),
    *("ec2:deletevpc", "ec2:deletesubnet", "cloudformation:deletestack", "sts:assumerole"),
    *("iam:attachrolepolicy", "iam:createaccesskey", "iam:putrolepolicy", "iam:updateassumerolepolicy"),
)
Owner = tuple[str, str]
"""Who has the rights: (`policy of` or `trust of`, resolved reference or name)."""


Document = tuple[Key, Any]
"""The resource of the template that contains a policy, and the policy."""


@dataclass(frozen=True)
class OwnedGrant:
    """A grant, and the resource of the template that contains it."""

    grant: PolicyGrant
    key: Key


def _documents(side: ResolvedTemplates, renames: Renames) -> dict[Owner, list[Document]]:
    """Return all policies of a side by owner, a role's inline and attached ones together, after `renames`."""
    found: dict[Owner, list[Document]] = defaultdict(list)
    for key, properties in side.of_type(*_PRINCIPALS, *_ATTACHED, *_OF_A_RESOURCE):
        for about, owner, document in _of_resource(str(side.resources[key]["Type"]), key, properties):
            found[about, str(renamed(owner, renames))].append((key, renamed(document, renames)))
    return found


def _of_resource(kind: str, key: Key, properties: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield a resource's policies: `policy of` or `trust of`, whose, and the document."""
    itself = f"${{{key[0]}.{key[1]}.Ref}}"
    if kind in _PRINCIPALS:
        for policy in elements(properties.get("Policies")):
            yield "policy of", itself, policy.get("PolicyDocument") if isinstance(policy, Mapping) else policy
        if "AssumeRolePolicyDocument" in properties:
            yield "trust of", itself, properties["AssumeRolePolicyDocument"]
    elif kind in _ATTACHED:
        owners = [each for name in _ATTACHED_TO for each in elements(properties.get(name))]
        yield from (("policy of", str(owner), properties.get("PolicyDocument")) for owner in owners or [itself])
    else:
        name, owned = _OF_A_RESOURCE[kind]
        document = properties.get(name)
        if document is None and kind == "AWS::EC2::VPCEndpoint":
            # EC2's default; it is no stranger's right, for IAM decides still.
            document = _EVERYTHING
        if document is not None:
            owners = elements(properties.get(owned)) if owned else [itself]
            yield from (("policy of", str(owner), document) for owner in owners)


@dataclass(frozen=True)
class GrantChange:
    """What an owner gains and loses; `deny` gained is a restriction."""

    owner: Owner
    existed: bool
    more: list[OwnedGrant]
    fewer: list[OwnedGrant]
    gone: frozenset[PolicyGrant]
    """What only the base has, also if the head's other grants cover it."""
    come: frozenset[PolicyGrant]


@lru_cache(maxsize=4)
def differences(sides: TemplateComparison) -> tuple[GrantChange, ...]:
    """Return the difference of every owner of the head, and of owners that lost their policies but remain."""
    return tuple(_differences(sides)) if sides.touch(*_PRINCIPALS, *_ATTACHED, *_OF_A_RESOURCE) else ()


def _differences(sides: TemplateComparison) -> Iterator[GrantChange]:
    before, after = _documents(sides.base, sides.renames), _documents(sides.head, {})
    for each in dict.fromkeys([*before, *after]):
        key = _owner_key(each[1])
        if (key[0] and key not in sides.head.resources) or before.get(each) == after.get(each):
            continue
        old, new = (list(_held(side.get(each, ()))) for side in (before, after))
        more, fewer = _beyond(new, old), _beyond(old, new)
        if more or fewer:
            gone, come = (frozenset(one.grant for one in many) for many in (old, new))
            yield GrantChange(each, not key[0] or sides.existed(key), more, fewer, gone - come, come - gone)


def _held(documents: Iterable[Document]) -> Iterator[OwnedGrant]:
    for key, document in documents:
        yield from (OwnedGrant(grant, key) for grant in grants(document))


def _beyond(many: list[OwnedGrant], others: list[OwnedGrant]) -> list[OwnedGrant]:
    """Return what the others do not cover."""
    grants_of_others = [each.grant for each in others]
    # Most are equal, and patterns are slow.
    equal = set(grants_of_others)
    return [each for each in many if each.grant not in equal and not covered(each.grant, grants_of_others)]


def wider_permissions(sides: TemplateComparison) -> Iterator[Risk]:
    """Yield what may be done by more, or to more, than before."""
    for each in differences(sides):
        yield from _wider(each, sides)
    yield from _roles(sides)


def _wider(difference: GrantChange, sides: TemplateComparison) -> Iterator[Risk]:
    about, name = difference.owner
    allowed = [each for each in difference.more if each.grant.allows]
    if not difference.existed:
        # A new role runs new code: what it may do is dangerous only if that is broad, or strangers may use it.
        allowed = [
            each
            for each in allowed
            if _strange(each.grant, sides)
            or (about == "policy of" and (_broad(each) or (sides.base.assembly is not None and _reaches(each.grant))))
        ]
        if sides.head.type_of(name) == "AWS::EC2::VPCEndpoint":
            allowed = []
    who = f"{about} {short(name)}"
    verb = "is trusted by more" if about == "trust of" else "allows more"
    # `protect: false` lets CDK's function empty the buckets.
    emptying = [each for each in allowed if _empties(each.grant)] if protect_lifted(sides) else []
    for many, confirmed in (([each for each in allowed if each not in emptying], ""), (emptying, PROTECT)):
        for key in dict.fromkeys(each.key for each in many):
            words = sorted({each.grant.words(_like(each.grant, difference.gone)) for each in many if each.key == key})
            what, reason = f"{who}: + {listed(words, 2)}", f"The {about.split()[0]} {verb}."
            yield Risk(key, Danger.WIDER_PERMISSIONS, what, reason, confirmed)
    yield from _silenced(difference, who, sides)
    denied = [each for each in difference.fewer if not each.grant.allows]
    for each in {(item.key, item.grant.condition): item for item in denied}.values():
        key = each.key if each.key in sides.head.resources else _owner_key(name)
        reason = "The policy denies fewer requests."
        now = _like(each.grant, difference.come)
        instead = f"; instead {now.words(each.grant)}" if now else ""
        yield Risk(key, Danger.WIDER_PERMISSIONS, f"{who}: - deny {each.grant.words(now)}{instead}", reason)
        if _TLS in each.grant.condition:
            end = "denied to fewer" if now and _TLS in now.condition else "no longer denied"
            what = f"{who}: requests without TLS are {end}"
            yield Risk(key, Danger.LOWER_PROTECTION, what, "Data may be read in transit.")


def _silenced(difference: GrantChange, who: str, sides: TemplateComparison) -> Iterator[Risk]:
    """Yield what services of AWS may no longer do with a resource: write logs, publish, use its key."""
    if difference.owner[0] == "trust of":
        return
    for each in difference.fewer:
        grant = each.grant
        if not grant.allows or not grant.principal.startswith("Service:"):
            continue
        # A narrower condition or resource still lets the service do its work.
        if any(one.principal == grant.principal and one.may_be((grant.action,)) for one in difference.come):
            continue
        key = each.key if each.key in sides.head.resources else _owner_key(difference.owner[1])
        what = f"{who}: - {grant.words()}"
        yield Risk(key, Danger.LOWER_PROTECTION, what, "The service no longer calls or writes there.")


def _empties(grant: PolicyGrant) -> bool:
    match = REFERENCE.fullmatch(grant.principal.removeprefix("AWS:"))
    return match is not None and match[2].startswith(_AUTO_DELETE_ROLE) and grant.action in _EMPTYING


def _broad(each: OwnedGrant) -> bool:
    # A key's or an endpoint's own policy names its account, and stands for IAM.
    return each.grant.broad and not each.grant.principal


def _reaches(grant: PolicyGrant) -> bool:
    """Return whether a role's action deletes more than objects, acts as somebody else, or reads all secrets."""
    if grant.principal:
        return False
    wildcards = "*" in grant.action or "?" in grant.action
    return bool(_REACHING.match(grant.action)) or (wildcards and grant.may_be(_REACHED)) or grant.reads_secrets


def _strange(grant: PolicyGrant, sides: TemplateComparison) -> bool:
    """Return whether a principal is everyone, belongs to another account, or cannot be read."""
    if grant.principal == "*":
        return not _LIMITED.search(grant.condition)
    if named := re.match(r"AWS:arn:aws[\w-]*:(?:iam|sts)::(\d{12}):", grant.principal):
        return named[1] not in _accounts(sides)
    kind, _, who = grant.principal.partition(":")
    # A service, an own resource, or the own account.
    return kind in ("AWS", "Federated", "CanonicalUser") and "${" not in who


def _accounts(sides: TemplateComparison) -> set[str]:
    stacks = sides.head.assembly.stacks.values() if sides.head.assembly else ()
    roles = " ".join(str(stack.settings.get("assumeRoleArn")) for stack in stacks)
    return set(re.findall(r"iam::(\d{12}):", roles))


def _owner_key(name: str) -> Key:
    match = REFERENCE.fullmatch(name)
    return (match[1], match[2]) if match else ("", name)


def _like(grant: PolicyGrant, others: Iterable[PolicyGrant]) -> PolicyGrant | None:
    """Return the grant on the other side that differs only in its conditions."""
    return next((each for each in others if each.is_like(grant)), None)


def _roles(sides: TemplateComparison) -> Iterator[Risk]:
    for principal in sides.differing(*_PRINCIPALS):
        key, before, after = principal.key, principal.before, principal.after
        old = {text(each) for each in elements(before.get("ManagedPolicyArns"))}
        added = [str(each) for each in elements(after.get("ManagedPolicyArns")) if text(each) not in old]
        if principal.new:
            added = [each for each in added if _POWERFUL.search(each) or not each.startswith("arn:aws:iam::aws:")]
        if added:
            names = ", ".join(readable(each.rpartition("/")[2]) for each in added)
            yield Risk(key, Danger.WIDER_PERMISSIONS, f"managed policies: + {short(names)}", "The role allows more.")
        boundary = "PermissionsBoundary"
        if boundary in before and not same(before[boundary], after.get(boundary)):
            what = f"permissions boundary {short(before[boundary])} → {short(after.get(boundary))}"
            yield Risk(key, Danger.WIDER_PERMISSIONS, what, "The boundary limited what the role may do.")
