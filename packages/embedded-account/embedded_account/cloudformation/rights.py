"""List the rights with which CloudFormation acts on a resource: those of the stack's role, or else of the caller.

Source: `handlers` in AWS's registry schemas, which cfn-lint contains. Their lists are for all that a type can do: an
action counts here only when the property beside it is set, changed or loses a part. The property is the one that the
action's API call sets (service authorization reference). Only the types of `RIGHTS` are evaluated.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from embedded_account.cloudformation.handlers import Properties, Target
from embedded_account.context import Account
from embedded_account.services.iam.access import backend_of, listed

ALWAYS: Final = ""
LOST: Final = "-"
"""Before a property: the action counts when an update takes a part of it away."""

_OF_BUCKETS: Final = {
    "s3:PutAccelerateConfiguration": "AccelerateConfiguration",
    "s3:PutAnalyticsConfiguration": "AnalyticsConfigurations",
    "s3:PutBucketCORS": "CorsConfiguration",
    "s3:PutBucketLogging": "LoggingConfiguration",
    "s3:PutBucketNotification": "NotificationConfiguration",
    "s3:PutBucketObjectLockConfiguration": "ObjectLockConfiguration ObjectLockEnabled",
    "s3:PutBucketOwnershipControls": "OwnershipControls",
    "s3:PutBucketPublicAccessBlock": "PublicAccessBlockConfiguration",
    "s3:PutBucketTagging": "Tags",
    "s3:PutBucketVersioning": "VersioningConfiguration",
    "s3:PutBucketWebsite": "WebsiteConfiguration",
    "s3:PutEncryptionConfiguration": "BucketEncryption",
    "s3:PutIntelligentTieringConfiguration": "IntelligentTieringConfigurations",
    "s3:PutInventoryConfiguration": "InventoryConfigurations",
    "s3:PutLifecycleConfiguration": "LifecycleConfiguration",
    "s3:PutMetricsConfiguration": "MetricsConfigurations",
    "s3:PutReplicationConfiguration": "ReplicationConfiguration",
}
"""Actions on buckets, with the property whose API call needs them. What is taken away needs the same action: S3 has no
right of its own to delete a configuration, but for policies and websites (S3 user guide, required permissions)."""
RIGHTS: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "AWS::ECR::Repository": {
        "create": {
            "ecr:CreateRepository": ALWAYS,
            "ecr:PutLifecyclePolicy": "LifecyclePolicy",
            "ecr:SetRepositoryPolicy": "RepositoryPolicyText",
            "ecr:TagResource": "Tags",
        },
        "update": {
            "ecr:DescribeRepositories": ALWAYS,
            "ecr:PutLifecyclePolicy": "LifecyclePolicy",
            "ecr:DeleteLifecyclePolicy": "-LifecyclePolicy",
            "ecr:SetRepositoryPolicy": "RepositoryPolicyText",
            "ecr:DeleteRepositoryPolicy": "-RepositoryPolicyText",
            "ecr:PutImageScanningConfiguration": "ImageScanningConfiguration",
            "ecr:PutImageTagMutability": "ImageTagMutability",
            "ecr:TagResource": "Tags",
            "ecr:UntagResource": "-Tags",
        },
        "delete": {"ecr:DeleteRepository": ALWAYS},
    },
    "AWS::IAM::Policy": {
        "create": {"iam:PutRolePolicy": "Roles", "iam:GetRolePolicy": "Roles"},
        "update": {"iam:PutRolePolicy": "PolicyDocument", "iam:DeleteRolePolicy": "-Roles"},
        "delete": {"iam:DeleteRolePolicy": "Roles"},
    },
    "AWS::IAM::Role": {
        "create": {
            "iam:CreateRole": ALWAYS,
            "iam:GetRole": ALWAYS,
            "iam:AttachRolePolicy": "ManagedPolicyArns",
            "iam:GetRolePolicy": "Policies",
            "iam:PutRolePolicy": "Policies",
            "iam:TagRole": "Tags",
        },
        "update": {
            "iam:UpdateAssumeRolePolicy": "AssumeRolePolicyDocument",
            "iam:UpdateRole": "Description MaxSessionDuration",
            "iam:AttachRolePolicy": "ManagedPolicyArns",
            "iam:DetachRolePolicy": "-ManagedPolicyArns",
            "iam:PutRolePolicy": "Policies",
            "iam:DeleteRolePolicy": "-Policies",
            "iam:PutRolePermissionsBoundary": "PermissionsBoundary",
            "iam:DeleteRolePermissionsBoundary": "-PermissionsBoundary",
            "iam:TagRole": "Tags",
            "iam:UntagRole": "-Tags",
        },
        "delete": {
            "iam:DeleteRole": ALWAYS,
            "iam:GetRole": ALWAYS,
            "iam:ListAttachedRolePolicies": ALWAYS,
            "iam:ListRolePolicies": ALWAYS,
            "iam:DetachRolePolicy": "ManagedPolicyArns",
            "iam:DeleteRolePolicy": "Policies",
        },
    },
    "AWS::S3::Bucket": {
        "create": {"s3:CreateBucket": ALWAYS, **_OF_BUCKETS},
        "update": _OF_BUCKETS,
        "delete": {"s3:DeleteBucket": ALWAYS},
    },
    "AWS::S3::BucketPolicy": {
        "create": {"s3:GetBucketPolicy": ALWAYS, "s3:PutBucketPolicy": ALWAYS},
        "update": {"s3:GetBucketPolicy": ALWAYS, "s3:PutBucketPolicy": ALWAYS},
        "delete": {"s3:GetBucketPolicy": ALWAYS, "s3:DeleteBucketPolicy": ALWAYS},
    },
    "AWS::SSM::Parameter": {
        "create": {"ssm:PutParameter": ALWAYS, "ssm:GetParameters": ALWAYS, "ssm:AddTagsToResource": "Tags"},
        "update": {
            "ssm:PutParameter": ALWAYS,
            "ssm:GetParameters": ALWAYS,
            "ssm:AddTagsToResource": "Tags",
            "ssm:RemoveTagsFromResource": "-Tags",
        },
        "delete": {"ssm:DeleteParameter": ALWAYS},
    },
}
"""By type and operation, the actions and what makes each necessary: a property, one of several, or ALWAYS."""


def needs(
    account: Account, target: Target, operation: str, properties: Properties, before: Properties
) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Yield action, resource and condition keys of an operation on a resource; nothing for a type without rights here.

    `before` holds the properties that an update changes.
    """
    tagged = {**properties, **({"Tags": [*listed(properties.get("Tags")), *target.tags]} if target.tags else {})}
    for action, cause in RIGHTS.get(target.type, {}).get(operation, {}).items():
        if _counts(cause, operation, tagged, before):
            for resource, context in _resources(account, target, properties):
                yield action, resource, context


