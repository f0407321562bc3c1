"""What moves data and images: the data bucket, FSx's tasks, and the repositories of image_registry."""

from collections.abc import Iterator

from config import naming
from ops.policy import keys
from ops.policy.arns import EVERYTHING, Arns
from ops.policy.statement import Statement, actions

_COPY_IMAGES = (
    "BatchCheckLayerAvailability BatchGetImage CompleteLayerUpload CreateRepository DescribeRepositories "
    "GetDownloadUrlForLayer InitiateLayerUpload PutImage TagResource UploadLayerPart"
)


def move_data(arns: Arns) -> Iterator[Statement]:
    """Yield the rights to move files between this machine, the data bucket and the file system."""
    bucket = f"arn:aws:s3:::{naming.data_bucket(arns.environment)}"
    storage = naming.stack(arns.environment, "storage")
    yield Statement(
        "FindFileSystem",
        actions("cloudformation", "DescribeStackResources"),
        arns.of("cloudformation", f"stack/{storage}/*"),
    )
    yield Statement("ListData", actions("s3", "ListBucket"), (bucket,))
    yield Statement("MoveData", actions("s3", "AbortMultipartUpload GetObject PutObject"), (f"{bucket}/*",))
    yield keys.use(arns, "EncryptData", "s3", "Decrypt GenerateDataKey")
    yield Statement("StartTasks", actions("fsx", "CreateDataRepositoryTask"), arns.of("fsx", "file-system/*", "task/*"))
    followed = "DescribeDataRepositoryAssociations DescribeDataRepositoryTasks"
    yield Statement("FollowTasks", actions("fsx", followed), EVERYTHING)


def copy_images(arns: Arns) -> Iterator[Statement]:
    """Yield the rights to copy public images and charts into the account's own registry."""
    if arns.environment.image_registry:
        yield Statement("LogInToRegistry", actions("ecr", "GetAuthorizationToken"), EVERYTHING)
        yield Statement("CopyImages", actions("ecr", _COPY_IMAGES), arns.of("ecr", "repository/*"))
