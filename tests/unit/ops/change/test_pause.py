"""`ops pause` and `ops resume`: their refusals, and their actions in order."""

from typing import Any

import pytest
from typer.testing import CliRunner, Result

from config.labels import INSTANCE_GROUP_LABEL, PAUSED
from ops.commands.whole import app
from tests.unit.support.fake_apis import Apis
from tests.unit.support.running_environment import HEAD, NODES, PODS, RAY_CLUSTER, WORKERS, condition

RAY_CLUSTERS = "/apis/ray.io/v1/rayclusters"
RAY_JOBS = "/apis/ray.io/v1/namespaces/ray/rayjobs"
ALL_PODS = "/api/v1/pods"
PATCH = f"PATCH {RAY_CLUSTER}"
NODE = "PATCH /api/v1/nodes/hyperpod-i-1"
ROLE = "arn:aws:iam::111122223333:role/nodes"
SCRIPTS = {"SourceS3Uri": "s3://scripts/", "OnCreate": "on_create.sh"}


def run(*arguments: str, **how: Any) -> Result:
    return CliRunner(env={"OPS_ENV": "dev"}).invoke(app, list(arguments), **how)


def group(name: str, count: int, **more: Any) -> dict[str, Any]:
    """Return an instance group of DescribeCluster, with answers that no request takes."""
    return {
        "InstanceGroupName": name,
        "InstanceType": "ml.p5.48xlarge",
        "CurrentCount": count,
        "TargetCount": count,
        "Status": "InService",
        "CurrentImageId": "ami-0123456789abcdef0",
        "DesiredImageId": "ami-0123456789abcdef0",
        "ExecutionRole": ROLE,
        "LifeCycleConfig": SCRIPTS,
        "ThreadsPerCore": 2,
        **more,
    }


def kubernetes_node(annotations: dict[str, str] | None = None) -> dict[str, Any]:
    labels = {INSTANCE_GROUP_LABEL: WORKERS}
    metadata = {"name": "hyperpod-i-1", "labels": labels, "annotations": annotations or {}}
    return {"metadata": metadata, "status": {"conditions": [condition("Ready")]}}


def ray_cluster(state: str = "ready", *, paused: bool = False) -> dict[str, Any]:
    metadata = {"name": "rayml", "namespace": "ray", "annotations": {PAUSED: "true"} if paused else {}}
    return {"metadata": metadata, "spec": {"suspend": True} if paused else {}, "status": {"state": state}}


def cluster(apis: Apis, *groups: dict[str, Any]) -> dict[str, Any]:
    return {**apis.aws["DescribeCluster"], "InstanceGroups": list(groups)}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


@pytest.fixture
def running(apis: Apis) -> Apis:
    """Serve a `dev` that runs, whose pods and nodes end when they are told to."""
    labels = {"Labels": {"team": "one"}}
    details = {f"{when}Labels": labels["Labels"] for when in ("Current", "Desired")}
    apis.aws["DescribeCluster"] = cluster(
        apis, group(HEAD, 1), group(WORKERS, 4, MinCount=2, KubernetesConfig=details), group("by-hand", 3)
    )
    apis.aws["ListClusterNodes"] = [apis.aws["ListClusterNodes"], {"ClusterNodeSummaries": []}]
    apis.aws["UpdateCluster"] = {"ClusterArn": apis.aws["DescribeCluster"]["ClusterArn"]}
    apis.kubernetes[RAY_CLUSTERS] = {"items": [ray_cluster()]}
    apis.kubernetes[RAY_CLUSTER] = [ray_cluster(), ray_cluster("suspended", paused=True)]
    apis.kubernetes[RAY_JOBS] = {"items": []}
    apis.kubernetes[NODES] = {"items": [kubernetes_node()]}
    apis.kubernetes[ALL_PODS] = {"items": []}
    return apis


@pytest.fixture
def paused(running: Apis) -> Apis:
    """Serve a `dev` that is paused, with a node that an interrupted pause cordoned."""
    running.aws["DescribeCluster"] = cluster(running, group(HEAD, 0), group(WORKERS, 0))
    running.aws["ListClusterNodes"] = {"ClusterNodeSummaries": []}
    running.kubernetes[RAY_CLUSTERS] = {"items": [ray_cluster("suspended", paused=True)]}
    running.kubernetes[RAY_CLUSTER] = ray_cluster("suspended", paused=True)
    running.kubernetes[NODES] = {"items": [kubernetes_node({PAUSED: "true"})]}
    return running