def _counts(cause: str, operation: str, properties: Properties, before: Properties) -> bool:
    if not cause:
        return True
    if cause.startswith(LOST):
        old, new = (each.get(cause.removeprefix(LOST)) for each in (before, properties))
        return any(part not in _parts(new) for part in _parts(old))
    names = cause.split()
    if operation == "update":
        return any(properties.get(name) not in (None, before.get(name)) for name in names)
    return any(properties.get(name) for name in names)


def _parts(value: Any) -> list[Any]:
    """Return what can be taken away: a policy that is changed is not deleted, but set."""
    return [*value] if isinstance(value, Mapping) else listed(value)


def _resources(account: Account, target: Target, properties: Properties) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the ARNs that the actions are checked on; AWS chooses the end of a name that the template leaves open."""
    where = f"{account.region}:{account.account_id}"
    chosen = f"{target.stack_name}-{target.logical_id}-*"
    match target.type:
        case "AWS::ECR::Repository":
            yield f"arn:aws:ecr:{where}:repository/{properties.get('RepositoryName', chosen.lower())}", {}
        case "AWS::IAM::Policy":
            for name in listed(properties.get("Roles")):
                role = backend_of(account).get_role(name)
                yield role.arn, _bounded(role.permissions_boundary_arn)
        case "AWS::IAM::Role":
            name = f"{properties.get('Path', '/')}{properties.get('RoleName', chosen)}"
            yield f"arn:aws:iam::{account.account_id}:role{name}", _bounded(properties.get("PermissionsBoundary"))
        case "AWS::S3::Bucket":
            yield f"arn:aws:s3:::{properties.get('BucketName', chosen.lower())}", {}
        case "AWS::S3::BucketPolicy":
            yield f"arn:aws:s3:::{properties['Bucket']}", {}
        case "AWS::SSM::Parameter":
            name = str(properties.get("Name", f"CFN-{target.logical_id}-*")).removeprefix("/")
            yield f"arn:aws:ssm:{where}:parameter/{name}", {}


def _bounded(boundary: str | None) -> Mapping[str, str]:
    return {"iam:PermissionsBoundary": boundary} if boundary else {}
