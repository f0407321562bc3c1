"""The permissions that a HyperPod call needs: its own action, and those that the service uses in the caller's name.

CALLS maps each API call to actions with their sources. The stacks write the handlers' policies from it. The simulated
HyperPod has its own table, and a test compares the two. HANDLER_CALLS lists the calls that each handler may make.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

SERVICE_LINKED_ROLE: Final = "AWSServiceRoleForSageMakerHyperPod"
SERVICE_LINKED_ROLE_SERVICE: Final = "hyperpod.sagemaker.amazonaws.com"
ACCESS_POLICIES: Final = "arn:aws:eks::aws:cluster-access-policy/AmazonSagemakerHyperpod*"

On = Literal[
    "access-entries",
    "access-policies",
    "cluster",
    "eks-cluster",
    "everything",
    "grants-of-the-key",
    "images",
    "key",
    "new-access-entries",
    "roles",
    "service-linked-role",
    "snapshots",
    "stack",
    "training-plans",
]
"""The resources of a permission: access entries of the EKS cluster, also to associate policies with them; the HyperPod
cluster; the EKS cluster that orchestrates it; any resource (the action supports no narrower one); grants of the
volumes' KMS key; the groups' own AMIs; that key; the EKS cluster, for new access entries; the execution roles;
HyperPod's service-linked role; snapshots (an AMI's id does not show its snapshots); the stack itself; the groups'
training plans and the capacity that they reserve."""

_REFERENCE = "Service authorization reference, Amazon SageMaker"
_STACKS = "Service authorization reference, AWS CloudFormation"
_PLANS = "AWS managed policy AmazonSageMakerFullAccess, AllowUseOfTrainingPlanResources"
_ADMIN_PAGE = "AWS docs: sagemaker-hyperpod-prerequisites-iam, cluster admin, Amazon EKS"
_IMAGES = "AWS docs: hyperpod-custom-ami-cluster-management, required permissions for cluster operations"
_KEYS = "AWS docs: smcluster-cmk, permissions"
_TAGS = "AWS docs: sagemaker-hyperpod-prerequisites-iam, general creation policy"


@dataclass(frozen=True)
class PermissionRow:
    """One permission; `when` is the condition under which a call needs it."""

    action: str
    on: On
    source: str
    when: Literal[
        "always", "tags", "no service-linked role", "training plans", "custom images", "customer managed keys"
    ] = "always"


_EKS_ROWS: Final = (
    PermissionRow("eks:DescribeCluster", "eks-cluster", _ADMIN_PAGE),
    PermissionRow("eks:CreateAccessEntry", "new-access-entries", _ADMIN_PAGE),
    PermissionRow("eks:DescribeAccessEntry", "access-entries", _ADMIN_PAGE),
    PermissionRow("eks:DeleteAccessEntry", "access-entries", _ADMIN_PAGE),
    PermissionRow("eks:AssociateAccessPolicy", "access-policies", _ADMIN_PAGE),
)
# The caller shares its AMI with the service.
_IMAGE_ROWS: Final = (
    PermissionRow("ec2:DescribeImages", "everything", _IMAGES, when="custom images"),
    PermissionRow("ec2:DescribeSnapshots", "everything", _IMAGES, when="custom images"),
    PermissionRow("ec2:ModifyImageAttribute", "images", _IMAGES, when="custom images"),
    PermissionRow("ec2:ModifySnapshotAttribute", "snapshots", _IMAGES, when="custom images"),
)
# The page names SageMaker's execution role; through SageMaker, KMS sees the role of the caller just as well.
_KEY_ROWS: Final = (
    PermissionRow("kms:CreateGrant", "grants-of-the-key", _KEYS, when="customer managed keys"),
    PermissionRow("kms:DescribeKey", "key", _KEYS, when="customer managed keys"),
)
_ON_THE_CLUSTER: Final = (
    "DescribeCluster",
    "DescribeClusterNode",
    "ListClusterNodes",
    "ListClusterEvents",
    "DescribeClusterEvent",
    "ListClusterOperations",
    "DescribeClusterOperation",
    "BatchDeleteClusterNodes",
    "BatchRebootClusterNodes",
    "BatchReplaceClusterNodes",
    "StartClusterHealthCheck",
    "UpdateClusterSoftware",
    "AddTags",
    "ListTags",
    "DeleteTags",
)

CALLS: Final[Mapping[str, tuple[PermissionRow, ...]]] = {
    "CreateCluster": (
        PermissionRow("sagemaker:CreateCluster", "cluster", _REFERENCE),
        PermissionRow("sagemaker:AddTags", "cluster", _TAGS, when="tags"),
        PermissionRow("iam:PassRole", "roles", _ADMIN_PAGE),
        PermissionRow("iam:CreateServiceLinkedRole", "service-linked-role", _ADMIN_PAGE, when="no service-linked role"),
        *_EKS_ROWS,
        PermissionRow("sagemaker:CreateCluster", "training-plans", _PLANS, when="training plans"),
        PermissionRow("sagemaker:DescribeTrainingPlan", "training-plans", _PLANS, when="training plans"),
        *_IMAGE_ROWS,
        *_KEY_ROWS,
    ),
    "UpdateCluster": (
        PermissionRow("sagemaker:UpdateCluster", "cluster", _REFERENCE),
        PermissionRow("iam:PassRole", "roles", _ADMIN_PAGE),
        *_EKS_ROWS,
        PermissionRow("sagemaker:UpdateCluster", "training-plans", _PLANS, when="training plans"),
        PermissionRow("sagemaker:DescribeTrainingPlan", "training-plans", _PLANS, when="training plans"),
        *_IMAGE_ROWS,
        *_KEY_ROWS,
    ),
    "DeleteCluster": (
        PermissionRow("sagemaker:DeleteCluster", "cluster", _REFERENCE),
        PermissionRow("eks:DescribeAccessEntry", "access-entries", _ADMIN_PAGE),
        PermissionRow("eks:DeleteAccessEntry", "access-entries", _ADMIN_PAGE),
    ),
    "DescribeStackEvents": (PermissionRow("cloudformation:DescribeStackEvents", "stack", _STACKS),),
    "DescribeStacks": (PermissionRow("cloudformation:DescribeStacks", "stack", _STACKS),),
    "ListClusters": (PermissionRow("sagemaker:ListClusters", "everything", _REFERENCE),),
    **{call: (PermissionRow(f"sagemaker:{call}", "cluster", _REFERENCE),) for call in _ON_THE_CLUSTER},
}

HANDLER_CALLS: Final[Mapping[str, tuple[str, ...]]] = {
    "on_event": (
        "AddTags",
        "CreateCluster",
        "DeleteCluster",
        "DeleteTags",
        "DescribeCluster",
        "DescribeStackEvents",
        "DescribeStacks",
        "ListClusterNodes",
        "ListClusters",
        "ListTags",
        "UpdateCluster",
    ),
    "is_complete": (
        "DeleteCluster",
        "DeleteTags",
        "DescribeCluster",
        "DescribeClusterEvent",
        "DescribeStacks",
        "ListClusterEvents",
        "ListClusterNodes",
        "ListClusters",
        "ListTags",
        "UpdateCluster",
    ),
}
"""The calls of each entry point in `handlers/hyperpod_cluster/index.py`; the handlers' tests enforce the list."""
GROUP_COUNTS_CALLS: Final = ("DescribeCluster", "ListClusterNodes", "ListTags", "UpdateCluster")
"""The calls of the function `handlers/group_counts`."""


