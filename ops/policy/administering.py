"""What an administrator may do beyond deploying and operating: bootstrap, raise quotas, remove what is left."""

from collections.abc import Iterator
from typing import Final

from config import naming
from ops.policy.arns import EVERYTHING, Arns, EksArns
from ops.policy.statement import STACK_TAG, Conditions, Statement, actions
from ops.preflight.account import linked_services

_BOOTSTRAP_STACK: Final = (
    "CreateChangeSet DeleteChangeSet DescribeChangeSet DescribeEvents DescribeStackEvents DescribeStacks "
    "ExecuteChangeSet GetTemplate ListStackResources UpdateTerminationProtection"
)
_BOOTSTRAP_BUCKET: Final = (
    "CreateBucket DeleteBucketPolicy GetBucketPolicy GetBucketPublicAccessBlock GetBucketTagging GetBucketVersioning "
    "GetEncryptionConfiguration GetLifecycleConfiguration PutBucketPolicy PutBucketPublicAccessBlock PutBucketTagging "
    "PutBucketVersioning PutEncryptionConfiguration PutLifecycleConfiguration"
)
_BOOTSTRAP_REPOSITORY: Final = (
    "CreateRepository DeleteRepository DescribeRepositories GetLifecyclePolicy GetRepositoryPolicy ListTagsForResource "
    "PutImageScanningConfiguration PutImageTagMutability PutLifecyclePolicy SetRepositoryPolicy TagResource "
    "UntagResource"
)
_BOOTSTRAP_ROLES: Final = (
    "DeleteRole GetRole GetRolePolicy ListAttachedRolePolicies ListRolePolicies ListRoleTags TagRole UntagRole "
    "UpdateAssumeRolePolicy UpdateRole"
)
_GRANT: Final = "AttachRolePolicy CreateRole DeleteRolePolicy DetachRolePolicy PutRolePolicy"
"""Actions that a condition on the permissions boundary restrains (service authorization reference, IAM)."""
_OTHER_ROLES: Final = ("cfn-exec", "image-publishing")
"""The bootstrap's roles that no deployment assumes: CloudFormation's own, and one for images."""
_DESCRIBE_LEFTOVERS: Final = (
    "DescribeNetworkInterfaces DescribeSecurityGroups DescribeSnapshots DescribeVolumes DescribeVpcEndpoints "
    "DescribeVpcs"
)
_QUOTAS_OF: Final = ("ec2", "eks", "fsx", "sagemaker", "vpc")


def bootstrap(arns: Arns) -> Iterator[Statement]:
    """Yield what `cdk bootstrap` needs; CloudFormation creates the bootstrap's resources with the caller's rights.

    Source: CDK developer guide, "Bootstrapping your environment", and the template that the CLI deploys.
    """
    environment, qualifier = arns.environment, naming.bootstrap_qualifier(arns.environment)
    where = f"{environment.account}-{environment.region}"
    stack = arns.of("cloudformation", f"stack/{naming.toolkit_stack(environment)}/*")
    bucket = (f"arn:aws:s3:::cdk-{qualifier}-assets-{where}",)
    repository = arns.of("ecr", f"repository/cdk-{qualifier}-container-assets-{where}")
    parameter = arns.of("ssm", f"parameter/{naming.bootstrap_version(environment).removeprefix('/')}")
    roles = tuple(naming.bootstrap_role(environment, role) for role in (*naming.BOOTSTRAP_ROLES, *_OTHER_ROLES))
    boundary = environment.company.permissions_boundary
    bounded: Conditions = {"StringEquals": {"iam:PermissionsBoundary": boundary}} if boundary else {}
    parameters = "AddTagsToResource DeleteParameter GetParameter GetParameters PutParameter RemoveTagsFromResource"
    yield Statement("BootstrapStack", actions("cloudformation", _BOOTSTRAP_STACK), stack)
    yield Statement("BootstrapBucket", actions("s3", _BOOTSTRAP_BUCKET), bucket)
    yield Statement("BootstrapRepository", actions("ecr", _BOOTSTRAP_REPOSITORY), repository)
    yield Statement("BootstrapVersion", actions("ssm", parameters), parameter)
    yield Statement("BootstrapRoles", actions("iam", _BOOTSTRAP_ROLES), roles)
    yield Statement("BootstrapGrants", actions("iam", _GRANT), roles, bounded)


