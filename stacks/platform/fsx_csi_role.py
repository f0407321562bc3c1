"""The IAM role of the FSx CSI driver."""

from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from config import Environment, naming
from k8s_charts.shared import names
from stacks.shared.company_key import may_use
from stacks.shared.environment_stack import EnvironmentStack
from stacks.shared.irsa import IrsaRole
from stacks.shared.nag_suppressions import acknowledge, wildcard

SERVICE: Final = "fsx.amazonaws.com"


def fsx_csi_role(stack: EnvironmentStack, cluster: eks.ICluster, environment: Environment) -> IrsaRole:
    """Return the role of the driver's controller; with dynamic provisioning it may create and delete file systems."""
    description = "FSx CSI driver: describes file systems, cannot create or delete them"
    statements = [iam.PolicyStatement(actions=["fsx:DescribeFileSystems"], resources=["*"])]
    if environment.fsx.dynamic:
        description = "FSx CSI driver: creates, grows and deletes this environment's file systems"
        statements += _on_own_file_systems(stack, naming.environment_tag(environment))
        if stack.company_key:
            # FSx for Lustre user guide, "Amazon FSx key policies for AWS KMS": what is required.
            required = ("kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext")
            statements.append(may_use(stack.company_key, "fsx", "kms:CreateGrant"))
            statements.append(may_use(stack.company_key, "fsx", *required))
    role = IrsaRole(
        stack,
        "FsxCsiRole",
        cluster=cluster,
        namespace=names.SYSTEM_NAMESPACE,
        service_account=names.FSX_CSI_SERVICE_ACCOUNT,
        description=description,
        statements=statements,
    )
    reason = "fsx:DescribeFileSystems has no resource type: IAM accepts it for all resources only"
    acknowledge(role, reason, wildcard("*"))
    if environment.fsx.dynamic:
        reason = "FSx chooses a file system's id; conditions on its tag limit the rights to this environment"
        acknowledge(role, reason, wildcard(_file_systems(stack)))
    return role


def _on_own_file_systems(stack: Stack, tag: str) -> list[iam.PolicyStatement]:
    """Return the rights for dynamic provisioning (aws-fsx-csi-driver, docs/install.md), on own file systems only.

    The driver tags each file system that it creates. It cannot create one without the tag, nor change one that lacks
    it. IAM cannot distinguish tagging at creation from tagging later, so `fsx:TagResource` is limited to the
    environment's own tag value.
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
        # Needed for the account's first file system.
        iam.PolicyStatement(
            actions=["iam:CreateServiceLinkedRole"],
            resources=[f"arn:aws:iam::{stack.account}:role/aws-service-role/{SERVICE}/AWSServiceRoleForAmazonFSx"],
            conditions={"StringEquals": {"iam:AWSServiceName": SERVICE}},
        ),
    ]


def _file_systems(stack: Stack) -> str:
    return f"arn:aws:fsx:{stack.region}:{stack.account}:file-system/*"
