"""`ops scale` and `ops update-software`: their refusals, and their actions in order."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import config
from config.labels import INSTANCE_GROUP_LABEL
from config.load import DIRECTORY
from config.model.hyperpod import Sleep
from ops.change import scale as scaling
from ops.clients import Clients
from ops.commands.whole import app
from ops.environment.edits import lower_counts
from ops.errors import RefusedError
from tests.unit.support.fake_apis import Apis
from tests.unit.support.running_environment import HEAD, NODES, WORKERS, group, nodes

ALL_PODS = "/api/v1/pods"
RAY_CLUSTERS = "/apis/ray.io/v1/rayclusters"
RAY_PODS = "/api/v1/namespaces/ray/pods"
RAY_JOBS = "/apis/ray.io/v1/namespaces/ray/rayjobs"
RAYML = "PATCH /apis/ray.io/v1/namespaces/ray/rayclusters/rayml"
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "plugin", "uid": "1"}
DRIVER = {"metadata": {"name": "plugin-1", "namespace": "kube-system", "ownerReferences": [OWNER]}}


def run(*arguments: str) -> Result:
    return CliRunner(env={"OPS_ENV": "dev"}).invoke(app, list(arguments))


def instance(number: int, name: str = WORKERS, status: str = "Running") -> dict[str, Any]:
    """Return a node of ListClusterNodes; a higher number is newer."""
    return {
        "InstanceGroupName": name,
        "InstanceId": f"i-{number:017}",
        "InstanceType": "ml.p5.48xlarge",
        "LaunchTime": 1_760_000_000 + number,
        "InstanceStatus": {"Status": status},
    }


def kubernetes_node(number: int) -> dict[str, Any]:
    """Return a running Kubernetes node."""
    ready = {"type": "Ready", "status": "True"}
    return {"metadata": {"name": f"hyperpod-i-{number:017}", "labels": {}}, "status": {"conditions": [ready]}}


def ray_pod(name: str, number: int, kind: str = "worker") -> dict[str, Any]:
    """Return a Ray pod that runs on a node."""
    labels = {"ray.io/cluster": "rayml", "ray.io/group": "gpu-group", "ray.io/node-type": kind}
    metadata = {"name": name, "namespace": "ray", "labels": labels}
    spec = {"nodeName": f"hyperpod-i-{number:017}", "containers": []}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


@pytest.fixture
def running(apis: Apis) -> Apis:
    """Serve a `dev` with four workers, one on each node, and no ready head; i-4 is the newest node."""
    listed = [instance(0, HEAD), *map(instance, range(1, 5))]
    # Before and after nodes are deleted.
    apis.aws["ListClusterNodes"] = [{"ClusterNodeSummaries": listed}, {"ClusterNodeSummaries": listed[:3]}]
    apis.aws["BatchDeleteClusterNodes"] = {"Successful": ["i-3", "i-4"]}
    before = apis.aws["DescribeCluster"]
    apis.aws["DescribeCluster"] = [before, before | {"InstanceGroups": [group(HEAD, 1), group(WORKERS, 2)]}]
    apis.kubernetes[NODES] = nodes(*map(kubernetes_node, range(1, 5)))
    workers = [ray_pod(f"worker-{number}", number) for number in range(1, 5)]
    fourth, third = ({"items": [DRIVER, workers[number]]} for number in (3, 2))
    gone = {"items": [DRIVER]}
    apis.kubernetes[ALL_PODS] = [{"items": workers}, fourth, gone, third, gone]
    template = {"spec": {"nodeSelector": {INSTANCE_GROUP_LABEL: WORKERS}}}
    gpu_group = {"groupName": "gpu-group", "replicas": 4, "minReplicas": 1, "maxReplicas": 10, "template": template}
    rayml = {"metadata": {"name": "rayml", "namespace": "ray"}, "spec": {"workerGroupSpecs": [gpu_group]}}
    apis.kubernetes[RAY_CLUSTERS] = {"items": [rayml]}
    apis.kubernetes[RAY_JOBS] = {"items": []}
    # No ready head; then the workers, one fewer each time.
    first, second = waiting_pod("substitute-1"), waiting_pod("substitute-2")
    seen = [[], [*workers[:2]], [*workers[:2], first, second], [*workers[:2], second], workers[:2]]
    apis.kubernetes[RAY_PODS] = [{"items": pods} for pods in seen]
    return apis


def waiting_pod(name: str) -> dict[str, Any]:
    """Return a worker pod for which no node has room."""
    pod = ray_pod(name, 0)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return pod | {"spec": {"containers": []}, "status": {"phase": "Pending", "conditions": [condition]}}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def test_nodes_leave_in_order_drain_replicas_delete(running: Apis) -> None:
    result = run("scale", WORKERS, "2", "--env", "dev", "--yes")
    assert result.exit_code == 0, result.output
    fourth, third = (f"hyperpod-i-{number:017}" for number in (4, 3))
    assert [what for what, _ in running.changes] == [
        f"PATCH /api/v1/nodes/{fourth}",
        f"PATCH /api/v1/nodes/{third}",
        "POST /api/v1/namespaces/ray/pods/worker-4/eviction",
        "POST /api/v1/namespaces/ray/pods/worker-3/eviction",
        RAYML,
        RAYML,
        "BatchDeleteClusterNodes",
    ]
    bodies = dict(running.changes)
    assert bodies[f"PATCH /api/v1/nodes/{fourth}"]["spec"] == {"unschedulable": True}
    assert bodies["BatchDeleteClusterNodes"] == {
        "ClusterName": "ml-cluster",
        "NodeIds": [f"i-{4:017}", f"i-{3:017}"],
    }


def test_replicas_are_removed_one_by_one_each_with_a_pod_that_runs_nowhere(running: Apis) -> None:
    run("scale", WORKERS, "2", "--env", "dev", "--yes")
    steps = [body for what, body in running.changes if what == RAYML]
    changed = [
        {step["path"].rpartition("/")[2]: step["value"] for step in body if step["op"] != "test"} for body in steps
    ]
    tested = [[step["value"] for step in body if step["op"] == "test"] for body in steps]
    assert changed == [
        {"scaleStrategy": {"workersToDelete": ["substitute-1"]}, "minReplicas": 1, "replicas": 3},
        {"scaleStrategy": {"workersToDelete": ["substitute-2"]}, "minReplicas": 1, "replicas": 2},
    ]
    assert tested == [["gpu-group", 4], ["gpu-group", 3]]


def test_replicas_whose_pods_found_room_are_kept(running: Apis) -> None:
    running.kubernetes[RAY_PODS] = [{"items": []}, {"items": [ray_pod(f"worker-{n}", n) for n in range(1, 5)]}]
    result = run("scale", WORKERS, "2", "--yes")
    assert "gpu-group: keeps 4 replicas: all their pods found a node" in result.stdout
    assert RAYML not in dict(running.changes)


def test_an_autoscaled_group_gets_an_upper_bound_and_min_replicas_follow(running: Apis) -> None:
    spec = running.kubernetes[RAY_CLUSTERS]["items"][0]["spec"]
    spec["enableInTreeAutoscaling"] = True
    spec["workerGroupSpecs"][0]["minReplicas"] = 4
    run("scale", WORKERS, "2", "--yes")
    last = {step["path"].rpartition("/")[2]: step["value"] for step in dict(running.changes)[RAYML]}
    assert (last["replicas"], last["minReplicas"], last["maxReplicas"]) == (2, 2, 2)


def test_a_ray_cluster_that_somebody_else_changes_is_left_alone(running: Apis) -> None:
    running.kubernetes[RAYML] = (422, {"kind": "Status", "message": "testing value failed"})
    result = run("scale", WORKERS, "2", "--yes")
    assert result.exit_code == 1
    assert "RayCluster ray/rayml, gpu-group was changed by somebody else meanwhile" in result.stderr
    assert "BatchDeleteClusterNodes" not in dict(running.changes)


def test_the_lines_to_change_are_printed_and_the_count_that_hyperpod_has_now(running: Apis) -> None:
    printed = run("scale", WORKERS, "2", "--env", "dev", "--yes").stdout
    assert "HyperPod's count of worker-group-1 is 2" in printed
    file = (DIRECTORY / "dev.yaml").read_text().splitlines()
    for key in ("count", "replicas"):
        number = file.index(f"{'      ' if key == 'count' else '          '}{key}: 4") + 1
        assert f"dev.yaml, line {number}: `{key}: 4` becomes `{key}: 2`" in printed


def test_a_dry_run_shows_everything_and_changes_nothing(running: Apis) -> None:
    result = run("scale", WORKERS, "2", "--env", "dev", "--dry-run")
    assert result.exit_code == 0, result.output
    assert running.changes == []
    assert "RayCluster ray/rayml, gpu-group: from 4 to 2 replicas" in result.stdout
    assert f"node hyperpod-i-{4:017}: cordon, drain, delete (worker worker-4)" in result.stdout
    assert "dry run: nothing was changed" in result.stdout


def test_without_confirmation_nothing_is_changed(running: Apis, terminal: None) -> None:
    result = CliRunner(env={"OPS_ENV": "dev"}).invoke(app, ["scale", WORKERS, "2"], input="n\n")
    assert result.exit_code == 1
    assert running.changes == []


def test_a_change_that_nobody_can_confirm_is_refused_with_the_fix(running: Apis) -> None:
    result = CliRunner(env={"OPS_ENV": "dev"}).invoke(app, ["scale", WORKERS, "2"], input="y\n")
    assert result.exit_code == 1
    assert result.stderr.endswith("standard input is no terminal. Fix: give --yes\n")
    assert running.changes == []


def test_a_running_ray_job_is_named_and_nothing_is_changed(running: Apis) -> None:
    job = {"metadata": {"name": "train"}, "status": {"rayClusterName": "rayml", "jobStatus": "RUNNING"}}
    running.kubernetes[RAY_JOBS] = {"items": [job]}
    result = run("scale", WORKERS, "2", "--yes")
    assert result.exit_code == 1
    assert "RayCluster ray/rayml has unfinished jobs: RayJob train" in result.stderr
    assert "--force" in result.stderr
    assert running.changes == []


def test_a_head_that_does_not_list_its_jobs_is_a_reason_to_refuse(running: Apis) -> None:
    running.kubernetes[RAY_PODS] = {"items": [ray_pod("rayml-head", 0, "head")]}
    result = run("scale", WORKERS, "2", "--yes")
    assert result.exit_code == 1
    assert "the head ray/rayml-head does not say which jobs run" in result.stderr
    assert running.changes == []


def test_force_continues_whatever_runs(running: Apis) -> None:
    job = {"metadata": {"name": "train"}, "status": {"rayClusterName": "rayml", "jobStatus": "RUNNING"}}
    running.kubernetes[RAY_JOBS] = {"items": [job]}
    del running.kubernetes[RAY_PODS][0]
    result = run("scale", WORKERS, "2", "--yes", "--force")
    assert result.exit_code == 0, result.output


def test_a_disruption_budget_is_waited_for(running: Apis) -> None:
    worker = "POST /api/v1/namespaces/ray/pods/worker-4/eviction"
    running.kubernetes[worker] = [(429, {"kind": "Status", "message": "budget"}), (201, {})]
    running.kubernetes[ALL_PODS][2:2] = [running.kubernetes[ALL_PODS][1]]
    result = run("scale", WORKERS, "2", "--yes")
    assert result.exit_code == 0, result.output
    assert "ray/worker-4 is protected by a PodDisruptionBudget" in result.stdout
    assert [what for what, _ in running.changes].count(worker) == 2


def test_a_node_that_is_not_empty_in_time_is_not_deleted(running: Apis) -> None:
    running.kubernetes[ALL_PODS] = running.kubernetes[ALL_PODS][:2]
    result = run("scale", WORKERS, "2", "--yes", "--timeout", "0s")
    assert result.exit_code == 1
    assert f"hyperpod-i-{4:017} still runs ray/worker-4" in result.stderr
    assert "BatchDeleteClusterNodes" not in dict(running.changes)


def test_a_node_that_hyperpod_does_not_delete_is_named_with_its_reason(running: Apis) -> None:
    failed = {"NodeId": "i-3", "Code": "InvalidNodeStatus", "Message": "The node is SystemUpdating"}
    running.aws["BatchDeleteClusterNodes"] = {"Failed": [failed]}
    result = run("scale", WORKERS, "2", "--yes")
    assert result.exit_code == 1
    assert "HyperPod refuses to delete i-3: InvalidNodeStatus: The node is SystemUpdating" in result.stderr


def test_only_the_file_must_change_when_hyperpod_already_has_the_count(running: Apis) -> None:
    running.aws["DescribeCluster"] = running.aws["DescribeCluster"][1]
    running.aws["ListClusterNodes"] = {"ClusterNodeSummaries": [instance(1), instance(2)]}
    running.kubernetes[ALL_PODS] = {"items": [ray_pod("worker-1", 1), ray_pod("worker-2", 2)]}
    result = run("scale", WORKERS, "2")
    assert result.exit_code == 0, result.output
    assert running.changes == []
    assert "`count: 4` becomes `count: 2`" in result.stdout


def test_many_nodes_are_deleted_in_slices_that_the_api_takes(running: Apis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "NODES_PER_CALL", 1)
    run("scale", WORKERS, "2", "--yes")
    assert [what for what, _ in running.changes].count("BatchDeleteClusterNodes") == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((WORKERS, "5"), "worker-group-1 has 4 nodes, fewer than 5. Fix: to add nodes, raise `count` in"),
        (("nobody", "1"), "dev has no instance group nobody. Allowed: head-group, worker-group-1"),
    ],
)
def test_requests_that_scale_cannot_fulfil_are_refused_with_advice(
    running: Apis, arguments: tuple[str, str], told: str
) -> None:
    result = run("scale", *arguments)
    assert result.exit_code == 1
    assert told in result.stderr


def test_nodes_without_which_a_head_could_run_nowhere_stay(running: Apis) -> None:
    running.kubernetes[ALL_PODS] = {"items": [ray_pod("rayml-head", 0, "head")]}
    result = run("scale", HEAD, "0", "--yes", "--force")
    assert result.exit_code == 1
    assert "head-group runs rayml-head, and these heads could run nowhere else" in result.stderr


@pytest.mark.parametrize("command", [("scale", WORKERS, "2"), ("update-software",)])
def test_nothing_starts_while_nodes_are_in_deep_health_checks(running: Apis, command: tuple[str, ...]) -> None:
    checked = instance(1, status="DeepHealthCheckInProgress")
    running.aws["ListClusterNodes"] = {"ClusterNodeSummaries": [checked]}
    result = run(*command, "--yes", "--force")
    assert result.exit_code == 1
    assert "1 nodes are in deep health checks (worker-group-1)" in result.stderr
    assert running.changes == []


@pytest.mark.parametrize("command", [("scale", WORKERS, "2"), ("update-software",)])
def test_a_cluster_that_is_being_changed_is_left_alone(running: Apis, command: tuple[str, ...]) -> None:
    running.aws["DescribeCluster"] = running.aws["DescribeCluster"][0] | {"ClusterStatus": "Updating"}
    result = run(*command, "--yes", "--force")
    assert result.exit_code == 1
    assert "HyperPod cluster ml-cluster is Updating. Allowed: InService. Fix: `ops wait`" in result.stderr


def test_a_group_that_sleeps_is_not_scaled_by_hand(running: Apis, clients: Clients) -> None:
    dev = config.load("dev")
    groups = [each.model_copy(update={"sleep": Sleep()}) for each in dev.hyperpod.instance_groups]
    hyperpod = dev.hyperpod.model_copy(update={"instance_groups": tuple(groups)})
    with pytest.raises(RefusedError, match="the sleeper sets its nodes"):
        scaling.plan_scale(dev.model_copy(update={"hyperpod": hyperpod}), clients, WORKERS, 2)


def test_fewer_than_min_count_are_refused(running: Apis, clients: Clients) -> None:
    dev = config.load("dev")
    groups = [each.model_copy(update={"min_count": 3}) for each in dev.hyperpod.instance_groups]
    hyperpod = dev.hyperpod.model_copy(update={"instance_groups": tuple(groups)})
    with pytest.raises(RefusedError, match="min_count 3"):
        scaling.plan_scale(dev.model_copy(update={"hyperpod": hyperpod}), clients, WORKERS, 2)


def test_a_software_update_starts_for_the_named_groups(running: Apis) -> None:
    running.aws["UpdateClusterSoftware"] = {"ClusterArn": "arn"}
    result = run("update-software", "--group", HEAD, "--yes", "--force")
    assert result.exit_code == 0, result.output
    groups = [{"InstanceGroupName": HEAD}]
    assert running.changes == [("UpdateClusterSoftware", {"ClusterName": "ml-cluster", "InstanceGroups": groups})]
    assert "1 nodes of head-group in ml-cluster" in result.stdout
    assert "`ops wait --env dev` shows its progress" in result.stdout


def test_a_software_update_is_refused_while_a_ray_job_runs_on_its_nodes(running: Apis) -> None:
    job = {"metadata": {"name": "train"}, "status": {"rayClusterName": "rayml", "jobStatus": "RUNNING"}}
    running.kubernetes[RAY_JOBS] = {"items": [job]}
    result = run("update-software", "--yes")
    assert result.exit_code == 1
    assert "RayJob train" in result.stderr
    assert running.changes == []


def test_a_software_update_of_an_unknown_group_names_the_existing_ones(running: Apis) -> None:
    result = run("update-software", "--group", "nobody", "--yes")
    assert result.exit_code == 1
    assert "no instance group nobody. Allowed: head-group, worker-group-1" in result.stderr


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "dev.yaml"
    path.write_text(
        "hyperpod:\n  instance_groups:\n    - name: w\n      count: 4   # paid for\n      min_count: 3\n"
        "ray:\n  clusters:\n    - name: r\n      workers:\n        - {name: g, replicas: 4, min_replicas: 1}\n"
    )
    return path


def test_only_lines_that_are_too_high_are_advised(file: Path) -> None:
    lines = lower_counts(file, "w", 2, {("r", "g"): 2})
    assert [(line.number, line.key, line.before, line.after) for line in lines] == [
        (4, "count", 4, 2),
        (5, "min_count", 3, 2),
        (10, "replicas", 4, 2),
    ]
