"""Which permissions a HyperPod call needs: its own action and those that the service uses in the caller's name.

CALLS is the one place for it: API call -> action -> source. The handlers' policies are written from it (stacks); the
simulated HyperPod has a table of its own, and a test compares the two. HANDLER_CALLS says which calls each handler
may make.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

SERVICE_LINKED_ROLE: Final = "AWSServiceRoleForSageMakerHyperPod"
SERVICE_LINKED_ROLE_SERVICE: Final = "hyperpod.sagemaker.amazonaws.com"

On = Literal[
    "access-entries",
    "cluster",
    "eks-cluster",
    "everything",
    "images",
    "roles",
    "service-linked-role",
    "snapshots",
    "stack",
    "training-plans",
]
"""What a permission is for: access entries of the EKS cluster, the HyperPod cluster, the EKS cluster that orchestrates,
any resource (the action knows no narrower), the groups' own AMIs, the execution roles, HyperPod's service-linked role,
snapshots (an AMI's id does not tell its), the stack itself, the groups' training plans and what is reserved by them."""

_REFERENCE = "Service authorization reference, Amazon SageMaker"
_STACKS = "Service authorization reference, AWS CloudFormation"
_PLANS = "AWS managed policy AmazonSageMakerFullAccess, AllowUseOfTrainingPlanResources"
_ADMIN_PAGE = "AWS docs: sagemaker-hyperpod-prerequisites-iam, cluster admin, Amazon EKS"
_IMAGES = "AWS docs: hyperpod-custom-ami-cluster-management, required permissions for cluster operations"
_TAGS = "AWS docs: sagemaker-hyperpod-prerequisites-iam, general creation policy"


@dataclass(frozen=True)
class Row:
    """One permission; `when` is what makes it necessary."""

    action: str
    on: On
    source: str
    when: Literal["always", "tags", "no service-linked role", "training plans", "custom images"] = "always"


_EKS_ROWS: Final = (
    Row("eks:DescribeCluster", "eks-cluster", _ADMIN_PAGE),
    Row("eks:CreateAccessEntry", "eks-cluster", _ADMIN_PAGE),
    Row("eks:DescribeAccessEntry", "access-entries", _ADMIN_PAGE),
    Row("eks:DeleteAccessEntry", "access-entries", _ADMIN_PAGE),
    Row("eks:AssociateAccessPolicy", "access-entries", _ADMIN_PAGE),
)
# The caller shares its AMI with the service.
_IMAGE_ROWS: Final = (
    Row("ec2:DescribeImages", "everything", _IMAGES, when="custom images"),
    Row("ec2:DescribeSnapshots", "everything", _IMAGES, when="custom images"),
    Row("ec2:ModifyImageAttribute", "images", _IMAGES, when="custom images"),
    Row("ec2:ModifySnapshotAttribute", "snapshots", _IMAGES, when="custom images"),
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
    "UpdateClusterSoftware",
    "AddTags",
    "ListTags",
    "DeleteTags",
)

CALLS: Final[Mapping[str, tuple[Row, ...]]] = {
    "CreateCluster": (
        Row("sagemaker:CreateCluster", "cluster", _REFERENCE),
        Row("sagemaker:AddTags", "cluster", _TAGS, when="tags"),
        Row("iam:PassRole", "roles", _ADMIN_PAGE),
        Row("iam:CreateServiceLinkedRole", "service-linked-role", _ADMIN_PAGE, when="no service-linked role"),
        *_EKS_ROWS,
        Row("sagemaker:CreateCluster", "training-plans", _PLANS, when="training plans"),
        Row("sagemaker:DescribeTrainingPlan", "training-plans", _PLANS, when="training plans"),
        *_IMAGE_ROWS,
    ),
    "UpdateCluster": (
        Row("sagemaker:UpdateCluster", "cluster", _REFERENCE),
        Row("iam:PassRole", "roles", _ADMIN_PAGE),
        *_EKS_ROWS,
        Row("sagemaker:UpdateCluster", "training-plans", _PLANS, when="training plans"),
        Row("sagemaker:DescribeTrainingPlan", "training-plans", _PLANS, when="training plans"),
        *_IMAGE_ROWS,
    ),
    "DeleteCluster": (
        Row("sagemaker:DeleteCluster", "cluster", _REFERENCE),
        Row("eks:DescribeAccessEntry", "access-entries", _ADMIN_PAGE),
        Row("eks:DeleteAccessEntry", "access-entries", _ADMIN_PAGE),
    ),
    "DescribeStacks": (Row("cloudformation:DescribeStacks", "stack", _STACKS),),
    "ListClusters": (Row("sagemaker:ListClusters", "everything", _REFERENCE),),
    **{call: (Row(f"sagemaker:{call}", "cluster", _REFERENCE),) for call in _ON_THE_CLUSTER},
}

HANDLER_CALLS: Final[Mapping[str, tuple[str, ...]]] = {
    "on_event": (
        "AddTags",
        "CreateCluster",
        "DeleteCluster",
        "DeleteTags",
        "DescribeCluster",
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
"""The calls of each entry point in `handlers/hyperpod_cluster/index.py`; the handlers' tests hold them to it."""


def actions_of(
    calls: Iterable[str], *, training_plans: bool = False, custom_images: bool = False
) -> dict[On, list[str]]:
    """The actions that these calls need, sorted, by what they are for.

    `training_plans`, `custom_images`: where a group has one.
    """
    left_out = {"training plans": not training_plans, "custom images": not custom_images}
    found: dict[On, set[str]] = {}
    for call in calls:
        for row in CALLS[call]:
            if left_out.get(row.when):
                continue
            found.setdefault(row.on, set()).add(row.action)
    return {on: sorted(actions) for on, actions in sorted(found.items())}
