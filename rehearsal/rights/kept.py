"""Say why rights stay that no recorded decision needs: who calls, and where that is written."""

import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from config.facts.drift_permissions import DRIFT_READS
from ops.policy.role import PersonRole
from rehearsal.rights.replay import Right

_CNI: Final = "the VPC CNI on the nodes (amazon-vpc-cni-k8s, {})"
_HYPERPOD: Final = (
    "HyperPod, for the nodes' interfaces (SageMaker developer guide, sagemaker-hyperpod-prerequisites-iam)"
)
_PULL: Final = (
    "kubelet's image pulls (same page: what nodes with EKS need; Amazon ECR user guide, required permissions)"
)
_BOOTSTRAP: Final = (
    "CloudFormation reads the bootstrap with it, or updates it as no bootstrap here does, for the caller"
)
_CDK_CLI: Final = "the CDK CLI, in a bootstrap of another kind: {}"
_PLUGIN: Final = "Session Manager's plugin of the AWS CLI (session-manager-plugin, src/sessionmanagerplugin/session/{})"
_DRIFT_READ: Final = "CloudFormation reads with it for drift detection, in the caller's name, which is not evaluated"

_REASONS: Final = (
    ("*ramework*", "lambda:GetFunction", "CDK's provider framework waits with it for a function that is not active"),
    (
        "*onTimeoutServiceRole",
        "lambda:InvokeFunction",
        "CDK's own grant: its `onTimeout` only reports the failure (provider-framework/runtime/framework.ts)",
    ),
    ("*CustomCDKBucketDeployment*", "s3:*", "CDK's own grant of its `BucketDeployment`"),
    ("admin", "iam:*Role* s3:*Bucket* s3:Put*Configuration ssm:*Parameter*", _BOOTSTRAP),
    ("admin", "ecr:CreateRepository ecr:Put* ecr:SetRepositoryPolicy ecr:TagResource", _BOOTSTRAP),
    (
        "admin",
        "ecr:Batch* ecr:CompleteLayerUpload ecr:GetDownloadUrlForLayer ecr:InitiateLayerUpload ecr:UploadLayerPart",
        "`ops mirror` copies images with it by the registry's HTTP API, which no ECR answers here (Amazon ECR user "
        "guide, required permissions)",
    ),
    (
        "admin",
        "kms:CreateGrant",
        "UpdateCluster with a company's key, as `ops resume` calls it (service authorization reference)",
    ),
    ("admin", "cloudformation:DeleteChangeSet", _CDK_CLI.format("it deletes a change set without changes")),
    ("admin", "cloudformation:DescribeEvents", _CDK_CLI.format("it shows why a change set is invalid")),
    ("admin", "cloudformation:UpdateTerminationProtection", _CDK_CLI.format("`--termination-protection`")),
    (
        "admin",
        "servicequotas:RequestServiceQuotaIncrease",
        "the command that `ops preflight` prints for a quota that is too low; AWS decides over it in days",
    ),
    ("*", "AWSLambda*", "Lambda writes logs and makes interfaces with it, in a deployment of another kind"),
    ("eks: ClusterRole", "AmazonEKSClusterPolicy", "EKS's control plane (Amazon EKS user guide, cluster-iam-role)"),
    (
        "eks: SystemNodesRole",
        "Amazon*",
        "kubelet, the VPC CNI and image pulls on EC2's nodes (Amazon EKS user guide, create-node-role)",
    ),
    (
        "network: FlowLogsIAMRole",
        "logs:*",
        "VPC Flow Logs writes records with it (Amazon VPC user guide, flow-logs-iam-role); no traffic is recorded here",
    ),
    (
        "platform: FsxCsiRole",
        "fsx:DescribeFileSystems",
        "the driver's ControllerExpandVolume and ValidateVolumeCapabilities (aws-fsx-csi-driver, "
        "pkg/driver/controller.go)",
    ),
    (
        "ray: RayRole",
        "s3:AbortMultipartUpload",
        "a job's own client, such as boto3, when an upload fails (s3transfer/tasks.py)",
    ),
    ("hyperpod: ExecutionRole", "ec2:DescribeTags", _CNI.format("pkg/ec2wrapper/ec2wrapper.go")),
    (
        "hyperpod: ExecutionRole",
        "ec2:AssignPrivateIpAddresses ec2:AttachNetworkInterface ec2:CreateTags ec2:DeleteNetworkInterface "
        "ec2:DescribeInstanceTypes ec2:DescribeInstances ec2:DescribeNetworkInterfaces ec2:DetachNetworkInterface "
        "ec2:ModifyNetworkInterfaceAttribute ec2:UnassignPrivateIpAddresses",
        _CNI.format("pkg/awsutils/awsutils.go"),
    ),
    (
        "hyperpod: ExecutionRole",
        "sagemaker:AttachClusterNodeNetworkInterface",
        _CNI.format("pull request 3874: interfaces of HyperPod's nodes"),
    ),
    (
        "hyperpod: ExecutionRole",
        "ec2:CreateNetworkInterfacePermission ec2:DeleteNetworkInterfacePermission ec2:DescribeDhcpOptions",
        _HYPERPOD,
    ),
    ("hyperpod: ExecutionRole", "ecr:*", _PULL),
    (
        "hyperpod: ExecutionRole",
        "eks-auth:AssumeRoleForPodIdentity",
        "the EKS Pod Identity Agent on the nodes (Amazon EKS user guide, pod-id-how-it-works)",
    ),
    (
        "hyperpod: ExecutionRole",
        "cloudwatch:PutMetricData logs:*",
        "HyperPod's agents publish the nodes' metrics and logs (AmazonSageMakerClusterInstanceRolePolicy)",
    ),
    (
        "hyperpod: ExecutionRole",
        "ssmmessages:*",
        "the SSM Agent on the nodes opens sessions (AmazonSageMakerClusterInstanceRolePolicy)",
    ),
    (
        "storage: * (bucket policy)",
        "s3:[*]",
        "a request without TLS (Amazon S3 user guide, security best practices): here every request counts as TLS",
    ),
    (
        "storage: Data (bucket policy)",
        "s3:DeleteObject[*]",
        "CDK's own grant of `auto_delete_objects`: a rehearsal's data bucket is empty when it is destroyed",
    ),
    (
        "storage: * (bucket policy)",
        "s3:PutObject",
        "CDK's deleter of objects denies new ones while it empties the bucket; nobody else writes meanwhile",
    ),
    ("*", "ssm:ResumeSession", _PLUGIN.format("sessionhandler.go, after a lost connection")),
    ("*", "ssm:TerminateSession", _PLUGIN.format("sessionhandler.go, at its end")),
    (
        "*",
        "ssm:StartSession",
        "`aws ssm start-session` of `ops node shell` and `ops ssh-config`; the embedded account has no Session Manager",
    ),
    (
        "*",
        "cloudformation:DetectStackResourceDrift",
        "CloudFormation asks for it with DetectStackDrift (AWS CloudFormation user guide, using-cfn-stack-drift)",
    ),
    ("*", "ssm:GetParameters", _DRIFT_READ),
)
"""Patterns of owners and of actions, with the reason; the first that matches counts."""
_DRIFT: Final = frozenset(f"{service}:{name}" for service, names in DRIFT_READS.items() for name in names.split())
_READ_DRIFT: Final = re.compile(r"admin|operator|\w+: Read")


def reason(right: Right, needed: Mapping[Right, bool]) -> str | None:
    """Return why the right stays, or None. `needed` says which of all rights a recorded decision needs."""
    for owner, actions, why in _REASONS:
        if fnmatchcase(right.owner, owner) and any(fnmatchcase(right.action, each) for each in actions.split()):
            return why
    if _READ_DRIFT.fullmatch(right.owner) and right.action in _DRIFT:
        return _DRIFT_READ
    if right.owner == PersonRole.ADMIN:
        sharing = [each.owner for each, is_needed in needed.items() if is_needed and _share(right, each)]
        return f"exercised as the {min(sharing)}'s: an administrator may do all that others may" if sharing else None
    return None


def _share(right: Right, other: Right) -> bool:
    """Return whether both are in one statement of `ops/policy`, for two roles of people."""
    ours, theirs = (replace(each, owner="") for each in (right, other))
    return {right.owner, other.owner} <= set(PersonRole) and (ours, right.statement) == (theirs, other.statement)
