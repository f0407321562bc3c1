"""What the workflows' roles may do: assume CDK's roles, or read what the commands of `ops` read."""

from typing import Final

from aws_cdk import DefaultStackSynthesizer
from aws_cdk import aws_iam as iam

from config import Environment, naming
from k8s_charts.shared.names import IMAGE_BUILD_LOGS

BOOTSTRAP_ROLES: Final = ("deploy", "file-publishing", "lookup")
"""The bootstrap's roles that `cdk deploy` assumes. CloudFormation's own role is passed on by the first of them."""

_DRIFT_READS: Final = {
    "ec2": "DescribeAddresses DescribeFlowLogs DescribeInternetGateways DescribeLaunchTemplateVersions "
    "DescribeLaunchTemplates DescribeNatGateways DescribeRouteTables DescribeSecurityGroupRules "
    "DescribeSecurityGroups DescribeSubnets DescribeTags DescribeVpcAttribute DescribeVpcEndpoints DescribeVpcs",
    "ecr": "DescribeRepositories GetLifecyclePolicy GetRepositoryPolicy ListTagsForResource",
    "eks": "DescribeAccessEntry DescribeAddon DescribeCluster DescribeNodegroup ListAssociatedAccessPolicies "
    "ListTagsForResource",
    "events": "DescribeRule ListTagsForResource ListTargetsByRule",
    "fsx": "DescribeDataRepositoryAssociations DescribeFileSystems ListTagsForResource",
    "iam": "GetOpenIDConnectProvider GetRole GetRolePolicy ListAttachedRolePolicies ListRolePolicies ListRoleTags",
    "kms": "DescribeKey GetKeyPolicy GetKeyRotationStatus ListResourceTags",
    "lambda": "GetFunction GetFunctionCodeSigningConfig GetFunctionConfiguration GetLayerVersion ListTags",
    "logs": "DescribeLogGroups GetDataProtectionPolicy ListTagsForResource",
    "s3": "GetAccelerateConfiguration GetAnalyticsConfiguration GetBucketAcl GetBucketCORS GetBucketLogging "
    "GetBucketNotification GetBucketObjectLockConfiguration GetBucketOwnershipControls GetBucketPolicy "
    "GetBucketPublicAccessBlock GetBucketTagging GetBucketVersioning GetBucketWebsite GetEncryptionConfiguration "
    "GetIntelligentTieringConfiguration GetInventoryConfiguration GetLifecycleConfiguration GetMetricsConfiguration "
    "GetReplicationConfiguration",
    "sns": "GetDataProtectionPolicy GetSubscriptionAttributes GetTopicAttributes ListSubscriptionsByTopic "
    "ListTagsForResource",
    "ssm": "DescribeParameters ListTagsForResource",
    "states": "DescribeStateMachine ListTagsForResource",
}
"""Drift detection reads each resource with its caller's rights: descriptions only, no data."""


def assume_bootstrap_roles(environment: Environment) -> iam.PolicyStatement:
    """Return the right to assume the bootstrap's roles in the environment's account and region."""
    where = f"{environment.account}-{environment.region}"
    qualifier = environment.company.bootstrap_qualifier or DefaultStackSynthesizer.DEFAULT_QUALIFIER
    arn = f"arn:aws:iam::{environment.account}:role/cdk-{qualifier}"
    return iam.PolicyStatement(
        sid="AssumeBootstrapRoles",
        actions=["sts:AssumeRole"],
        resources=[f"{arn}-{role}-role-{where}" for role in BOOTSTRAP_ROLES],
    )


def find(environment: Environment) -> list[iam.PolicyStatement]:
    """Return the rights to read the environment's stacks, and to find its clusters."""
    where = f"{environment.region}:{environment.account}"
    return [
        iam.PolicyStatement(
            sid="ReadStacks",
            actions=[f"cloudformation:{name}" for name in ("DescribeStacks", "GetTemplate", "ListStackResources")],
            resources=[f"arn:aws:cloudformation:{where}:stack/{naming.stack(environment, '*')}/*"],
        ),
        iam.PolicyStatement(
            sid="FindKubernetes",
            actions=["eks:DescribeCluster"],
            resources=[f"arn:aws:eks:{where}:cluster/{naming.eks_cluster(environment)}"],
        ),
        iam.PolicyStatement(
            sid="FindHyperPod",
            actions=["sagemaker:DescribeCluster", "sagemaker:ListTags"],
            resources=[_hyperpod_clusters(environment)],
        ),
    ]


def wait(environment: Environment) -> list[iam.PolicyStatement]:
    """Return the further rights of `ops wait`: the cluster's nodes and events, the image and its build's log."""
    where = f"{environment.region}:{environment.account}"
    nodes = ("DescribeClusterEvent", "ListClusterEvents", "ListClusterNodes")
    statements = [
        iam.PolicyStatement(
            sid="ReadNodes",
            actions=[f"sagemaker:{name}" for name in nodes],
            resources=[_hyperpod_clusters(environment)],
        )
    ]
    if repository := environment.image.repository:
        image = f"arn:aws:ecr:{where}:repository/{repository}"
        logs = f"arn:aws:s3:::{naming.data_bucket(environment)}/{IMAGE_BUILD_LOGS}/*"
        statements += [
            iam.PolicyStatement(sid="ReadImage", actions=["ecr:DescribeImages"], resources=[image]),
            iam.PolicyStatement(sid="ReadBuildLog", actions=["s3:GetObject"], resources=[logs]),
        ]
        if key := environment.company.kms_key:
            through = {"StringEquals": {"kms:ViaService": f"s3.{environment.region}.amazonaws.com"}}
            statements.append(
                iam.PolicyStatement(sid="DecryptBuildLog", actions=["kms:Decrypt"], resources=[key], conditions=through)
            )
    return statements


def _hyperpod_clusters(environment: Environment) -> str:
    # A cluster's ARN ends in an id that SageMaker chooses.
    return f"arn:aws:sagemaker:{environment.region}:{environment.account}:cluster/*"


def detect_drift(environment: Environment) -> list[iam.PolicyStatement]:
    """Return the rights to start CloudFormation's drift detection, and to read what it compares."""
    where = f"{environment.region}:{environment.account}"
    return [
        iam.PolicyStatement(
            sid="DetectDrift",
            actions=[
                f"cloudformation:{name}"
                for name in ("DescribeStackResourceDrifts", "DetectStackDrift", "DetectStackResourceDrift")
            ],
            resources=[f"arn:aws:cloudformation:{where}:stack/{naming.stack(environment, '*')}/*"],
        ),
        iam.PolicyStatement(
            sid="ReadParameters",
            actions=["ssm:GetParameters"],
            # CloudFormation names the parameters of the stacks, which hold no secret.
            resources=[f"arn:aws:ssm:{where}:parameter/CFN-*"],
        ),
        iam.PolicyStatement(
            sid="ReadResources",
            actions=[
                "cloudformation:DescribeStackDriftDetectionStatus",
                *(f"{service}:{action}" for service, actions in _DRIFT_READS.items() for action in actions.split()),
            ],
            # Most of these actions do not know resources, or know them only by ids that AWS chooses.
            resources=["*"],
        ),
    ]
