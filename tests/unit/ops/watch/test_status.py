"""`ops status`: one screen, unreadable parts named in their place, exit codes."""

import io
import json
from collections.abc import Iterator

import pytest
from rich.console import Console, Group
from typer.testing import CliRunner, Result

import config
from ops.clients import CallerAccount
from ops.commands.whole import app
from ops.watch.live import watch
from ops.watch.screen import NODES_SHOWN, screen
from ops.watch.status import Status, read_status
from tests.unit.support.documented_data import assert_same_shape, documented
from tests.unit.support.fake_apis import Apis, aws_error
from tests.unit.support.running_environment import (
    ALL_PODS,
    LEASES,
    NODES,
    PODS,
    RAY_CLUSTERS,
    RUN_JOBS,
    VOLUME,
    WORKERS,
    group,
    node,
    nodes,
    stacks,
    usable_node,
)

ID = "i-0123456789abcdef0"


def status(*options: str) -> Result:
    return CliRunner().invoke(app, ["status", "--env", "dev", *options])


def data(result: Result) -> dict[str, object]:
    loaded: dict[str, object] = json.loads(result.stdout)
    return loaded


def test_a_ready_environment_is_shown_whole_and_exits_with_0(apis: Apis) -> None:
    result = status()
    assert result.exit_code == 0, result.output
    for part in ("6 of 6 complete", "worker-group-1", "rayml ready, 4/0 workers", "1,200 GiB", "about US$"):
        assert part in result.stdout


def test_the_screen_fits_80_columns(apis: Apis) -> None:
    printed = io.StringIO()
    Console(file=printed, width=80).print(screen(read_status(config.load("dev"), CallerAccount(config.load("dev")))))
    assert max(map(len, printed.getvalue().splitlines())) <= 80


def test_json_has_every_section(apis: Apis) -> None:
    found = data(status("-o", "json"))
    assert_same_shape(found, documented("status"))
    assert_same_shape(found["nodes"], documented("node", "list"))
    assert found["ready"] is True
    assert found["stacks"] == [
        {"name": f"rayhp-dev-{part}", "state": "CREATE_COMPLETE", "reason": ""}
        for part in ("network", "storage", "eks", "hyperpod", "platform", "ray")
    ]
    assert found["file_system"] == {
        "id": "fs-0123456789abcdef0",
        "state": "AVAILABLE",
        "capacity_gib": 1200,
        "used_gib": None,
    }
    assert {"instance_groups", "nodes", "ray_clusters", "pending_pods", "jobs", "cost"} <= found.keys()


def test_use_of_the_file_system_is_capacity_without_what_is_free(apis: Apis) -> None:
    points = [{"Timestamp": 1_760_000_000 + minute, "Sum": free * 2**30} for minute, free in enumerate((900, 200))]
    apis.aws["GetMetricStatistics"] = {"Datapoints": points}
    assert "1,200 GiB, 1,000 GiB used" in status().stdout


def test_old_software_capacity_and_health_labels_are_shown(apis: Apis) -> None:
    plan = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5-march"
    old = group(WORKERS, 1) | {"ImageVersionStatus": "EndOfLife", "TrainingPlanArn": plan}
    apis.aws["DescribeCluster"] = {**apis.aws["DescribeCluster"], "InstanceGroups": [old]}
    apis.aws["ListClusterNodes"] = {"ClusterNodeSummaries": [node(WORKERS)]}
    apis.kubernetes[NODES] = nodes(usable_node(health="UnschedulablePendingReboot", deep="Passed"))
    found = data(result := status("-o", "json"))
    assert result.exit_code == 1
    assert found["nodes"] == [
        {
            "instance": ID,
            "group": WORKERS,
            "type": "ml.m5.2xlarge",
            "status": "Running",
            "health": "UnschedulablePendingReboot",
            "deep_check": "Passed",
            "hindrance": "UnschedulablePendingReboot",
            "software": "EndOfLife",
            "pods": [],
        }
    ]
    shown = status().stdout
    for part in ("software: EndOfLife", "training plan p5-march", "UnschedulablePendingReboot", "deep check: Passed"):
        assert part in shown