def test_ray_clusters_are_suspended_then_nodes_drained_then_all_counts_lowered_at_once(running: Apis) -> None:
    result = run("pause", "--env", "dev", "--yes")
    assert result.exit_code == 0, result.output
    assert [what for what, _ in running.changes] == [PATCH, NODE, "UpdateCluster"]
    assert running.changes[0][1] == {"metadata": {"annotations": {PAUSED: "true"}}, "spec": {"suspend": True}}
    assert running.changes[1][1]["spec"] == {"unschedulable": True}


def test_each_group_is_sent_in_full_and_one_outside_the_file_keeps_its_count(running: Apis) -> None:
    assert run("pause", "--yes").exit_code == 0
    same = {"InstanceType": "ml.p5.48xlarge", "ExecutionRole": ROLE, "LifeCycleConfig": SCRIPTS, "ThreadsPerCore": 2}
    assert dict(running.changes)["UpdateCluster"]["InstanceGroups"] == [
        {**same, "InstanceGroupName": HEAD, "InstanceCount": 0, "MinInstanceCount": 0},
        {
            **same,
            "InstanceGroupName": WORKERS,
            "InstanceCount": 0,
            "MinInstanceCount": 0,
            "KubernetesConfig": {"Labels": {"team": "one"}},
        },
        {**same, "InstanceGroupName": "by-hand", "InstanceCount": 3, "MinInstanceCount": 0},
    ]


def test_counts_that_changed_during_the_drain_are_kept(running: Apis) -> None:
    """A drain can take hours; meanwhile somebody raises one group by hand, adds another and removes a third."""
    before, gone = cluster(running, group(WORKERS, 4), group("by-hand", 3), group("third", 1)), group("third", 1)
    after = cluster(running, group(WORKERS, 5), group("by-hand", 7), group("new", 2), gone | {"Status": "Deleting"})
    running.aws["DescribeCluster"] = [before, after]
    result = run("pause", "--yes")
    assert result.exit_code == 0, result.output
    sent = dict(running.changes)["UpdateCluster"]["InstanceGroups"]
    assert {each["InstanceGroupName"]: each["InstanceCount"] for each in sent} == {WORKERS: 0, "by-hand": 7, "new": 2}


def test_cluster_that_is_changed_during_the_drain_is_left_alone(running: Apis) -> None:
    before = running.aws["DescribeCluster"]
    running.aws["DescribeCluster"] = [before, before | {"ClusterStatus": "Updating"}]
    result = run("pause", "--yes")
    assert result.exit_code == 1
    assert "HyperPod cluster ml-cluster is Updating. Allowed: InService. Fix: `ops wait`" in result.stderr
    assert "UpdateCluster" not in dict(running.changes)


def test_resume_lowers_no_group_that_was_raised_while_it_asked(paused: Apis) -> None:
    before = cluster(paused, group(HEAD, 0), group(WORKERS, 0))
    paused.aws["DescribeCluster"] = [before, cluster(paused, group(HEAD, 0), group(WORKERS, 6))]
    assert run("resume", "--yes", "--no-wait").exit_code == 0
    sent = dict(paused.changes)["UpdateCluster"]["InstanceGroups"]
    assert {each["InstanceGroupName"]: each["InstanceCount"] for each in sent} == {HEAD: 1, WORKERS: 6}


def test_what_still_costs_is_printed_with_hours_months_and_what_has_no_price(running: Apis) -> None:
    printed = run("pause", "--dry-run").stdout
    assert "EKS control plane: 0.10" in printed
    assert "system nodes: 2 x m5.xlarge: 0.38" in printed
    assert "together: 0.87 per hour, 638 per month" in printed
    assert "not priced: volumes of nodes" in printed
    assert "p5.48xlarge" not in printed


def test_a_dry_run_shows_the_steps_and_changes_nothing(running: Apis) -> None:
    result = run("pause", "--dry-run")
    assert result.exit_code == 0, result.output
    for line in (
        "RayCluster ray/rayml: suspend; its pods end",
        "instance group worker-group-1: from 4 to 0 nodes",
        "instance group by-hand is not in the environment's file, and stays as it is",
        "dry run: nothing was changed",
    ):
        assert line in result.stdout
    assert running.changes == []