def access_conditions(roles: Iterable[str], account: str) -> dict[On, dict[str, dict[str, list[str]]]]:
    """Return conditions that limit access entries to the nodes' roles and the service's own, and to its policies.

    Sources: SageMaker API reference, ClusterMetadata: HyperPod makes an entry for each execution role and one for its
    service-linked role; service authorization reference, Amazon EKS: condition keys; EKS user guide, access policies:
    those for HyperPod begin with AmazonSagemakerHyperpod.
    """
    principals = [*roles, f"arn:aws:iam::{account}:role/aws-service-role/{SERVICE_LINKED_ROLE_SERVICE}/*"]
    who = {"eks:principalArn": principals}
    return {
        "access-entries": {"ArnLike": who},
        "access-policies": {"ArnLike": {**who, "eks:policyArn": [ACCESS_POLICIES]}},
        "new-access-entries": {"ArnLike": who},
    }


def actions_of(
    calls: Iterable[str],
    *,
    training_plans: bool = False,
    custom_images: bool = False,
    company_key: bool = False,
    eks: bool = True,
) -> dict[On, list[str]]:
    """Return the actions that these calls need, sorted, by their resources.

    Args:
        calls: Names of API calls.
        training_plans: Whether an instance group uses a training plan.
        custom_images: Whether an instance group uses a custom AMI.
        company_key: Whether the company gives the key of the nodes' volumes.
        eks: Whether EKS orchestrates the cluster.
    """
    left_out = {
        "training plans": not training_plans,
        "custom images": not custom_images,
        "customer managed keys": not company_key,
    }
    found: dict[On, set[str]] = {}
    for call in calls:
        for row in CALLS[call]:
            if left_out.get(row.when) or (not eks and row.action.startswith("eks:")):
                continue
            found.setdefault(row.on, set()).add(row.action)
    return {on: sorted(actions) for on, actions in sorted(found.items())}
