"""IAM roles of the Ray pods and of the image build."""

from collections.abc import Sequence

from aws_cdk import Acknowledgment, ArnFormat, Stack, Validations
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from k8s_charts.shared import names
from stacks.shared.company_key import may_use
from stacks.shared.irsa import IrsaRole

_PULL = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
_PUSH_AND_DESCRIBE = [
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:DescribeImages",
    "ecr:GetDownloadUrlForLayer",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
]


def ray_role(
    scope: Construct,
    cluster: eks.ICluster,
    namespace: str,
    data_bucket: str,
    key: kms.IKey | None = None,
    *,
    further: Sequence[iam.PolicyStatement] = (),
    further_prefixes: Sequence[str] = (),
) -> IrsaRole:
    """Return the role of the Ray pods, which may read and write one prefix of the bucket `data_bucket`.

    Jobs' working directories are below that prefix, too; the pods only read them.

    The `further` rights write below `further_prefixes` of the bucket. `key` is the bucket's, if the company gives one.
    S3 user guide, "Protecting data with SSE-KMS": an upload needs kms:GenerateDataKey, one in parts kms:Decrypt as
    well.

    S3 user guide, "Required permissions for Amazon S3 API operations": HeadBucket, and 404 instead of 403 for a
    missing key, need s3:ListBucket as well. These requests carry no s3:prefix.
    """
    bucket, prefix = f"arn:aws:s3:::{data_bucket}", f"{names.RAY_DATA_PREFIX}/*"
    packages = f"{names.RAY_PACKAGES_PREFIX}/*"
    role = IrsaRole(
        scope,
        "RayRole",
        cluster=cluster,
        namespace=namespace,
        service_account=names.RAY_SERVICE_ACCOUNT,
        description="Ray pods: one prefix of the data bucket",
        statements=[
            iam.PolicyStatement(
                actions=["s3:ListBucket"],
                resources=[bucket],
                # Without "IfExists", IAM refuses requests that carry no prefix. pyarrow, with which Ray stores its
                # checkpoints, checks the bucket before it writes. The price: pods can list the names of all keys.
                conditions={"StringLikeIfExists": {"s3:prefix": prefix}},
            ),
            iam.PolicyStatement(
                actions=["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
                resources=[f"{bucket}/{prefix}"],
            ),
            # A job that could replace working directories could make other people's jobs run its own code.
            iam.PolicyStatement(
                effect=iam.Effect.DENY, actions=["s3:DeleteObject", "s3:PutObject"], resources=[f"{bucket}/{packages}"]
            ),
            *([may_use(key, "s3", "kms:Decrypt", "kms:GenerateDataKey")] if key else []),
            *further,
        ],
    )
    Validations.of(role).acknowledge(
        *(
            Acknowledgment(
                id=f"AwsSolutions-IAM5[Resource::{bucket}/{each}]",
                reason="Jobs name their checkpoints and artifacts themselves; the prefix is the boundary",
            )
            for each in (prefix, packages, *further_prefixes)
        )
    )
    return role


def sleeper_role(scope: Construct, cluster: eks.ICluster, *, namespace: str, function: str) -> IrsaRole:
    """Return the role of the sleeper, which may invoke the function that sets counts of nodes, and nothing else."""
    arn = Stack.of(scope).format_arn(
        service="lambda", resource="function", resource_name=function, arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    return IrsaRole(
        scope,
        "SleeperRole",
        cluster=cluster,
        namespace=namespace,
        service_account=names.SLEEPER,
        description="Sleeper: invokes the function that sets counts of nodes",
        statements=[iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[arn])],
    )


def image_builder_role(
    scope: Construct,
    cluster: eks.ICluster,
    repository: ecr.IRepository,
    context: s3_assets.Asset,
    *,
    log: str,
    base_repository: str | None = None,
    key: kms.IKey | None = None,
) -> IrsaRole:
    """Return the role of the image build, which reads its build context, pushes to one repository, writes one log.

    `log` is an S3 address. `base_repository` names the account's own ECR repository with the copy of the base image,
    if there is one; `key` is the key of the log's bucket, if the company gives one.
    """
    base = Stack.of(scope).format_arn(service="ecr", resource="repository", resource_name=base_repository or "")
    pull = iam.PolicyStatement(actions=_PULL, resources=[base])
    role = IrsaRole(
        scope,
        "ImageBuilderRole",
        cluster=cluster,
        namespace=names.IMAGE_BUILD_NAMESPACE,
        service_account=names.IMAGE_BUILDER_SERVICE_ACCOUNT,
        description="Image build: its context, pushes to the environment's repository, its log",
        statements=[
            iam.PolicyStatement(
                actions=["s3:GetObject"], resources=[context.bucket.arn_for_objects(context.s3_object_key)]
            ),
            iam.PolicyStatement(actions=["s3:PutObject"], resources=[log.replace("s3://", "arn:aws:s3:::")]),
            iam.PolicyStatement(actions=_PUSH_AND_DESCRIBE, resources=[repository.repository_arn]),
            *([may_use(key, "s3", "kms:GenerateDataKey")] if key else []),
            *([pull] if base_repository else []),
            iam.PolicyStatement(actions=["ecr:GetAuthorizationToken"], resources=["*"]),
        ],
    )
    reason = "ecr:GetAuthorizationToken has no resource type: IAM accepts it for all resources only"
    Validations.of(role).acknowledge(Acknowledgment(id="AwsSolutions-IAM5[Resource::*]", reason=reason))
    return role
