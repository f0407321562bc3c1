"""`ops` on the nodes of a Slurm cluster: list, shell, SSH, replacement and reboot, status and wait."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ops.commands.whole import app
from tests.unit.support.fake_apis import Apis
from tests.unit.support.running_environment import group

GROUPS = {"controller-machine": "10", "login-group": "11", "worker-group-1": "20"}
CLUSTER = "sagemaker-cluster:abcdefghijkl"
COMPUTE = "i-00000000000000020"
DONE = "ops-done\n\nExiting session with sessionId: me-1.\n"
SETTLED = {"controller-machine": 1, "login-group": 1, "worker-group-1": 2}


def ops(*words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--env", "slurm"])


def listed(name: str, octet: str, **changes: Any) -> dict[str, Any]:
    return {
        "InstanceGroupName": name,
        "InstanceId": f"i-000000000000000{octet}",
        "InstanceType": "ml.c5.xlarge",
        "LaunchTime": 1_760_000_000,
        "InstanceStatus": {"Status": "Running", "Message": ""},
        "PrivateDnsHostname": f"ip-10-209-64-{octet}.us-west-2.compute.internal",
        **changes,
    }


@pytest.fixture
def cluster(apis: Apis) -> Apis:
    """Return the APIs of a running Slurm cluster: no EKS cluster, no Kubernetes."""
    apis.kubernetes.clear()
    del apis.aws["DescribeEksCluster"]
    apis.aws["DescribeCluster"] = {
        **apis.aws["DescribeCluster"],
        "InstanceGroups": [group(name, count) for name, count in SETTLED.items()],
    }
    nodes = [listed(name, octet) for name, octet in GROUPS.items()]
    apis.aws["ListClusterNodes"] = {"ClusterNodeSummaries": [*nodes, listed("worker-group-1", "21")]}
    return apis


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Put an `aws` on the path that records its arguments and answers as a session does; return the record."""
    for name in ("aws", "session-manager-plugin"):
        program = tmp_path / name
        program.write_text(
            '#!/bin/bash\nprintf "%s\\n" "$@" >>"$(dirname "$0")/asked"\n'
            'answer=answer; [[ $* != *"sinfo "* ]] || answer=names\n'
            'echo "Starting session with SessionId: me-1"\ncat "$(dirname "$0")/$answer"\n'
        )
        program.chmod(0o755)
    (tmp_path / "answer").write_text(DONE)
    (tmp_path / "names").write_text(f"ip-10-209-64-20=10.209.64.20\nip-10-209-64-21=10.209.64.21\n{DONE}")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "asked"


def test_list_shows_slurms_name_instance_and_address_of_each_node(cluster: Apis) -> None:
    result = ops("node", "list", "-o", "json")
    assert result.exit_code == 0, result.output
    found = {node["name"]: node for node in json.loads(result.stdout)}
    assert found["ip-10-209-64-20"] == {
        "instance": COMPUTE,
        "name": "ip-10-209-64-20",
        "address": "10.209.64.20",
        "group": "worker-group-1",
        "role": "compute",
        "partition": "dev",
        "type": "ml.c5.xlarge",
        "status": "Running",
        "software": "",
        "message": "",
    }
    assert found["ip-10-209-64-10"]["role"] == "controller"


def test_list_says_why_a_nodes_lifecycle_scripts_failed(cluster: Apis) -> None:
    status = {"Status": "Failure", "Message": "lifecycle scripts failed"}
    cluster.aws["ListClusterNodes"] = {"ClusterNodeSummaries": [listed("worker-group-1", "20", InstanceStatus=status)]}
    assert "lifecycle" in ops("node", "list").stdout


@pytest.mark.parametrize("wanted", [COMPUTE, "ip-10-209-64-20", "10.209.64.20"])
def test_shell_finds_a_node_by_instance_name_or_address(cluster: Apis, wanted: str) -> None:
    result = ops("node", "shell", wanted, "--print")
    target = f"{CLUSTER}_worker-group-1-{COMPUTE}"
    assert result.stdout == f"aws ssm start-session --target {target} --region us-west-2\n"


def test_unknown_node_is_refused_with_the_known_ones(cluster: Apis) -> None:
    result = ops("node", "shell", "ip-10-0-0-1", "--print")
    assert result.exit_code == 1
    assert "has no node ip-10-0-0-1. Allowed: ip-10-209-64-10, ip-10-209-64-11" in result.stderr