def test_many_healthy_nodes_are_counted_and_a_troubled_one_is_listed(apis: Apis) -> None:
    ids = [f"i-{number:017}" for number in range(NODES_SHOWN + 4)]
    apis.aws["ListClusterNodes"] = {"ClusterNodeSummaries": [node(WORKERS) | {"InstanceId": each} for each in ids]}
    listed = [usable_node(health="Unschedulable" if each == ids[-1] else "Schedulable") for each in ids]
    for each, name in zip(listed, ids, strict=True):
        each["metadata"]["name"] = f"hyperpod-{name}"
    apis.kubernetes[NODES] = nodes(*listed)
    shown = status().stdout
    assert ids[-1] in shown
    assert "and 3 more that take pods" in shown


def test_pending_pods_jobs_and_stacks_in_trouble_are_shown(apis: Apis) -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/5 nodes are available"}
    pod = {"metadata": {"name": "rayml-worker-1"}, "status": {"phase": "Pending", "conditions": [condition]}}
    apis.kubernetes[PODS] = {"items": [pod]}
    metadata = {"name": "run-1", "creationTimestamp": "2026-11-01T10:00:00Z"}
    labels = {"ray-on-hyperpod/run": "run-1", "ray-on-hyperpod/cluster": "rayml"}
    spec = {"template": {"spec": {"containers": [{"name": "supervisor"}]}}}
    apis.kubernetes[RUN_JOBS] = {"items": [{"metadata": {**metadata, "labels": labels}, "spec": spec, "status": {}}]}
    state = {"ray-on-hyperpod/state": '{"phase": "running"}'}
    apis.kubernetes[LEASES] = {"items": [{"metadata": {"name": "run-1", "annotations": state}}]}
    apis.aws["DescribeStacks"] = stacks("network", state="UPDATE_ROLLBACK_COMPLETE")
    found = data(status("-o", "json"))
    assert found["pending_pods"] == [{"pod": "rayml-worker-1", "reason": "0/5 nodes are available"}]
    assert found["jobs"] == [{"name": "run-1", "ray_cluster": "rayml", "state": "running"}]
    shown = status().stdout
    for part in ("UPDATE_ROLLBACK_COMPLETE", "not deployed", "rayml-worker-1", "run-1"):
        assert part in shown


@pytest.mark.parametrize(
    ("section", "remove"),
    [
        ("file_system", lambda apis: apis.kubernetes.pop(VOLUME)),
        ("ray_clusters", lambda apis: apis.kubernetes.pop(RAY_CLUSTERS)),
        ("nodes", lambda apis: apis.kubernetes.pop(ALL_PODS)),
        ("stacks", lambda apis: apis.aws.update(DescribeStacks=refused())),
    ],
)
def test_a_part_that_cannot_be_read_is_named_and_hides_no_other(apis: Apis, section: str, remove: object) -> None:
    assert callable(remove)
    remove(apis)
    result = status("-o", "json")
    assert result.exit_code == 0, result.output
    found = data(result)
    assert [name for name, value in found.items() if isinstance(value, dict) and "unseen" in value] == [section]
    assert status().stdout.count("cannot be read: ") == 1


def refused() -> tuple[int, str]:
    error = "<Error><Code>AccessDenied</Code><Message>not authorized</Message></Error>"
    return 403, f"<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>"


def test_without_a_cluster_the_stacks_are_shown_and_the_exit_code_is_2(apis: Apis) -> None:
    apis.aws["DescribeEksCluster"] = aws_error("ResourceNotFoundException", "No cluster found.", 404)
    apis.aws["DescribeStacks"] = stacks("network", state="CREATE_IN_PROGRESS")
    result = status()
    assert result.exit_code == 2
    assert "CREATE_IN_PROGRESS" in result.stdout
    assert result.stdout.count("there is no EKS cluster yet") == 1
    assert result.stderr.startswith("error: there is no EKS cluster yet")


def test_watch_without_a_terminal_is_refused(apis: Apis) -> None:
    result = status("--watch")
    assert result.exit_code == 2
    assert "--watch is refused" in result.stderr


def test_watch_redraws_until_it_is_interrupted(apis: Apis) -> None:
    environment = config.load("dev")
    first = read_status(environment, CallerAccount(environment))
    looks: Iterator[Status] = iter([first, first])

    def interrupted(since: str) -> Group:
        try:
            return screen(next(looks), since)
        except StopIteration:
            raise KeyboardInterrupt from None

    printed = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        watch(interrupted, Console(file=printed, width=80, force_terminal=True), interval=0.001)
    assert printed.getvalue().count("watching for 0 s; Ctrl-C stops") >= 2
