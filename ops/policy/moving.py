"""What moves data: the data bucket, and FSx's tasks."""

from collections.abc import Iterator

from config import naming
from ops.policy import keys
from ops.policy.arns import EVERYTHING, Arns
from ops.policy.statement import Statement, actions


def list_data(arns: Arns) -> Iterator[Statement]:
    """Yield the rights to list the data bucket's files and the file system's tasks, and to read no file."""
    yield Statement("ListData", actions("s3", "ListBucket"), (_data_bucket(arns),))
    followed = "DescribeDataRepositoryAssociations DescribeDataRepositoryTasks"
    yield Statement("FollowTasks", actions("fsx", followed), EVERYTHING)


def move_data(arns: Arns) -> Iterator[Statement]:
    """Yield the rights to move files between this machine, the data bucket and the file system."""
    storage = arns.of("cloudformation", f"stack/{naming.stack(arns.environment, 'storage')}/*")
    yield Statement("FindFileSystem", actions("cloudformation", "DescribeStacks ListStackResources"), storage)
    yield from list_data(arns)
    files = f"{_data_bucket(arns)}/*"
    yield Statement("MoveData", actions("s3", "AbortMultipartUpload GetObject PutObject"), (files,))
    yield keys.use(arns, "EncryptData", "s3", "Decrypt GenerateDataKey")
    yield Statement("StartTasks", actions("fsx", "CreateDataRepositoryTask"), arns.of("fsx", "file-system/*", "task/*"))


def _data_bucket(arns: Arns) -> str:
    return f"arn:aws:s3:::{naming.data_bucket(arns.environment)}"