def prepare_account(arns: Arns) -> Iterator[Statement]:
    """Yield what mends the findings of `ops preflight`: service-linked roles and quotas."""
    account = arns.environment.account
    for number, service in enumerate(linked_services(arns.environment), 1):
        yield Statement(
            f"ServiceLinkedRole{number}",
            actions("iam", "CreateServiceLinkedRole"),
            (f"arn:aws:iam::{account}:role/aws-service-role/{service}/*",),
            {"StringEquals": {"iam:AWSServiceName": service}},
        )
    quotas = arns.of("servicequotas", *(f"{service}/*" for service in _QUOTAS_OF))
    yield Statement("RaiseQuotas", actions("servicequotas", "RequestServiceQuotaIncrease"), quotas)


def find_leftovers(arns: Arns) -> Iterator[Statement]:
    """Yield what `ops sweep` reads."""
    listed = (*actions("ec2", _DESCRIBE_LEFTOVERS), *actions("kms", "ListKeys"), *actions("logs", "DescribeLogGroups"))
    yield Statement("FindLeftovers", (*listed, *actions("fsx", "DescribeFileSystems")), EVERYTHING)
    yield Statement("FindKeys", actions("kms", "DescribeKey ListResourceTags"), arns.of("kms", "key/*"))
    repositories = actions("ecr", "DescribeRepositories ListTagsForResource")
    yield Statement("FindRepositories", repositories, arns.of("ecr", "repository/*"))


def remove_leftovers(arns: EksArns) -> Iterator[Statement]:
    """Yield what `ops sweep` removes: resources with the tags, or the names, by which it finds them."""
    environment = arns.environment
    yield from _remove_of_eks(arns)
    tag = {f"aws:ResourceTag/{naming.ENVIRONMENT_TAG}": naming.environment_tag(environment)}
    names = tuple(naming.stack(environment, part) for part in environment.stacks)
    stacks = {STACK_TAG: names}
    of_functions = arns.made("logs", "log-group:/aws/lambda/", "functions")
    yield Statement(
        "RemoveGuardDuty",
        actions("ec2", "DeleteSecurityGroup DeleteVpcEndpoints"),
        arns.of("ec2", "security-group/*", "vpc-endpoint/*"),
        {"StringEquals": {"aws:ResourceTag/GuardDutyManaged": "true"}},
    )
    file_systems = arns.of("fsx", "file-system/*")
    yield Statement("RemoveFileSystems", actions("fsx", "DeleteFileSystem"), file_systems, {"StringEquals": tag})
    keys = arns.of("kms", "key/*")
    yield Statement("RemoveKeys", actions("kms", "ScheduleKeyDeletion"), keys, {"StringEquals": stacks})
    repositories = arns.of("ecr", "repository/*")
    yield Statement("RemoveRepository", actions("ecr", "DeleteRepository"), repositories, {"StringEquals": stacks})
    of_eks = f"log-group:/aws/eks/{naming.eks_cluster(environment)}/*"
    logs = (*arns.of("logs", of_eks), *of_functions, *arns.node_logs)
    yield Statement("RemoveLogs", actions("logs", "DeleteLogGroup"), logs)


def _remove_of_eks(arns: EksArns) -> Iterator[Statement]:
    """Yield what `ops sweep` removes of an EKS cluster's interfaces, volumes and log groups."""
    environment, cluster = arns.environment, naming.eks_cluster(arns.environment)
    owned = f"aws:ResourceTag/kubernetes.io/cluster/{cluster}"
    volumes = (*arns.of("ec2", "volume/*"), f"arn:aws:ec2:{environment.region}::snapshot/*")
    yield Statement(
        "RemoveInterfaces",
        actions("ec2", "DeleteNetworkInterface"),
        arns.of("ec2", "network-interface/*"),
        {"StringEquals": {"aws:ResourceTag/cluster.k8s.amazonaws.com/name": cluster}},
    )
    yield Statement(
        "RemoveVolumes", actions("ec2", "DeleteSnapshot DeleteVolume"), volumes, {"StringEquals": {owned: "owned"}}
    )
