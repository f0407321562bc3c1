"""List the permissions that the simulated HyperPod requires: each operation's own action and further actions.

The list comes from AWS's pages, not from the policies of a deployed project. A mistake in those policies must not
repeat itself here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

SERVICE_LINKED_ROLE: Final = "AWSServiceRoleForSageMakerHyperPod"
SERVICE_LINKED_ROLE_SERVICE: Final = "hyperpod.sagemaker.amazonaws.com"

Resource = Literal[
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
    "training-plans",
]
"""The resources of an action: access entries of the EKS cluster, also for policies, the HyperPod cluster, the EKS
cluster, any resource, grants of the volumes' KMS keys, the groups' AMIs, those keys, the EKS cluster for new access
entries, the execution roles, HyperPod's service-linked role, an AMI's snapshots, training plans."""


@dataclass(frozen=True)
class Requirement:
    """A permission that an operation requires; `when` is the condition under which it is required."""

    action: str
    on: Resource
    source: str
    when: Literal[
        "always", "tags", "no service-linked role", "training plans", "custom images", "customer managed keys"
    ] = "always"


_REFERENCE: Final = "Service authorization reference, Amazon SageMaker, actions"
_EKS_ADMIN: Final = "AWS docs: sagemaker-hyperpod-prerequisites-iam, IAM permissions for cluster admin, Amazon EKS"
_CREATION: Final = "AWS docs: sagemaker-hyperpod-prerequisites-iam, general creation policy"
_TRAINING_PLANS: Final = "AWS managed policy AmazonSageMakerFullAccess, AllowUseOfTrainingPlanResources"
_CUSTOM_AMI: Final = "AWS docs: hyperpod-custom-ami-cluster-management, permissions for cluster operations"
_KEYS: Final = "AWS docs: smcluster-cmk, permissions"

_SHARED: Final = (
    Requirement("iam:PassRole", "roles", _EKS_ADMIN),
    Requirement("eks:DescribeCluster", "eks-cluster", _EKS_ADMIN),
    Requirement("eks:CreateAccessEntry", "new-access-entries", _EKS_ADMIN),
    Requirement("eks:DescribeAccessEntry", "access-entries", _EKS_ADMIN),
    Requirement("eks:DeleteAccessEntry", "access-entries", _EKS_ADMIN),
    Requirement("eks:AssociateAccessPolicy", "access-policies", _EKS_ADMIN),
    Requirement("sagemaker:DescribeTrainingPlan", "training-plans", _TRAINING_PLANS, when="training plans"),
    Requirement("ec2:DescribeImages", "everything", _CUSTOM_AMI, when="custom images"),
    Requirement("ec2:DescribeSnapshots", "everything", _CUSTOM_AMI, when="custom images"),
    Requirement("ec2:ModifyImageAttribute", "images", _CUSTOM_AMI, when="custom images"),
    Requirement("ec2:ModifySnapshotAttribute", "snapshots", _CUSTOM_AMI, when="custom images"),
    Requirement("kms:CreateGrant", "grants-of-the-key", _KEYS, when="customer managed keys"),
    Requirement("kms:DescribeKey", "key", _KEYS, when="customer managed keys"),
)

_OWN_ACTION_ONLY: Final = (
    "AddTags",
    "BatchDeleteClusterNodes",
    "BatchRebootClusterNodes",
    "BatchReplaceClusterNodes",
    "DeleteTags",
    "DescribeCluster",
    "DescribeClusterEvent",
    "DescribeClusterNode",
    "DescribeClusterOperation",
    "ListClusterEvents",
    "ListClusterNodes",
    "ListClusterOperations",
    "ListTags",
    "StartClusterHealthCheck",
    "UpdateClusterSoftware",
)

REQUIRED: Final[Mapping[str, tuple[Requirement, ...]]] = {
    "CreateCluster": (
        Requirement("sagemaker:CreateCluster", "cluster", _REFERENCE),
        Requirement("sagemaker:CreateCluster", "training-plans", _TRAINING_PLANS, when="training plans"),
        Requirement("sagemaker:AddTags", "cluster", _CREATION, when="tags"),
        Requirement("iam:CreateServiceLinkedRole", "service-linked-role", _EKS_ADMIN, when="no service-linked role"),
        *_SHARED,
    ),
    "UpdateCluster": (
        Requirement("sagemaker:UpdateCluster", "cluster", _REFERENCE),
        Requirement("sagemaker:UpdateCluster", "training-plans", _TRAINING_PLANS, when="training plans"),
        *_SHARED,
    ),
    "DeleteCluster": (
        Requirement("sagemaker:DeleteCluster", "cluster", _REFERENCE),
        Requirement("eks:DescribeAccessEntry", "access-entries", _EKS_ADMIN),
        Requirement("eks:DeleteAccessEntry", "access-entries", _EKS_ADMIN),
    ),
    "ListClusters": (Requirement("sagemaker:ListClusters", "everything", _REFERENCE),),
    **{call: (Requirement(f"sagemaker:{call}", "cluster", _REFERENCE),) for call in _OWN_ACTION_ONLY},
}
"""The permissions by operation; the first is for the operation's own action."""