def test_a_running_job_is_named_and_nothing_is_changed(running: Apis) -> None:
    job = {"metadata": {"name": "train"}, "status": {"rayClusterName": "rayml", "jobStatus": "RUNNING"}}
    running.kubernetes[RAY_JOBS] = {"items": [job]}
    result = run("pause", "--yes")
    assert result.exit_code == 1
    assert "RayCluster ray/rayml has unfinished jobs: RayJob train" in result.stderr
    assert running.changes == []
    assert run("pause", "--yes", "--force").exit_code == 0


def test_nodes_in_deep_health_checks_are_a_reason_to_refuse(running: Apis) -> None:
    running.aws["ListClusterNodes"] = {
        "ClusterNodeSummaries": [
            {**node, "InstanceStatus": {"Status": "DeepHealthCheckInProgress"}}
            for node in running.aws["ListClusterNodes"][0]["ClusterNodeSummaries"]
        ]
    }
    result = run("pause", "--yes")
    assert result.exit_code == 1
    assert "are in deep health checks" in result.stderr
    assert running.changes == []


def test_a_node_that_is_not_empty_in_time_keeps_every_count(running: Apis) -> None:
    running.kubernetes[ALL_PODS] = {
        "items": [{"metadata": {"name": "other", "namespace": "team"}, "spec": {"containers": []}, "status": {}}]
    }
    result = run("pause", "--yes", "--timeout", "0s")
    assert result.exit_code == 1
    assert "hyperpod-i-1 still runs team/other" in result.stderr
    assert "UpdateCluster" not in dict(running.changes)


def test_a_second_pause_has_nothing_to_do(paused: Apis) -> None:
    result = run("pause", "--yes")
    assert result.exit_code == 0, result.output
    assert "dev is paused already" in result.stdout
    assert paused.changes == []


def test_an_interrupted_pause_is_resumed_where_it_ended(paused: Apis) -> None:
    paused.aws["DescribeCluster"] = cluster(paused, group(HEAD, 0), group(WORKERS, 4))
    assert run("pause", "--yes").exit_code == 0
    assert [what for what, _ in paused.changes] == [NODE, "UpdateCluster"]


def test_resume_sets_the_counts_of_the_file_and_reverts_what_the_pause_did(paused: Apis) -> None:
    result = run("resume", "--env", "dev", "--yes", "--no-wait")
    assert result.exit_code == 0, result.output
    assert [what for what, _ in paused.changes] == ["UpdateCluster", NODE, PATCH]
    counts = {
        each["InstanceGroupName"]: each["InstanceCount"]
        for each in dict(paused.changes)["UpdateCluster"]["InstanceGroups"]
    }
    assert counts == {HEAD: 1, WORKERS: 4}
    assert dict(paused.changes)[NODE] == {
        "metadata": {"annotations": {PAUSED: None}},
        "spec": {"unschedulable": None},
    }
    assert dict(paused.changes)[PATCH] == {"metadata": {"annotations": {PAUSED: None}}, "spec": {"suspend": False}}
    assert "`ops wait --env dev`" in result.stdout


def test_resume_waits_as_ops_wait_does(paused: Apis) -> None:
    # The API server answers with the change, so that the wait does not take the environment for paused.
    paused.kubernetes[RAY_CLUSTER] = [paused.kubernetes[RAY_CLUSTER], ray_cluster("suspended")]
    result = run("resume", "--yes", "--timeout", "0s")
    assert result.exit_code == 1, result.output
    assert "dev is not ready after 0s" in result.stderr


def test_resume_lowers_no_count_and_leaves_a_suspended_ray_cluster_of_a_rollout_alone(running: Apis) -> None:
    running.aws["DescribeCluster"] = cluster(running, group(HEAD, 1), group(WORKERS, 9))
    running.kubernetes[RAY_CLUSTER] = ray_cluster("suspended") | {"spec": {"suspend": True}}
    result = run("resume", "--yes", "--no-wait")
    assert result.exit_code == 0, result.output
    assert "dev is not paused" in result.stdout
    assert running.changes == []


def test_a_rollout_of_a_paused_ray_cluster_is_refused_with_the_fix(paused: Apis) -> None:
    paused.kubernetes[PODS] = {"items": []}
    result = run("rollout", "--yes")
    assert result.exit_code == 1
    assert "RayCluster ray/rayml is paused, and new pods would find no node. Fix: `ops resume`" in result.stderr
    assert paused.changes == []


def test_status_names_the_command_that_ends_a_pause(paused: Apis) -> None:
    paused.kubernetes[PODS] = {"items": []}
    assert "paused, 0 of 4 workers `ops resume --env dev` resumes it" in " ".join(run("status").stdout.split())
