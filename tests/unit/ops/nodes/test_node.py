"""`ops node`: the list, the target of a shell, refusals and plans; tests/rehearsal follows the changes themselves."""

import getpass
import json
import os
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ops.clients import Clients
from ops.commands.whole import app
from ops.nodes.shell_mark import marked
from tests.support.waiting import wait_until
from tests.unit.support.fake_apis import Apis, aws_error
from tests.unit.support.running_environment import ALL_PODS, HEAD, NODES, RAY_JOBS, WORKERS, node, nodes, usable_node

ID = "i-0123456789abcdef0"
TARGET = f"sagemaker-cluster:abcdefghijkl_{WORKERS}-{ID}"
CHANGES = ("drain", "reboot", "replace", "check")


def ops(*words: str, **options: Any) -> Result:
    return CliRunner().invoke(app, ["node", *words, "--env", "dev"], **options)


@pytest.fixture
def one_worker(apis: Apis) -> Apis:
    """Leave one node, a worker's, with a Ray pod on it."""
    apis.aws["ListClusterNodes"] = {"ClusterNodeSummaries": [node(WORKERS)]}
    apis.kubernetes[NODES] = nodes(usable_node(deep="Passed"))
    labels = {"ray.io/is-ray-node": "yes", "ray.io/cluster": "rayml", "ray.io/node-type": "worker"}
    metadata = {"name": "rayml-worker-1", "namespace": "ray", "labels": labels}
    pod = {"metadata": metadata, "spec": {"nodeName": f"hyperpod-{ID}", "containers": []}, "status": {}}
    apis.kubernetes[ALL_PODS] = {"items": [pod]}
    return apis


def busy(apis: Apis) -> None:
    """Let a RayJob run on the RayCluster."""
    status = {"rayClusterName": "rayml", "jobStatus": "RUNNING"}
    apis.kubernetes[RAY_JOBS] = {"items": [{"metadata": {"name": "train"}, "status": status}]}


def test_list_joins_what_both_apis_know(one_worker: Apis) -> None:
    result = ops("list", "-o", "json")
    assert result.exit_code == 0, result.output
    [found] = json.loads(result.stdout)
    assert found == {
        "instance": ID,
        "group": WORKERS,
        "type": "ml.m5.2xlarge",
        "status": "Running",
        "health": "Schedulable",
        "deep_check": "Passed",
        "hindrance": "",
        "software": "",
        "pods": ["ray/rayml-worker-1"],
    }
    assert "ray/rayml-worker-1" in ops("list").stdout


def test_list_names_a_node_that_kubernetes_does_not_have(one_worker: Apis) -> None:
    one_worker.kubernetes[NODES] = nodes()
    assert "not in Kubernetes" in ops("list").stdout


@pytest.mark.parametrize("given", [ID, f"hyperpod-{ID}"])
def test_shell_prints_its_command(one_worker: Apis, given: str) -> None:
    result = ops("shell", given, "--print")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"aws ssm start-session --target {TARGET} --region us-west-2\n"


