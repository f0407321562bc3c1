"""What moves data: the data bucket, and FSx's tasks."""

from collections.abc import Iterator

from config import naming
from ops.policy import keys
from ops.policy.arns import EVERYTHING, Arns
from ops.policy.statement import STACK_TAG, Conditions, Statement, actions


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
    start = actions("fsx", "CreateDataRepositoryTask")
    own: Conditions = {"StringEquals": {STACK_TAG: naming.stack(arns.environment, "storage")}}
    yield Statement("StartTasks", start, arns.of("fsx", "file-system/*"), own)
    # The new task has no tags; without a file system there is none.
    yield Statement("NewTasks", start, arns.of("fsx", "task/*"))


def _data_bucket(arns: Arns) -> str:
    return f"arn:aws:s3:::{naming.data_bucket(arns.environment)}"
