"""`ops data` against the embedded account: files go to the bucket and the file system, and come back."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from config import load, naming
from config.facts import support
from config.load import DIRECTORY, DIRECTORY_VARIABLE
from embedded_account.context import Account
from embedded_account.machine import isolation
from embedded_account.services.fsx.service import FsxService
from embedded_account.services.fsx.tasks import DataRepositoryTasks
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import StackDeployer
from ops.commands.whole import app
from ops.policy.role import PersonRole
from ops.policy.roles import COMMANDS
from rehearsal import paths
from tests.support import assumed_role, people
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.product

PROD = load("prod")
BUCKET = naming.data_bucket(PROD)
BOTH = {"Events": ["NEW", "CHANGED", "DELETED"]}
LUSTRE = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250}


def template(subnet: str) -> dict[str, Any]:
    """Return the storage stack's bucket and file system; unlike there, FSx does not export /results by itself."""

    def association(path: str, **policies: Any) -> dict[str, Any]:
        properties = {
            "FileSystemId": {"Ref": "FileSystem"},
            "FileSystemPath": f"/{path}",
            "DataRepositoryPath": f"s3://{BUCKET}/{path}",
            "S3": {"AutoImportPolicy": BOTH, **policies},
        }
        return {"Type": "AWS::FSx::DataRepositoryAssociation", "DependsOn": "Bucket", "Properties": properties}

    system = {
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "StorageCapacity": 1200,
        "SubnetIds": [subnet],
        "LustreConfiguration": LUSTRE,
    }
    return {
        "Resources": {
            "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": BUCKET}},
            "FileSystem": {"Type": "AWS::FSx::FileSystem", "Properties": system},
            "Datasets": association("datasets", AutoExportPolicy=BOTH),
        }
    }


