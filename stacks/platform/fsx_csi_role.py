"""What the FSx CSI driver may do in the account."""

from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from config import Environment, naming
from k8s_charts.shared import names
from stacks.shared.irsa import IrsaRole
from stacks.shared.nag_suppressions import acknowledge, wildcard

SERVICE: Final = "fsx.amazonaws.com"


def fsx_csi_role(stack: Stack, cluster: eks.ICluster, environment: Environment) -> IrsaRole:
    """The role of the driver's controller: to look at file systems, and to make and delete them if it shall."""
    description = "FSx CSI driver: looks at file systems, and neither makes nor deletes one"
    statements = [iam.PolicyStatement(actions=["fsx:DescribeFileSystems"], resources=["*"])]
    if environment.fsx.dynamic:
        description = "FSx CSI driver: makes, grows and deletes this environment's file systems"
        statements += _on_own_file_systems(stack, naming.environment_tag(environment))
    role = IrsaRole(
        stack,
        "FsxCsiRole",
        cluster=cluster,
        namespace=names.SYSTEM_NAMESPACE,
        service_account=names.FSX_CSI_SERVICE_ACCOUNT,
        description=description,
        statements=statements,
    )
    reason = "fsx:DescribeFileSystems has no resource type: IAM takes it for all resources only"
    acknowledge(role, reason, wildcard("*"))
    if environment.fsx.dynamic:
        reason = "FSx chooses a file system's id; the conditions on its tag make them this environment's"
        acknowledge(role, reason, wildcard(_file_systems(stack)))
    return role


def _on_own_file_systems(stack: Stack, tag: str) -> list[iam.PolicyStatement]:
    """What dynamic provisioning needs (aws-fsx-csi-driver, docs/install.md), on the environment's own file systems.

    The driver puts the tag on what it makes, so it can make none without it and reach none that lacks it. IAM cannot
    tell tagging at creation from tagging later: `fsx:TagResource` is held to the environment's own value.
    """
    key, file_systems = naming.ENVIRONMENT_TAG, _file_systems(stack)
    return [
        iam.PolicyStatement(
            actions=["fsx:CreateFileSystem", "fsx:TagResource"],
            resources=[file_systems],
            conditions={"StringEquals": {f"aws:RequestTag/{key}": tag}},
        ),
        iam.PolicyStatement(
            actions=["fsx:DeleteFileSystem", "fsx:UpdateFileSystem"],
            resources=[file_systems],
            conditions={"StringEquals": {f"aws:ResourceTag/{key}": tag}},
        ),
        # The account's first file system.
        iam.PolicyStatement(
            actions=["iam:CreateServiceLinkedRole"],
            resources=[f"arn:aws:iam::{stack.account}:role/aws-service-role/{SERVICE}/AWSServiceRoleForAmazonFSx"],
            conditions={"StringEquals": {"iam:AWSServiceName": SERVICE}},
        ),
    ]


def _file_systems(stack: Stack) -> str:
    return f"arn:aws:fsx:{stack.region}:{stack.account}:file-system/*"