@pytest.mark.parametrize(("action", "reason"), [("replace", "Action:Replace"), ("reboot", "Action:Reboot")])
def test_change_is_requested_on_the_controller_by_slurms_state(
    cluster: Apis, sessions: Path, action: str, reason: str
) -> None:
    result = ops("node", action, COMPUTE, "--yes")
    assert result.exit_code == 0, result.output
    asked = sessions.read_text()
    assert f"{CLUSTER}_controller-machine-i-00000000000000010" in asked
    assert f"scontrol update nodename=ip-10-209-64-20 state=fail reason={reason} && echo ops-done" in asked
    assert "AWS-StartNonInteractiveCommand" in asked
    assert f"requested: {action} ip-10-209-64-20" in result.output
    assert "ops-done" not in result.output


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("ip-10-209-64-20", "10.209.64.20"),
        ("gpu-compute-1", "10.209.64.20"),
        ("gpu-compute-1", "ip-10-209-64-20"),
    ],
)
def test_change_names_the_node_as_slurm_does(cluster: Apis, sessions: Path, name: str, address: str) -> None:
    """`ip-…` is the observed form.

    AWS's page on the migration to the API's configuration shows `gpu-compute-[1-4]`
    (sagemaker-hyperpod-slurm-api-config-migration).
    """
    others = "cpu-compute-1=10.209.64.120\ngpu-compute-2=10.209.64.2\n"
    (sessions.parent / "names").write_text(f"{others}{name}={address}\n{DONE}")
    result = ops("node", "replace", "10.209.64.20", "--yes")
    assert result.exit_code == 0, result.output
    assert f"scontrol update nodename={name} state=fail reason=Action:Replace && echo" in sessions.read_text()
    assert f"requested: replace {name};" in result.output


def test_node_that_slurm_does_not_know_is_refused_and_nothing_changes(cluster: Apis, sessions: Path) -> None:
    (sessions.parent / "names").write_text(f"ip-10-209-64-2=10.209.64.2\n{DONE}")
    result = ops("node", "replace", COMPUTE, "--yes")
    assert result.exit_code == 1
    assert f"Slurm has no node at 10.209.64.20 ({COMPUTE}). Fix: wait until `sinfo --Node` lists it" in result.stderr
    assert "scontrol update" not in sessions.read_text()


def test_unknown_name_is_refused_with_the_way_to_the_address(cluster: Apis) -> None:
    result = ops("node", "replace", "gpu-compute-1", "--dry-run")
    assert result.exit_code == 1
    assert "give the node's address, `NodeAddr` of `scontrol show node`" in result.stderr


def test_force_ends_the_nodes_jobs_at_once(cluster: Apis, sessions: Path) -> None:
    result = ops("node", "replace", COMPUTE, "--yes", "--force")
    assert "its jobs are killed at once" in result.output
    assert "state=down reason=Action:Replace" in sessions.read_text()


def test_dry_run_shows_the_plan_and_asks_nothing(cluster: Apis, sessions: Path) -> None:
    result = ops("node", "replace", COMPUTE, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "its running jobs end first, new ones start elsewhere: scontrol update" in result.output
    assert not sessions.exists()


def test_unconfirmed_change_is_refused(cluster: Apis, sessions: Path) -> None:
    result = ops("node", "replace", COMPUTE)
    assert result.exit_code != 0
    assert not sessions.exists()


def test_refusal_of_slurm_is_reported_though_the_session_succeeded(cluster: Apis, sessions: Path) -> None:
    (sessions.parent / "answer").write_text("slurm_update error: Invalid node name specified\n")
    result = ops("node", "reboot", COMPUTE, "--yes")
    assert result.exit_code == 1
    assert "the command failed on the node: slurm_update error: Invalid node name specified" in result.stderr


@pytest.mark.parametrize(("octet", "role"), [("10", "controller"), ("11", "login")])
def test_node_that_runs_no_jobs_is_refused_with_the_command_that_works(cluster: Apis, octet: str, role: str) -> None:
    result = ops("node", "replace", f"ip-10-209-64-{octet}", "--yes")
    assert result.exit_code == 1
    assert f"is a {role} node, and Slurm can replace compute nodes only" in result.stderr
    assert f"batch-replace-cluster-nodes --cluster-name ml-cluster-slurm --node-ids i-000000000000000{octet}" in (
        result.stderr
    )


def test_change_without_a_running_controller_is_refused(cluster: Apis, sessions: Path) -> None:
    pending = listed("controller-machine", "10", InstanceStatus={"Status": "Pending"})
    nodes = [pending, listed("worker-group-1", "20")]
    cluster.aws["ListClusterNodes"] = {"ClusterNodeSummaries": nodes}
    result = ops("node", "replace", COMPUTE, "--yes")
    assert "the controller node is Pending. Allowed: Running" in result.stderr


@pytest.mark.parametrize("action", ["drain", "check"])
def test_actions_of_kubernetes_are_refused_with_those_of_slurm(cluster: Apis, action: str) -> None:
    result = ops("node", action, COMPUTE, "--yes")
    assert result.exit_code == 2
    assert f"`ops node {action}` is invalid here" in result.stderr
    assert "Allowed: replace, reboot" in result.stderr


def test_ssh_config_reaches_every_running_node_through_session_manager(cluster: Apis, tmp_path: Path) -> None:
    result = ops("ssh-config", "--user", "ada")
    assert result.exit_code == 0, result.output
    (tmp_path / "config").write_text(result.stdout)
    for host in ("slurm-ip-10-209-64-20", COMPUTE):
        read = settings(tmp_path / "config", host)
        assert read["hostname"] == "10.209.64.20"
        assert read["user"] == "ada"
        assert read["hostkeyalias"] == COMPUTE
        assert read["proxycommand"] == (
            f"aws ssm start-session --target {CLUSTER}_worker-group-1-{COMPUTE} --region us-west-2 "
            "--document-name AWS-StartSSHSession --parameters portNumber=%p"
        )
    assert settings(tmp_path / "config", "slurm-controller")["hostname"] == "10.209.64.10"
    assert settings(tmp_path / "config", "slurm-login")["hostname"] == "10.209.64.11"


def settings(file: Path, host: str) -> dict[str, str]:
    """Return what OpenSSH reads of the file for a host."""
    command = ["ssh", "-G", "-F", str(file), host]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in said.splitlines() if " " in line)


