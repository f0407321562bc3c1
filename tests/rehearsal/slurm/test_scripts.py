"""The deployed lifecycle scripts run for each node of the account, and what they ask of it is what they may ask."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from embedded_account.hyperpod.bench import HyperPodBench
from rehearsal.extensions.slurm_nodes import Runner
from rehearsal.paths import REPOSITORY

pytestmark = pytest.mark.product

SCRIPTS: Final = REPOSITORY / "lifecycle_scripts" / "slurm"
DNS: Final = "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com"
SOURCE: Final = {"DnsName": DNS, "MountName": "abcdefgh", "MountPath": "/fsx"}
PARAMETERS: Final = {
    "version": "1.0.0",
    "workload_manager": "slurm",
    "controller_group": "head-group",
    "worker_groups": [{"instance_group_name": "worker-group-1", "partition_name": "dev"}],
    "fsx_dns_name": DNS,
    "fsx_mountname": "abcdefgh",
}
BY_API: Final = [{"FsxLustreConfig": SOURCE}]


class FileSystems:
    """The account's only file system."""

    class Record:
        """Its fields."""

        fields: Final = {"DNSName": DNS, "LustreConfiguration": {"MountName": "abcdefgh"}}

    file_systems: Final = {"fs-0123456789abcdef0": Record}


class Account:
    """An account with the scripts of a deployment in its bucket, and a cluster of two groups."""

    def __init__(self, bench: HyperPodBench, directory: Path) -> None:
        self.bench = bench
        self.directory = directory
        bench.hyperpod.world.run_scripts = Runner(directory, FileSystems()).run  # type: ignore[arg-type]
        for path in SCRIPTS.iterdir():
            if path.is_file():
                self.upload(path.name, path.read_text())

    def upload(self, name: str, text: str) -> None:
        self.bench.client("s3").put_object(Bucket="sagemaker-scripts", Key=f"slurm/{name}", Body=text.encode())

    def deploy(self, *, minutes: float = 25, controller_last: bool = False, **of_groups: Any) -> None:
        """Create the cluster, by the guide's way without `of_groups`; wait until nodes have run their scripts."""
        request = self.bench.request()
        if controller_last:
            request["InstanceGroups"].reverse()
        scripts = {"LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts/slurm/", "OnCreate": "on_create.sh"}}
        request["InstanceGroups"] = [group | scripts | of_groups for group in request["InstanceGroups"]]
        if not of_groups:
            request.pop("NodeProvisioningMode")
            for group in request["InstanceGroups"]:
                group.pop("SlurmConfig")
        self.bench.client("sagemaker").create_cluster(**request)
        self.bench.advance(minutes=minutes)

    def nodes(self, group: str) -> list[dict[str, Any]]:
        found = self.bench.client("sagemaker").list_cluster_nodes(ClusterName="ml-cluster")["ClusterNodeSummaries"]
        return [node for node in found if node["InstanceGroupName"] == group]

    def log(self, node: dict[str, Any]) -> list[str]:
        logs = self.bench.client("logs")
        [group] = logs.describe_log_groups()["logGroups"]
        stream = f"LifecycleConfig/{node['InstanceGroupName']}/{node['InstanceId']}"
        found = logs.get_log_events(logGroupName=group["logGroupName"], logStreamName=stream, startFromHead=True)
        return [event["message"] for event in found["events"]]

    def asked(self, node: dict[str, Any]) -> list[str]:
        path = self.directory / "nodes" / str(node["InstanceId"]) / "root/asked"
        return path.read_text().splitlines()


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    with HyperPodBench(slurm=True) as bench:
        # CloudWatch drops events that are weeks old.
        bench.clock.present = datetime.now(UTC)
        yield Account(bench, tmp_path)


def test_every_node_of_the_api_way_runs_all_steps(account: Account) -> None:
    # Compute nodes begin once the controller runs.
    account.deploy(minutes=45, InstanceStorageConfigs=BY_API)
    [head], workers = account.nodes("head-group"), account.nodes("worker-group-1")
    for node in (head, *workers):
        assert node["InstanceStatus"] == {"Status": "Running"}
        log = "\n".join(account.log(node))
        assert "mount_fsx: /fsx is mounted and writable" in log
        assert "step start_slurm: done after" in log
        assert "systemctl enable --now munge" in account.asked(node)
        assert not [line for line in account.asked(node) if "slurmd" in line or "slurmctld" in line]


def test_controller_is_prepared_while_a_group_that_is_named_before_it_has_no_instances(account: Account) -> None:
    account.deploy(minutes=45, controller_last=True, InstanceStorageConfigs=BY_API)
    [head], [worker, *_] = account.nodes("head-group"), account.nodes("worker-group-1")
    assert head["InstanceStatus"] == worker["InstanceStatus"] == {"Status": "Running"}


def test_nodes_of_the_guides_way_mount_the_deployed_file_system_and_start_slurm(account: Account) -> None:
    account.upload("provisioning_parameters.json", json.dumps(PARAMETERS))
    account.deploy()
    [head], workers = account.nodes("head-group"), account.nodes("worker-group-1")
    assert "systemctl enable --now slurmctld" in account.asked(head)
    address = account.bench.client("sagemaker").describe_cluster_node(
        ClusterName="ml-cluster", NodeId=head["InstanceId"]
    )
    for node in workers:
        assert {"mount /fsx", "systemctl enable --now slurmd"} <= set(account.asked(node))
        unit = account.directory / "nodes" / node["InstanceId"] / "root/etc/systemd/system/slurmd.service.d"
        assert address["NodeDetails"]["PrivatePrimaryIp"] in (unit / "10-controllers.conf").read_text()


def test_failed_step_is_named_in_the_nodes_event(account: Account) -> None:
    account.upload("users.txt", "ada,0\n")
    account.deploy(InstanceStorageConfigs=BY_API)
    sagemaker = account.bench.client("sagemaker")
    events = sagemaker.list_cluster_events(ClusterName="ml-cluster", ResourceType="Instance")["Events"]
    failed = next(event for event in events if event["Description"].startswith("Failed to provision"))
    told = sagemaker.describe_cluster_event(ClusterName="ml-cluster", EventId=failed["EventId"])["EventDetails"]
    why = told["EventDetails"]["EventMetadata"]["Instance"]["FailureMessage"]
    assert "on_create.sh ended with exit code 1" in why
    assert "on_create: FAILED: step add_users ended with an error" in why


def test_file_system_of_another_account_is_not_mounted(account: Account) -> None:
    account.upload("provisioning_parameters.json", json.dumps({**PARAMETERS, "fsx_mountname": "other"}))
    account.deploy()
    assert not [node for node in account.nodes("head-group") if node["InstanceStatus"]["Status"] == "Running"]


def test_call_that_no_script_may_make_fails_the_node(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rehearsal.slurm.scripts._ALWAYS", ())
    account.deploy(InstanceStorageConfigs=BY_API)
    [head] = account.nodes("head-group")
    assert "rehearsal: unexpected on this node: systemctl is-active --quiet munge" in account.log(head)
    assert head["InstanceStatus"]["Status"] == "Failure"


def test_scripts_that_are_not_this_projects_are_not_run(account: Account) -> None:
    account.upload("add_users.sh", "rm -rf /\n")
    account.deploy(InstanceStorageConfigs=BY_API)
    [head] = account.nodes("head-group")
    assert account.log(head) == ["[rehearsal] s3://sagemaker-scripts/slurm/on_create.sh: simulated, not run; succeeded"]
    assert not (account.directory / "nodes").exists()
