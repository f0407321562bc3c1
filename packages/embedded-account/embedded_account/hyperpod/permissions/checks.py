"""Check whether a caller may make a HyperPod call: every requirement of `required.py`, on the actual resources."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from embedded_account.hyperpod.permissions.required import (
    REQUIRED,
    SERVICE_LINKED_ROLE,
    SERVICE_LINKED_ROLE_SERVICE,
)
from embedded_account.services.iam.policies import Context, Grants, PolicyDecision
from embedded_account.services.keys import context_of
from embedded_account.services.s3.keys import key_context, key_of_object


@dataclass(frozen=True)
class HyperPodCall:
    """The parts of an API call that determine the permissions it requires.

    Attributes:
        eks_cluster_arn: The orchestrator; "" if the call has none.
        roles: The execution roles that the call passes.
        training_plans: The training plans of its groups.
        image_ids: The custom AMIs of its groups.
        keys: The customer managed keys of its groups' volumes.
        tags: The tags in the request.
        cluster_tags: The tags of the existing cluster.
    """

    operation: str
    cluster_arn: str
    eks_cluster_arn: str = ""
    roles: tuple[str, ...] = ()
    training_plans: tuple[str, ...] = ()
    image_ids: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    tags: Mapping[str, str] | None = None
    cluster_tags: Mapping[str, str] | None = None
    service_linked_role_exists: bool = True


@dataclass(frozen=True)
class Need:
    """A permission that a call requires: one action on one resource, with the request's condition keys."""

    action: str
    resource: str
    context: Context


def needs(call: HyperPodCall) -> Iterator[Need]:
    """Return every permission that the call requires, the operation's own action first."""
    region, account = call.cluster_arn.split(":")[3:5]
    context = {"aws:ResourceAccount": account}
    context |= {f"aws:RequestTag/{key}": value for key, value in (call.tags or {}).items()}
    of_cluster = {f"aws:ResourceTag/{key}": value for key, value in (call.cluster_tags or {}).items()}
    for row in REQUIRED[call.operation]:
        if row.when == "tags" and not call.tags:
            continue
        if row.when == "custom images" and not call.image_ids:
            continue
        if row.when == "customer managed keys" and not call.keys:
            continue
        if row.when == "no service-linked role" and call.service_linked_role_exists:
            continue
        own = context | _context_of(row.action, region, account)
        if row.on in _ACCESS:
            yield from (Need(row.action, entry, {**own, **keys}) for entry, keys in _access(row.on, call))
            continue
        tags = of_cluster if row.on == "cluster" else {}
        yield from (Need(row.action, resource, own | tags) for resource in _resources(row.on, call))


def denied(grants: Grants, wanted: Iterable[Need]) -> tuple[Need, PolicyDecision] | None:
    """Return the first need that the grants do not allow, with the decision; None if they allow all."""
    for need in wanted:
        decision = grants.decide(need.action, need.resource, need.context)
        if decision is not PolicyDecision.ALLOW:
            return need, decision
    return None


_ACCESS: Final = ("access-entries", "access-policies", "new-access-entries")


def _context_of(action: str, region: str, account: str) -> dict[str, str]:
    if action.startswith("kms:"):
        return context_of(account, region, action, "sagemaker")
    if action == "iam:PassRole":
        return {"iam:PassedToService": "sagemaker.amazonaws.com"}
    if action == "iam:CreateServiceLinkedRole":
        return {"iam:AWSServiceName": SERVICE_LINKED_ROLE_SERVICE}
    return {}


def _access(kind: str, call: HyperPodCall) -> Iterator[tuple[str, Context]]:
    """Yield what an action on access entries is about, for each execution role, with EKS's condition keys.

    Source: service authorization reference, Amazon EKS. Which access policy the service associates is not documented:
    its name is one of those for HyperPod (EKS user guide, access policies).
    """
    if not call.eks_cluster_arn:
        return
    _, partition, _, region, account, _ = call.eks_cluster_arn.split(":", 5)
    entry = f"arn:{partition}:eks:{region}:{account}:access-entry/{call.eks_cluster_arn.rpartition('/')[2]}"
    policy = f"arn:{partition}:eks::aws:cluster-access-policy/AmazonSagemakerHyperpodClusterPolicy"
    for role in call.roles:
        keys = {"eks:principalArn": role, **({"eks:policyArn": policy} if kind == "access-policies" else {})}
        own = f"{entry}/role/{account}/{role.rpartition('/')[2]}/00000000"
        yield call.eks_cluster_arn if kind == "new-access-entries" else own, keys