def test_ssh_config_leaves_out_nodes_that_do_not_run(cluster: Apis) -> None:
    pending = listed("worker-group-1", "20", InstanceStatus={"Status": "Pending"})
    cluster.aws["ListClusterNodes"] = {"ClusterNodeSummaries": [listed("login-group", "11"), pending]}
    assert COMPUTE not in ops("ssh-config").stdout
    cluster.aws["ListClusterNodes"] = {"ClusterNodeSummaries": [pending]}
    result = ops("ssh-config")
    assert result.exit_code == 1
    assert "no node of slurm runs" in result.stderr


def test_ssh_config_of_an_environment_with_eks_is_refused(apis: Apis) -> None:
    result = CliRunner().invoke(app, ["ssh-config", "--env", "dev"])
    assert result.exit_code == 2
    assert "Allowed: environments with slurm" in result.stderr


def test_wait_needs_no_kubernetes(cluster: Apis) -> None:
    result = ops("wait", "--require", "none", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["ready"]
    assert {item["kind"] for item in found["items"]} == {"HyperPod cluster", "instance group"}


def test_wait_says_what_a_group_lacks_and_why(cluster: Apis) -> None:
    status = {"Status": "Failure", "Message": "lifecycle scripts failed"}
    nodes = [listed("worker-group-1", "20", InstanceStatus=status)]
    cluster.aws["ListClusterNodes"] = {"ClusterNodeSummaries": nodes}
    found = json.loads(ops("wait", "--require", "none", "-o", "json").stdout)
    details = {item["name"]: item["detail"] for item in found["items"]}
    assert f"{COMPUTE}: lifecycle scripts failed" in details["worker-group-1"]
    assert not found["ready"]


def test_status_shows_the_nodes_of_slurm(cluster: Apis) -> None:
    result = ops("status", "-o", "json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0, result.output
    assert {node["name"] for node in found["slurm_nodes"]} >= {"ip-10-209-64-10", "ip-10-209-64-20"}
    assert "ray_clusters" not in found
    assert "ip-10-209-64-20" in ops("status").stdout


def test_status_names_what_cannot_be_read(cluster: Apis) -> None:
    cluster.aws["DescribeCluster"] = (400, {"__type": "AccessDeniedException", "message": "no"})
    result = ops("status")
    assert result.exit_code == 2
    assert "AccessDeniedException" in result.stdout


def test_status_shows_the_last_word_on_slurms_accounting_daemon(cluster: Apis) -> None:
    event = {"EventId": "e", "ResourceType": "Cluster", "EventTime": 1_760_000_000, "EventLevel": "Warn"}
    health = {"Component": "Slurmdbd", "Status": "Unhealthy", "Reason": "DaemonDown"}
    cluster.aws["ListClusterEvents"] = {"Events": [event]}
    cluster.aws["DescribeClusterEvent"] = {
        "EventDetails": {**event, "EventDetails": {"EventMetadata": {"SlurmHealth": health}}}
    }
    [found] = json.loads(ops("status", "-o", "json").stdout)["slurm_health"]
    assert (found["component"], found["status"]) == ("Slurmdbd", "Unhealthy")
    assert found["reason"] == "DaemonDown: it does not run: no job is recorded"
    assert "Slurmdbd  Unhealthy  DaemonDown" in ops("status").stdout


def test_status_says_nothing_of_slurms_health_unless_an_event_does(cluster: Apis) -> None:
    cluster.aws["ListClusterEvents"] = {"Events": []}
    assert json.loads(ops("status", "-o", "json").stdout)["slurm_health"] == []
    assert "Slurm's health" not in ops("status").stdout
