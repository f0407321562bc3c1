"""List what CloudFormation's drift detection reads with its caller's rights."""

from collections.abc import Mapping
from typing import Final

DRIFT_READS: Final[Mapping[str, str]] = {
    "aps": "DescribeAlertManagerDefinition DescribeLoggingConfiguration DescribeQueryLoggingConfiguration "
    "DescribeWorkspace DescribeWorkspaceConfiguration ListTagsForResource",
    "budgets": "ListTagsForResource ViewBudget",
    "cloudwatch": "DescribeAlarms GetDashboard ListTagsForResource",
    "ec2": "DescribeAddresses DescribeFlowLogs DescribeInternetGateways DescribeLaunchTemplateVersions "
    "DescribeLaunchTemplates DescribeManagedPrefixLists DescribeNatGateways DescribeRouteTables "
    "DescribeSecurityGroupRules DescribeSecurityGroups DescribeSubnets DescribeTags DescribeVpcAttribute "
    "DescribeVpcEndpoints DescribeVpcs GetManagedPrefixListEntries",
    "ecr": "DescribeRepositories GetLifecyclePolicy GetRepositoryPolicy ListTagsForResource",
    "eks": "DescribeAccessEntry DescribeAddon DescribeCluster DescribeNodegroup ListAssociatedAccessPolicies "
    "ListTagsForResource",
    "events": "DescribeRule ListTagsForResource ListTargetsByRule",
    "fsx": "DescribeDataRepositoryAssociations DescribeFileSystems ListTagsForResource",
    "grafana": "DescribeWorkspace DescribeWorkspaceAuthentication DescribeWorkspaceConfiguration ListTagsForResource",
    "iam": "GetOpenIDConnectProvider GetRole GetRolePolicy ListAttachedRolePolicies ListRolePolicies ListRoleTags",
    "kms": "DescribeKey GetKeyPolicy GetKeyRotationStatus ListResourceTags",
    "lambda": "GetFunction GetFunctionCodeSigningConfig GetFunctionConfiguration GetLayerVersion ListTags",
    "logs": "DescribeLogGroups GetDataProtectionPolicy ListTagsForResource",
    "s3": "GetAccelerateConfiguration GetAnalyticsConfiguration GetBucketAcl GetBucketCORS GetBucketLogging "
    "GetBucketNotification GetBucketObjectLockConfiguration GetBucketOwnershipControls GetBucketPolicy "
    "GetBucketPublicAccessBlock GetBucketTagging GetBucketVersioning GetBucketWebsite GetEncryptionConfiguration "
    "GetIntelligentTieringConfiguration GetInventoryConfiguration GetLifecycleConfiguration GetMetricsConfiguration "
    "GetReplicationConfiguration",
    "sagemaker": "DescribeMlflowTrackingServer ListTags",
    "sns": "GetDataProtectionPolicy GetSubscriptionAttributes GetTopicAttributes ListSubscriptionsByTopic "
    "ListTagsForResource",
    "ssm": "DescribeParameters ListTagsForResource",
    "states": "DescribeStateMachine ListTagsForResource",
}
"""Drift detection reads each resource with its caller's rights: descriptions only, no data."""
