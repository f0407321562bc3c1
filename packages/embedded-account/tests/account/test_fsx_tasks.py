"""Test the simulated data repository tasks: states, progress, what they change, reports of failures, refusals."""

from collections.abc import Callable
from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.services.fsx.service import FsxService
from embedded_account.services.fsx.tasks import DataRepositoryTasks
from embedded_account.testing.clients import Clients
from embedded_account.testing.resources import RefusedWith
from embedded_account.testing.waiting import wait_until

IMPORT, EXPORT = "IMPORT_METADATA_FROM_REPOSITORY", "EXPORT_TO_REPOSITORY"
NO_REPORT = {"Enabled": False}
REPORT = {
    "Enabled": True,
    "Path": "s3://data-bucket/datasets/.reports",
    "Format": "REPORT_CSV_20191124",
    "Scope": "FAILED_FILES_ONLY",
}


@pytest.fixture
def tasks(account: Account) -> DataRepositoryTasks:
    """Return the file systems' contents as a program on them sees them."""
    return DataRepositoryTasks(account, FsxService(account))


@pytest.fixture
def fsx(clients: Clients) -> Any:
    return clients("fsx")


@pytest.fixture
def s3(clients: Clients) -> Any:
    s3 = clients("s3")
    s3.create_bucket(Bucket="data-bucket", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    return s3


@pytest.fixture
def file_system(account: Account, clients: Clients, fsx: Any, s3: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create a file system whose /datasets is the bucket's prefix datasets, without automatic export."""
    monkeypatch.setattr(account.clock, "scale", 5000.0)
    ec2 = clients("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    made = fsx.create_file_system(
        FileSystemType="LUSTRE",
        FileSystemTypeVersion="2.15",
        StorageCapacity=1200,
        SubnetIds=[subnet],
        LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
    )
    identifier = str(made["FileSystem"]["FileSystemId"])
    wait_until(lambda: fsx.describe_file_systems()["FileSystems"][0]["Lifecycle"] == "AVAILABLE", "creation")
    return identifier


def link(fsx: Any, file_system: str, path: str = "/datasets", **policies: Any) -> None:
    fsx.create_data_repository_association(
        FileSystemId=file_system, FileSystemPath=path, DataRepositoryPath=f"s3://data-bucket{path}/", S3=policies
    )

    def states() -> set[str]:
        return {each["Lifecycle"] for each in fsx.describe_data_repository_associations()["Associations"]}

    wait_until(lambda: states() == {"AVAILABLE"}, "the association")


@pytest.fixture
def linked(fsx: Any, file_system: str) -> str:
    """Return the file system with its association."""
    link(fsx, file_system)
    return file_system


def create(fsx: Any, file_system: str, kind: str, *paths: str, **others: Any) -> str:
    request = {"FileSystemId": file_system, "Type": kind, "Report": NO_REPORT, **others}
    made = fsx.create_data_repository_task(**request, **({"Paths": list(paths)} if paths else {}))
    return str(made["DataRepositoryTask"]["TaskId"])


def shown(fsx: Any, task: str) -> dict[str, Any]:
    [found] = fsx.describe_data_repository_tasks(TaskIds=[task])["DataRepositoryTasks"]
    return dict(found)


def ended(fsx: Any, task: str) -> dict[str, Any]:
    wait_until(lambda: "EndTime" in shown(fsx, task), "the task's end")
    return shown(fsx, task)


def test_import_brings_the_files_of_its_paths_at_its_end(fsx: Any, s3: Any, linked: str, tasks: Any) -> None:
    for key in ("datasets/a/1", "datasets/a/2", "datasets/ab", "elsewhere/3"):
        s3.put_object(Bucket="data-bucket", Key=key, Body=b"x")
    task = ended(fsx, create(fsx, linked, IMPORT, "s3://data-bucket/datasets/a"))
    assert task["Lifecycle"] == "SUCCEEDED"
    status = task["Status"]
    assert (status["TotalCount"], status["SucceededCount"], status["FailedCount"]) == (2, 2, 0)
    assert tasks.files(linked) == {"/datasets/a/1", "/datasets/a/2"}


@pytest.fixture
def steps(linked: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that lets the next step of a task happen; none happens by time."""
    waiting: list[Callable[[], object]] = []
    monkeypatch.setattr(FsxService, "later", lambda *words: waiting.append(words[-1]))

    def step() -> None:
        waiting.pop(0)()

    return step


def test_task_is_pending_and_executing_before_it_ends(
    fsx: Any, s3: Any, linked: str, tasks: Any, steps: Callable[[], None]
) -> None:
    s3.put_object(Bucket="data-bucket", Key="datasets/a", Body=b"x")
    task = create(fsx, linked, IMPORT)
    assert shown(fsx, task)["Lifecycle"] == "PENDING"
    steps()
    assert shown(fsx, task)["Lifecycle"] == "EXECUTING"
    assert shown(fsx, task)["Status"]["TotalCount"] == 1
    assert tasks.files(linked) == set()
    active = {"Name": "task-lifecycle", "Values": ["PENDING", "EXECUTING"]}
    listed = fsx.describe_data_repository_tasks(Filters=[{"Name": "file-system-id", "Values": [linked]}, active])
    assert [each["TaskId"] for each in listed["DataRepositoryTasks"]] == [task]
    steps()
    assert shown(fsx, task)["Lifecycle"] == "SUCCEEDED"
    assert fsx.describe_data_repository_tasks(Filters=[active])["DataRepositoryTasks"] == []


def test_export_writes_what_changed_below_its_path(fsx: Any, s3: Any, linked: str, tasks: Any) -> None:
    tasks.write(linked, "/datasets/out/1", b"one")
    tasks.write(linked, "/datasets/other", b"two")
    assert "Contents" not in s3.list_objects_v2(Bucket="data-bucket")
    assert ended(fsx, create(fsx, linked, EXPORT, "datasets/out"))["Status"]["SucceededCount"] == 1
    assert s3.get_object(Bucket="data-bucket", Key="datasets/out/1")["Body"].read() == b"one"
    assert ended(fsx, create(fsx, linked, EXPORT))["Status"]["TotalCount"] == 1, "only what the first left"
    assert s3.get_object(Bucket="data-bucket", Key="datasets/other")["Body"].read() == b"two"


@pytest.mark.parametrize(
    ("kind", "path", "message"),
    [
        (IMPORT, "s3://data-bucket/elsewhere", "is not in a data repository"),
        (EXPORT, "elsewhere", "is not in a directory with a data repository association"),
        (EXPORT, "datasets/nothing", "does not exist on the file system"),
    ],
)
def test_task_with_an_invalid_path_fails(fsx: Any, linked: str, kind: str, path: str, message: str) -> None:
    task = ended(fsx, create(fsx, linked, kind, path))
    assert task["Lifecycle"] == "FAILED"
    assert message in task["FailureDetails"]["Message"]


def test_failed_files_are_in_the_report_and_the_others_are_done(fsx: Any, s3: Any, linked: str, tasks: Any) -> None:
    long = "/datasets/" + "/".join(["x" * 200] * 6)
    tasks.write(linked, long, b"")
    tasks.write(linked, "/datasets/short", b"")
    task = ended(fsx, create(fsx, linked, EXPORT, Report=REPORT))
    assert (task["Lifecycle"], task["FailureDetails"]["Message"]) == (
        "FAILED",
        "The task failed to process 1 of 2 files.",
    )
    assert (task["Status"]["SucceededCount"], task["Status"]["FailedCount"]) == (1, 1)
    report = s3.get_object(Bucket="data-bucket", Key=f"datasets/.reports/{task['TaskId']}/failures.csv")["Body"].read()
    assert report.decode() == f"{long[1:]},failed,PathSizeTooLong\n"
    s3.put_object(Bucket="data-bucket", Key=f"datasets/{'y' * 256}", Body=b"")
    task = ended(fsx, create(fsx, linked, IMPORT, f"s3://data-bucket/datasets/{'y' * 256}", Report=REPORT))
    s3.head_object(Bucket="data-bucket", Key=f"datasets/.reports/{task['TaskId']}/report.csv")


def test_task_fails_without_its_bucket(fsx: Any, s3: Any, linked: str) -> None:
    s3.delete_bucket(Bucket="data-bucket")
    task = ended(fsx, create(fsx, linked, IMPORT))
    assert (task["Lifecycle"], "unable to access" in task["FailureDetails"]["Message"]) == ("FAILED", True)


def test_second_task_of_a_file_system_is_refused_and_so_is_its_deletion(
    account: Account, fsx: Any, linked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account.clock, "scale", 1.0)
    first = create(fsx, linked, IMPORT, ClientRequestToken="t")
    assert create(fsx, linked, IMPORT, ClientRequestToken="t") == first
    with RefusedWith("DataRepositoryTaskExecuting", first):
        create(fsx, linked, EXPORT)
    with RefusedWith("BadRequest", "has data repository tasks that have not ended"):
        fsx.delete_file_system(FileSystemId=linked)


@pytest.mark.parametrize("executing", [False, True])
def test_canceled_task_changes_nothing(
    fsx: Any, s3: Any, tasks: Any, linked: str, steps: Callable[[], None], *, executing: bool
) -> None:
    s3.put_object(Bucket="data-bucket", Key="datasets/a", Body=b"x")
    task = create(fsx, linked, IMPORT)
    if executing:
        steps()
    assert fsx.cancel_data_repository_task(TaskId=task)["Lifecycle"] == "CANCELING"
    with RefusedWith("DataRepositoryTaskExecuting", task):
        create(fsx, linked, IMPORT)
    steps()
    assert shown(fsx, task)["Lifecycle"] == "CANCELED"
    assert tasks.files(linked) == set()
    with RefusedWith("DataRepositoryTaskEnded", task):
        fsx.cancel_data_repository_task(TaskId=task)


def test_unknown_task_is_not_found(fsx: Any) -> None:
    with RefusedWith("DataRepositoryTaskNotFound", "task-00000000000000000"):
        fsx.cancel_data_repository_task(TaskId="task-00000000000000000")


def test_automatic_export_needs_no_task_and_allows_none(fsx: Any, s3: Any, file_system: str, tasks: Any) -> None:
    link(fsx, file_system, AutoExportPolicy={"Events": ["NEW"]})
    tasks.write(file_system, "/datasets/a", b"one")
    assert s3.get_object(Bucket="data-bucket", Key="datasets/a")["Body"].read() == b"one"
    with RefusedWith("BadRequest", "cannot run at the same time"):
        create(fsx, file_system, EXPORT)
    assert ended(fsx, create(fsx, file_system, IMPORT))["Lifecycle"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"Type": "RELEASE_DATA_FROM_FILESYSTEM"}, "UnsupportedOperation", "does not carry out RELEASE"),
        ({"CapacityToRelease": 1}, "UnsupportedOperation", "does not implement CapacityToRelease"),
        ({"FileSystemId": "fs-01234567"}, "FileSystemNotFound", "fs-01234567"),
        ({"Paths": ["s3://data-bucket"] * 101}, "BadRequest", "a maximum of 100 paths"),
        ({"Report": {"Enabled": True}}, "BadRequest", "requires Format, Path, Scope"),
        ({"Report": REPORT | {"Path": "s3://other/reports"}}, "BadRequest", "is not in a data repository"),
        ({"Report": REPORT | {"Path": "s3://data-bucket/datasets-2"}}, "BadRequest", "is not in a data repository"),
    ],
)
def test_invalid_task_is_refused(fsx: Any, linked: str, changes: dict[str, Any], code: str, message: str) -> None:
    request = {"Type": IMPORT, "FileSystemId": linked, "Report": NO_REPORT}
    with RefusedWith(code, message):
        fsx.create_data_repository_task(**request | changes)


def test_file_system_without_a_data_repository_has_no_tasks(fsx: Any, file_system: str) -> None:
    with RefusedWith("BadRequest", "is not linked to a data repository"):
        create(fsx, file_system, IMPORT)