class Data:
    """The deployed storage stack, and a scientist's `ops data` on it."""

    def __init__(self, account: Account, clients: Clients, directory: Path, file_system: str) -> None:
        self.s3, self.fsx = clients("s3"), clients("fsx")
        self.file_system = file_system
        self.tasks = DataRepositoryTasks(account, FsxService(account))
        keys = assumed_role.credentials(clients, people.make_role(clients, PROD, PersonRole.SCIENTIST))
        self.environment = isolation.child_environment(
            directory,
            endpoint=account.endpoint,
            region=PROD.region,
            account_id=PROD.account,
            extra=keys | {DIRECTORY_VARIABLE: str(DIRECTORY), support.TODAY_VARIABLE: str(support.today())},
        )

    def ops(self, *words: str, code: int = 0, **variables: str) -> Result:
        result = CliRunner(env=self.environment | variables).invoke(app, ["data", *words, "--env", "prod"])
        assert result.exit_code == code, result.output
        return result

    def associations(self, *states: str) -> set[str]:
        """Return the ids of the associations in these states; without states, of all."""
        found = self.fsx.describe_data_repository_associations()["Associations"]
        return {each["AssociationId"] for each in found if not states or each["Lifecycle"] in states}

    def keys(self) -> set[str]:
        return {each["Key"] for each in self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", ())}


@pytest.fixture
def data(
    account: Account, clients: Clients, stacks: StackDeployer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Data]:
    """Deploy the storage stack in simulated minutes that take milliseconds."""
    monkeypatch.setattr(account.clock, "scale", 5000.0)
    monkeypatch.setattr("ops.data.tasks._POLL_SECONDS", 0.05)
    ec2 = clients("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    assert stacks.deploy(naming.stack(PROD, "storage"), template(subnet)) == "CREATE_COMPLETE"
    [system] = clients("fsx").describe_file_systems()["FileSystems"]
    since = len(account.journal.entries())
    yield Data(account, clients, tmp_path, system["FileSystemId"])
    assert people.refusals(account, since) == []


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    (folder / "train").mkdir(parents=True)
    (folder / "train/1.bin").write_bytes(b"one")
    (folder / "labels.csv").write_bytes(b"1,cat")
    return folder


def test_put_uploads_and_imports_and_a_rerun_sends_only_what_is_new(data: Data, images: Path) -> None:
    planned = data.ops("put", str(images), "/fsx/datasets/images", "--dry-run").stdout
    assert "2 files, 8 B; 0 replace others; 0 are equal" in planned
    assert data.keys() == set()
    done = data.ops("put", str(images), "/fsx/datasets/images").stdout
    assert "2 of 2 files" in done
    assert data.keys() == {"datasets/images/labels.csv", "datasets/images/train/1.bin"}
    assert data.tasks.files(data.file_system) == {"/datasets/images/labels.csv", "/datasets/images/train/1.bin"}
    (images / "train/2.bin").write_bytes(b"two")
    assert "1 file uploaded, 2 equal" in data.ops("put", str(images), "/fsx/datasets/images").stdout
    assert "/datasets/images/train/2.bin" in data.tasks.files(data.file_system)


def test_put_replaces_only_by_force(data: Data, images: Path) -> None:
    data.ops("put", str(images), "/fsx/datasets")
    # The size stays the same: the content decides.
    (images / "labels.csv").write_bytes(b"1,dog")
    refused = data.ops("put", str(images), "/fsx/datasets", code=1).stderr
    assert (
        refused == "error: 1 file would be replaced, such as datasets/labels.csv. Fix: --force replaces what differs\n"
    )
    assert data.s3.get_object(Bucket=BUCKET, Key="datasets/labels.csv")["Body"].read() == b"1,cat"
    data.ops("put", str(images), "/fsx/datasets", "--force")
    assert data.s3.get_object(Bucket=BUCKET, Key="datasets/labels.csv")["Body"].read() == b"1,dog"


def test_large_file_goes_in_parts(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from boto3.s3.transfer import TransferConfig

    part = 5 * 1024 * 1024
    monkeypatch.setattr("ops.data.transfer._CONFIG", TransferConfig(multipart_threshold=part, multipart_chunksize=part))
    (tmp_path / "large").write_bytes(os.urandom(part + 1))
    data.ops("put", str(tmp_path / "large"), "/fsx/datasets")
    assert data.s3.head_object(Bucket=BUCKET, Key="datasets/large")["ETag"].endswith('-2"')
    data.ops("get", "/fsx/datasets/large", str(tmp_path / "back"))
    assert (tmp_path / "back/large").read_bytes() == (tmp_path / "large").read_bytes()
    assert "0 files uploaded, 1 equal" in data.ops("put", str(tmp_path / "large"), "/fsx/datasets").stdout


def test_get_exports_what_is_not_exported_automatically_and_resumes(
    data: Data, tmp_path: Path, stacks: StackDeployer
) -> None:
    made = data.fsx.create_data_repository_association(
        FileSystemId=data.file_system, FileSystemPath="/results", DataRepositoryPath=f"s3://{BUCKET}/results"
    )["Association"]
    [automatic] = data.associations() - {made["AssociationId"]}
    data.fsx.update_data_repository_association(AssociationId=automatic, S3={})
    wait_until(lambda: len(data.associations("AVAILABLE")) == 2, "the associations")
    data.tasks.write(data.file_system, "/results/run/a", b"one")
    data.tasks.write(data.file_system, "/results/run/deep/b", b"two")
    got = data.ops("get", "/fsx/results/run", str(tmp_path / "run")).stdout
    assert "2 of 2 files" in got
    assert (tmp_path / "run/deep/b").read_bytes() == b"two"
    (tmp_path / "run/a").unlink()
    assert "1 file downloaded" in data.ops("get", "/fsx/results/run", str(tmp_path / "run")).stdout
    (tmp_path / "run/a").write_bytes(b"my own")
    refused = data.ops("get", "/fsx/results/run", str(tmp_path / "run"), code=1).stderr
    assert "1 file would be replaced" in refused
    assert (tmp_path / "run/a").read_bytes() == b"my own"
    long = "/results/run/" + "/".join(["x" * 200] * 6)
    data.tasks.write(data.file_system, long, b"")
    failed = data.ops("get", "/fsx/results/run", str(tmp_path / "run"), "--force", code=3).stderr
    assert "failed to process 1 of 1 files" in failed
    assert f"{long[1:]}: PathSizeTooLong" in failed


@pytest.mark.parametrize("role", COMMANDS["data ls"])
def test_ls_shows_links_tasks_and_files_as_documented(
    data: Data, images: Path, account: Account, clients: Clients, *, monkeypatch: pytest.MonkeyPatch, role: PersonRole
) -> None:
    data.ops("put", str(images), "/fsx/datasets/images")
    monkeypatch.setattr(account.clock, "scale", 1.0)
    report = {"Enabled": False}
    data.fsx.create_data_repository_task(
        FileSystemId=data.file_system, Type="IMPORT_METADATA_FROM_REPOSITORY", Report=report
    )
    keys = assumed_role.credentials(clients, people.make_role(clients, PROD, role))
    shown = json.loads(data.ops("ls", "/fsx/datasets/images", "-o", "json", code=0, **keys).stdout)
    assert list(shown) == ["links", "tasks", "files"]
    assert [file["name"] for file in shown["files"]] == ["train/", "labels.csv"]
    assert [link["automatic"] for link in shown["links"]] == [["import", "export"]]
    assert [task["state"] for task in shown["tasks"]] == ["PENDING"]
    assert "train/" in data.ops("ls", "/fsx/datasets/images").stdout
    refused = data.ops("put", str(images), "/fsx/datasets/images", code=1).stderr
    assert "runs another data repository task. Fix: wait until `ops data ls` lists none" in refused


def test_ctrl_c_and_too_short_a_timeout_leave_the_task_and_a_rerun_joins_it(
    data: Data, images: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account.clock, "scale", 1.0)
    late = data.ops("put", str(images), "/fsx/datasets", "--timeout", "0.1s", code=1).stderr
    assert "not done in time. The task continues. Fix: rerun the command to resume" in late
    words = ["data", "put", str(images), "/fsx/datasets", "--env", "prod"]
    command = ["/usr/bin/env", "--default-signal=INT", sys.executable, "-u", "-m", "ops", *words]
    with subprocess.Popen(
        command, env=data.environment, cwd=paths.REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        line = next(each for each in process.stdout if "PENDING" in each)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, stderr
    assert "interrupted; a task that FSx has begun continues" in stderr
    [task] = data.fsx.describe_data_repository_tasks()["DataRepositoryTasks"]
    assert task["TaskId"] in line


def test_errors_are_one_message_each(data: Data, images: Path, stacks: StackDeployer) -> None:
    outside = data.ops("put", str(images), "/fsx/elsewhere", code=2).stderr
    assert "no data repository is linked there. Allowed: /fsx/datasets, and below" in outside
    assert "has no objects at" in data.ops("get", "/fsx/datasets/none", "back", code=2).stderr
    denied = data.ops("ls", code=2, AWS_ACCESS_KEY_ID="AKIAIOSFODNN7EXAMPLE").stderr
    assert denied.startswith("error: AWS does not accept the credentials")
    data.s3.delete_bucket(Bucket=BUCKET)
    assert "NoSuchBucket" in data.ops("put", str(images), "/fsx/datasets", code=2).stderr
    data.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": PROD.region})
    stacks.delete(naming.stack(PROD, "storage"))
    assert "stack rayhp-prod-storage has no file system yet. Fix: deploy it" in data.ops("ls", code=1).stderr