def _resources(kind: str, call: HyperPodCall) -> Iterable[str]:
    _, partition, _, region, account, _ = call.cluster_arn.split(":", 5)
    # A plan's reserved capacity has an ARN of its own; the simulator derives it from the plan's name.
    reserved = (plan.replace(":training-plan/", ":reserved-capacity/") for plan in call.training_plans)
    named: Mapping[str, Iterable[str]] = {
        "cluster": [call.cluster_arn],
        "roles": call.roles,
        "eks-cluster": [call.eks_cluster_arn] if call.eks_cluster_arn else [],
        "training-plans": [*call.training_plans, *reserved],
        "key": call.keys,
        "grants-of-the-key": call.keys,
        "images": [f"arn:{partition}:ec2:{region}::image/{image_id}" for image_id in call.image_ids],
        # The simulator does not know an image's snapshots: it assumes one for each image.
        "snapshots": [f"arn:{partition}:ec2:{region}::snapshot/snap-{image_id[4:]}" for image_id in call.image_ids],
    }
    if kind in named:
        return named[kind]
    if kind == "service-linked-role":
        path = f"aws-service-role/{SERVICE_LINKED_ROLE_SERVICE}/{SERVICE_LINKED_ROLE}"
        return [f"arn:{partition}:iam::{account}:role/{path}"]
    return ["*"]


def execution_role_needs(account: str) -> Iterator[Need]:
    """Return what CreateCluster requires of the execution role before it accepts the request (AWS docs, IAM page)."""
    for action in ("ec2:DescribeSubnets", "ec2:DescribeSecurityGroups", "ec2:DescribeVpcs"):
        yield Need(action, "*", {"aws:ResourceAccount": account})


def key_needs(region: str, account: str, keys: Iterable[str]) -> Iterator[Need]:
    """Return what CreateCluster and UpdateCluster require of the execution role for the volumes' keys."""
    for key in keys:
        for action in ("kms:CreateGrant", "kms:DescribeKey"):
            yield Need(action, key, _context_of(action, region, account))


def decryption_needs(region: str, account: str, bucket: str, key: str) -> Iterator[Need]:
    """Return what a node requires to read an object, if S3 has encrypted it with a customer managed key."""
    action = "kms:Decrypt"
    if kms_key := key_of_object(account, region, bucket, key):
        yield Need(action, kms_key, key_context(account, region, bucket, key, action))


def interface_needs(partition: str, region: str, account: str, resources: Iterable[str]) -> Iterator[Need]:
    """Return what a node requires to create its network interface.

    Args:
        partition: The partition of the resources.
        region: The region of the resources.
        account: The account of the resources.
        resources: The subnet and the security groups, in the form `subnet/ID` and `security-group/ID`.
    """
    prefix = f"arn:{partition}:ec2:{region}:{account}"
    for resource in (*resources, "network-interface/*"):
        yield Need("ec2:CreateNetworkInterface", f"{prefix}:{resource}", {"aws:ResourceAccount": account})


def script_needs(partition: str, bucket: str, key: str, account: str) -> Iterator[Need]:
    """Return what a node requires to download its lifecycle scripts."""
    own = {"aws:ResourceAccount": account, "aws:PrincipalAccount": account}
    context: dict[str, Any] = {**own, "s3:prefix": key.rpartition("/")[0]}
    yield Need("s3:ListBucket", f"arn:{partition}:s3:::{bucket}", context)
    yield Need("s3:GetObject", f"arn:{partition}:s3:::{bucket}/{key}", context)