def test_shell_names_missing_programs(one_worker: Apis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = ops("shell", ID)
    assert result.exit_code == 2
    assert "aws, session-manager-plugin is not installed" in result.stderr


def test_shell_becomes_the_session(one_worker: Apis, tmp_path: Path) -> None:
    for name in ("aws", "session-manager-plugin"):
        program = tmp_path / name
        program.write_text('#!/bin/sh\necho "$$ $*"\nexit 7\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with subprocess.Popen(
        [sys.executable, "-m", "ops", "node", "shell", ID, "--env", "dev"],
        env=os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        said, _ = process.communicate()
    assert said.splitlines()[-1] == f"{process.pid} ssm start-session --target {TARGET} --region us-west-2"
    assert process.returncode == 7


NODE = f"PATCH /api/v1/nodes/hyperpod-{ID}"


@pytest.fixture
def sleeping(one_worker: Apis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apis:
    """Let the node's group sleep, and provide the programs of a session, which ends with 7."""
    files = tmp_path / "environments"
    files.mkdir()
    text = (Path(os.environ["RAYHP_ENVIRONMENTS"]) / "dev.yaml").read_text()
    asleep = text.replace(f"name: {WORKERS}\n", f"name: {WORKERS}\n      sleep: {{}}\n", 1)
    assert "sleep: {}" in asleep
    (files / "dev.yaml").write_text(asleep)
    monkeypatch.setenv("RAYHP_ENVIRONMENTS", str(files))
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("aws", "session-manager-plugin"):
        program = programs / name
        program.write_text('#!/bin/sh\necho "$PPID $*"\n[ -z "$WAITS" ] || sleep "$WAITS"\nexit 7\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return one_worker


def marks(apis: Apis) -> list[Any]:
    """Return the values that the node's annotation got, one after the other."""
    made = [body["metadata"]["annotations"] for change, body in apis.changes if change == NODE]
    assert len({key for each in made for key in each}) == 1
    assert all(key.startswith("ray-on-hyperpod/shell-") for each in made for key in each)
    return [value for each in made for value in each.values()]


def opened(**options: Any) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "ops", "node", "shell", ID, "--env", "dev"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_a_shell_marks_a_node_of_a_group_that_sleeps_until_it_is_closed(sleeping: Apis) -> None:
    with opened() as process:
        said, _ = process.communicate()
    assert process.returncode == 7
    assert said.splitlines()[-1] == f"{process.pid} ssm start-session --target {TARGET} --region us-west-2"
    first, last = marks(sleeping)
    until, _, who = first.partition(" ")
    ahead = datetime.fromisoformat(until) - datetime.now(UTC)
    assert timedelta(minutes=14) < ahead <= timedelta(minutes=15)
    assert who == getpass.getuser()
    assert last is None


def test_ctrl_c_ends_what_runs_in_the_shell_and_not_the_mark(sleeping: Apis) -> None:
    with opened(env=os.environ | {"WAITS": "30"}, start_new_session=True) as process:
        assert process.stdout
        wait_until(lambda: sleeping.changes, "the mark")
        lines = [process.stdout.readline(), process.stdout.readline()]
        assert "start-session" in lines[-1]
        # As a terminal does.
        os.killpg(process.pid, signal.SIGINT)
        process.communicate()
    assert process.returncode == 128 + signal.SIGINT
    assert marks(sleeping)[-1] is None


def test_a_mark_is_renewed_while_the_shell_is_open(sleeping: Apis, clients: Clients) -> None:
    with marked(clients.kubernetes, f"hyperpod-{ID}", renew=0.05) as problem:
        wait_until(lambda: len(sleeping.changes) > 2, "the renewals")
    assert problem == ""
    assert marks(sleeping)[-1] is None


def test_who_may_not_mark_the_node_gets_the_shell_and_is_told(sleeping: Apis) -> None:
    sleeping.kubernetes[NODE] = 403, {"kind": "Status", "message": "forbidden"}
    with opened() as process:
        said, errors = process.communicate()
    assert process.returncode == 7
    assert f"{WORKERS} sleeps while nothing uses it, and this shell does not count as use" in said + errors


def test_a_printed_command_marks_nothing(sleeping: Apis) -> None:
    assert ops("shell", ID, "--print").exit_code == 0
    assert sleeping.changes == []


@pytest.mark.parametrize("command", ["shell", *CHANGES])
def test_an_unknown_node_is_refused_with_the_known_ones(one_worker: Apis, command: str) -> None:
    result = ops(command, "i-00000000000000000")
    assert result.exit_code == 1
    assert f"has no node i-00000000000000000. Allowed: {ID}" in result.stderr


@pytest.mark.parametrize("command", CHANGES)
def test_a_change_needs_an_environment(command: str) -> None:
    result = CliRunner().invoke(app, ["node", command, ID])
    assert result.exit_code == 2
    assert "--env" in result.stderr


@pytest.mark.parametrize("command", CHANGES)
def test_a_change_is_refused_while_a_job_runs_there(one_worker: Apis, command: str) -> None:
    busy(one_worker)
    result = ops(command, ID, "--yes")
    assert result.exit_code == 1
    assert "RayCluster ray/rayml has unfinished jobs: RayJob train" in result.stderr
    assert one_worker.changes == []


@pytest.mark.parametrize("command", CHANGES)
def test_a_dry_run_shows_the_plan_and_changes_nothing(one_worker: Apis, command: str) -> None:
    busy(one_worker)
    result = ops(command, ID, "--dry-run", "--force")
    assert result.exit_code == 0, result.output
    assert f"node {ID} of {WORKERS}" in result.stdout
    assert "it runs ray/rayml-worker-1" in result.stdout
    assert one_worker.changes == []


@pytest.mark.parametrize("command", CHANGES)
def test_an_answer_of_no_changes_nothing(one_worker: Apis, command: str) -> None:
    result = ops(command, ID, input="n\n")
    assert result.exit_code == 1
    assert "not confirmed: nothing was changed" in result.stderr
    assert one_worker.changes == []


def test_a_change_is_refused_unless_the_cluster_is_in_service(one_worker: Apis) -> None:
    one_worker.aws["DescribeCluster"] = {**one_worker.aws["DescribeCluster"], "ClusterStatus": "SystemUpdating"}
    result = ops("reboot", ID, "--yes")
    assert result.exit_code == 1
    assert "is SystemUpdating. Allowed: InService" in result.stderr


@pytest.mark.parametrize(
    ("command", "call"), [("reboot", "BatchRebootClusterNodes"), ("replace", "BatchReplaceClusterNodes")]
)
def test_what_hyperpod_refuses_is_reported(one_worker: Apis, command: str, call: str) -> None:
    failed = {"NodeId": ID, "ErrorCode": "InvalidInstanceStatus", "Message": "it is leaving"}
    one_worker.aws[call] = {"Successful": [], "Failed": [failed]}
    result = ops(command, ID, "--yes")
    assert result.exit_code == 1
    assert f"HyperPod refuses to {command} {ID}: InvalidInstanceStatus: it is leaving" in result.stderr


def test_denied_requests_exit_with_2(one_worker: Apis) -> None:
    one_worker.aws["BatchRebootClusterNodes"] = aws_error("AccessDeniedException", "not authorized")
    result = ops("reboot", ID, "--yes")
    assert result.exit_code == 2
    assert "AWS refuses BatchRebootClusterNodes" in result.stderr


def test_checks_are_those_of_the_group_and_no_wait_returns_at_once(one_worker: Apis) -> None:
    arn = one_worker.aws["DescribeCluster"]["ClusterArn"]
    one_worker.aws["StartClusterHealthCheck"] = {"ClusterArn": arn}
    result = ops("check", ID, "--yes", "--no-wait")
    assert result.exit_code == 0, result.output
    checks = ["InstanceStress", "InstanceConnectivity"]
    configuration = {"InstanceGroupName": WORKERS, "InstanceIds": [ID], "DeepHealthChecks": checks}
    body = {"ClusterName": "ml-cluster", "DeepHealthCheckConfigurations": [configuration]}
    assert one_worker.changes == [("StartClusterHealthCheck", body)]


def test_a_node_without_accelerators_is_not_checked(one_worker: Apis) -> None:
    one_worker.aws["ListClusterNodes"] = {"ClusterNodeSummaries": [node(HEAD)]}
    result = ops("check", ID, "--yes")
    assert result.exit_code == 1
    assert "deep health checks do not support ml.m5.2xlarge" in result.stderr


def test_a_node_that_fails_its_checks_exits_with_3(one_worker: Apis) -> None:
    arn = one_worker.aws["DescribeCluster"]["ClusterArn"]
    one_worker.aws["StartClusterHealthCheck"] = {"ClusterArn": arn}
    before, after = nodes(usable_node(deep="Passed")), nodes(usable_node(deep="Failed"))
    # The list, and the boot id of the node, come before the request.
    one_worker.kubernetes[NODES] = [before, before, after]
    result = ops("check", ID, "--yes")
    assert result.exit_code == 3
    assert f"{ID} failed its deep health checks" in result.stderr


def test_a_reboot_that_hyperpod_does_not_begin_ends_at_the_timeout(one_worker: Apis) -> None:
    one_worker.aws["BatchRebootClusterNodes"] = {"Successful": [ID]}
    result = ops("reboot", ID, "--yes", "--timeout", "0s")
    assert result.exit_code == 1
    assert f"not back after 0 s: {ID}: HyperPod has not begun" in result.stderr


def test_a_reboot_is_seen_by_the_nodes_new_boot_id(one_worker: Apis) -> None:
    one_worker.aws["BatchRebootClusterNodes"] = {"Successful": [ID]}
    old, new = usable_node(), usable_node()
    for each, boot in ((old, "one"), (new, "two")):
        rest = dict.fromkeys(
            (
                "architecture",
                "containerRuntimeVersion",
                "kernelVersion",
                "kubeProxyVersion",
                "kubeletVersion",
                "machineID",
                "operatingSystem",
                "osImage",
                "systemUUID",
            ),
            "",
        )
        each["status"]["nodeInfo"] = {"bootID": boot, **rest}
    one_worker.kubernetes[NODES] = [nodes(old), nodes(old), nodes(new)]
    ready = [{"type": "Ready", "status": "True"}]
    one_worker.kubernetes[ALL_PODS]["items"][0]["status"] = {"phase": "Running", "conditions": ready}
    result = ops("reboot", ID, "--yes", "--timeout", "0s")
    assert result.exit_code == 0, result.output
    assert f"{ID} and its Ray pods are back" in result.stdout


def test_a_drain_cordons_with_its_own_mark(one_worker: Apis) -> None:
    one_worker.kubernetes[ALL_PODS] = [one_worker.kubernetes[ALL_PODS], one_worker.kubernetes[ALL_PODS], {"items": []}]
    result = ops("drain", ID, "--yes")
    assert result.exit_code == 0, result.output
    annotation = {"annotations": {"ray-on-hyperpod/drained": "true"}}
    patch = (f"PATCH /api/v1/nodes/hyperpod-{ID}", {"metadata": annotation, "spec": {"unschedulable": True}})
    assert one_worker.changes == [patch]
    assert f"`kubectl uncordon hyperpod-{ID}`" in result.stdout
