"""`ops rollout`, and the outdated pods in `ops status`, which KubeRay does not replace."""

from typing import Any

import pytest
from typer.testing import CliRunner, Result

import config
from config.labels import TEMPLATE_LABEL
from ops.change import rollout as rollouts
from ops.clients import Clients
from ops.commands.whole import app
from ops.max_unavailable import max_unavailable
from ops.readiness.item import ReadinessItem, ReadinessState, Require
from ops.readiness.observe import observe
from tests.unit.support.fake_apis import Apis
from tests.unit.support.running_environment import JOBS, PODS, RAY_CLUSTER, condition, job

RAY_JOBS = "/apis/ray.io/v1/namespaces/ray/rayjobs"
PATCH = f"PATCH {RAY_CLUSTER}"
SUSPEND, RESUME = (PATCH, {"spec": {"suspend": True}}), (PATCH, {"spec": {"suspend": False}})


def run(*arguments: str, **how: Any) -> Result:
    return CliRunner(env={"OPS_ENV": "dev"}).invoke(app, ["rollout", *arguments], **how)


def template(hash: str) -> dict[str, Any]:
    return {"metadata": {"labels": {TEMPLATE_LABEL: hash}}, "spec": {}}


def ray_cluster(state: str = "ready", *, suspend: bool | None = None, available: int = 4) -> dict[str, Any]:
    """Return `rayml`, whose templates are `head2` and `worker2`."""
    bounds = {"replicas": 4, "minReplicas": 1, "maxReplicas": 10}
    spec: dict[str, Any] = {
        "headGroupSpec": {"template": template("head2")},
        "workerGroupSpecs": [{"groupName": "gpu-group", "template": template("worker2"), **bounds}],
    }
    if suspend is not None:
        spec["suspend"] = suspend
    return {"spec": spec, "status": {"state": state, "availableWorkerReplicas": available}}


def pod(name: str, hash: str | None, group: str = "gpu-group", *, ready: bool = True, **more: Any) -> dict[str, Any]:
    kind = "head" if group == "headgroup" else "worker"
    labels = {"ray.io/cluster": "rayml", "ray.io/group": group, "ray.io/node-type": kind}
    metadata = {"name": name, "namespace": "ray", "labels": labels | ({TEMPLATE_LABEL: hash} if hash else {}), **more}
    return {"metadata": metadata, "status": {"phase": "Running", "conditions": [condition("Ready", str(ready))]}}


def pods(worker: str | None, head: str | None = "head2", **how: Any) -> list[dict[str, Any]]:
    """Return the pods of `rayml`, made from these templates."""
    return [pod("head", head, "headgroup", **how), *(pod(f"worker-{n}", worker, **how) for n in range(4))]


NEW = pods("worker2")
OLD = pods("worker1", "head1")
ORPHANS = [pod(f"orphan-{n}", "other1", "removed-group") for n in range(2)]
# The heads, which `ops` lists to ask for running jobs. The fake ignores the selector.
NO_HEAD: list[dict[str, Any]] = []
ENDING = [pod("worker-0", "worker1", deletionTimestamp="2026-11-01T10:00:00Z")]


def listed(*looks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"items": look} for look in looks]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


@pytest.fixture
def changed(apis: Apis) -> Apis:
    """Serve `dev` after a deployment that changed every template: all pods are outdated, and KubeRay removes them."""
    suspended = ray_cluster("suspended", suspend=True)
    apis.kubernetes[RAY_JOBS] = {"items": []}
    apis.kubernetes[RAY_CLUSTER] = [ray_cluster(), ray_cluster(suspend=True), suspended, ray_cluster("suspended")]
    # In order: the plan, the heads, pods ending, two empty lists, new pods, ready pods.
    unready = pods("worker2", ready=False)
    apis.kubernetes[PODS] = listed(OLD, NO_HEAD, ENDING, [], [], unready[:1], unready, NEW)
    return apis


def test_every_pod_is_replaced_by_suspending_and_resuming(changed: Apis) -> None:
    result = run("rayml", "--env", "dev", "--yes")
    assert result.exit_code == 0, result.output
    assert changed.changes == [SUSPEND, RESUME]
    assert [line.strip() for line in result.stdout.splitlines()] == [
        "RayCluster ray/rayml: 5 pods with an old template",
        "RayCluster ray/rayml: suspend until its 5 pods are gone, then resume; its jobs end",
        "RayCluster ray/rayml: suspended",
        "1 pod still terminating",
        "KubeRay's operator has not yet noticed that all pods are gone",
        "RayCluster ray/rayml: resumed",
        "0 of 5 pods are ready",
        "RayCluster ray/rayml: every pod is ready and has the current template",
    ]


def test_without_a_name_every_ray_cluster_of_the_environment_is_checked(changed: Apis) -> None:
    assert run("--yes").exit_code == 0
    assert changed.changes == [SUSPEND, RESUME]


def test_pods_from_before_the_labels_are_outdated(apis: Apis, clients: Clients) -> None:
    apis.kubernetes |= {RAY_CLUSTER: ray_cluster(), PODS: {"items": pods(None, None)}}
    [made] = rollouts.plan_rollout(config.load("dev"), clients.kubernetes, "rayml")
    assert len(made.outdated.old) == 5


def test_pods_of_a_ray_cluster_without_labels_are_left_alone(apis: Apis) -> None:
    unlabelled = {"headGroupSpec": {"template": {}}, "workerGroupSpecs": [{"groupName": "gpu-group", "template": {}}]}
    apis.kubernetes |= {RAY_CLUSTER: {"spec": unlabelled}, PODS: {"items": NEW}}
    assert run("--yes").exit_code == 0
    assert apis.changes == []


def test_a_second_rollout_has_nothing_to_do(apis: Apis) -> None:
    apis.kubernetes |= {RAY_CLUSTER: ray_cluster(), PODS: {"items": NEW}}
    result = run("rayml", "--yes")
    assert result.exit_code == 0, result.output
    assert "no pod has an old template or a removed group" in result.stdout
    assert apis.changes == []


def test_a_dry_run_shows_everything_and_changes_nothing(changed: Apis) -> None:
    result = run("rayml", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "suspend until its 5 pods are gone, then resume" in result.stdout
    assert "dry run: nothing was changed" in result.stdout
    assert changed.changes == []


def test_without_confirmation_nothing_is_changed(changed: Apis, terminal: None) -> None:
    assert run("rayml", input="n\n").exit_code == 1
    assert changed.changes == []


def test_an_unknown_ray_cluster_is_refused_with_the_existing_ones(changed: Apis) -> None:
    result = run("nobody", "--yes")
    assert result.exit_code == 1
    assert "dev has no RayCluster nobody. Allowed: rayml" in result.stderr


def test_a_ray_cluster_that_is_not_deployed_is_refused_with_advice(apis: Apis) -> None:
    del apis.kubernetes[RAY_CLUSTER]
    result = run("rayml")
    assert result.exit_code == 1
    assert "RayCluster ray/rayml does not exist. Fix: deploy the ray stack" in result.stderr


def test_a_running_job_is_named_and_nothing_is_changed(changed: Apis) -> None:
    job = {"metadata": {"name": "train"}, "status": {"rayClusterName": "rayml", "jobStatus": "RUNNING"}}
    changed.kubernetes[RAY_JOBS] = {"items": [job]}
    result = run("rayml", "--yes")
    assert result.exit_code == 1
    assert "RayCluster ray/rayml has unfinished jobs: RayJob train" in result.stderr
    assert changed.changes == []


def test_a_head_that_does_not_list_its_jobs_is_a_reason_to_refuse(changed: Apis) -> None:
    changed.kubernetes[PODS] = listed([pod("head", "head1", "headgroup")])
    result = run("rayml", "--yes")
    assert result.exit_code == 1
    assert "the head ray/head does not say which jobs run" in result.stderr
    assert changed.changes == []


def test_running_pods_are_kept_until_the_new_image_is_built(changed: Apis) -> None:
    changed.kubernetes[JOBS] = {"items": [job(active=1)]}
    result = run("rayml", "--yes")
    assert result.exit_code == 1
    assert "the Ray image aws-ray-custom is missing (building): new pods could not start" in result.stderr
    assert changed.changes == []


def test_a_suspended_ray_cluster_is_resumed_even_without_its_image(changed: Apis) -> None:
    changed.kubernetes[JOBS] = {"items": [job(active=1)]}
    suspended = ray_cluster("suspended", suspend=True)
    changed.kubernetes[RAY_CLUSTER] = [suspended, suspended, ray_cluster("suspended")]
    changed.kubernetes[PODS] = listed([], NO_HEAD, [], NEW)
    assert run("rayml", "--yes").exit_code == 0
    assert changed.changes[-1] == RESUME


def test_resuming_is_retried_while_the_api_server_is_away(changed: Apis) -> None:
    accepted, away = (200, {"metadata": {"name": "rayml"}}), (503, {"kind": "Status", "message": "etcd leader changed"})
    changed.kubernetes[PATCH] = [accepted, away, accepted]
    changed.kubernetes[RAY_CLUSTER].insert(2, changed.kubernetes[RAY_CLUSTER][2])
    changed.kubernetes[PODS].insert(4, {"items": []})
    result = run("rayml", "--yes")
    assert result.exit_code == 0, result.output
    assert changed.changes == [SUSPEND, RESUME, RESUME]


def test_force_continues_whatever_runs(changed: Apis) -> None:
    job = {"metadata": {"name": "train"}, "status": {"rayClusterName": "rayml", "jobStatus": "RUNNING"}}
    changed.kubernetes[RAY_JOBS] = {"items": [job]}
    del changed.kubernetes[PODS][1]
    assert run("rayml", "--yes", "--force").exit_code == 0
    assert changed.changes == [SUSPEND, RESUME]


def test_what_an_interrupted_run_left_suspended_is_resumed(changed: Apis) -> None:
    changed.kubernetes[RAY_CLUSTER] = changed.kubernetes[RAY_CLUSTER][2:]
    changed.kubernetes[PODS] = listed([], NO_HEAD, [], NEW)
    changed.kubernetes[RAY_CLUSTER].insert(0, changed.kubernetes[RAY_CLUSTER][0])
    result = run("rayml", "--yes")
    assert result.exit_code == 0, result.output
    assert "is suspended and will be resumed" in result.stdout
    assert changed.changes[-1] == RESUME


def test_an_interruption_warns_of_a_suspended_cluster_and_says_how_to_resume(
    changed: Apis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    result = run("rayml", "--yes")
    assert result.exit_code == 130
    assert "RayCluster ray/rayml may still be suspended" in result.stdout
    assert "interrupted; rerun `ops rollout rayml --env dev` to resume" in result.stderr
    assert changed.changes == [SUSPEND]


def test_pods_that_do_not_end_in_time_are_counted_and_it_is_not_resumed(changed: Apis) -> None:
    changed.kubernetes[PODS] = listed(OLD, NO_HEAD, ENDING)
    result = run("rayml", "--yes", "--timeout", "0s")
    assert result.exit_code == 1
    assert "RayCluster ray/rayml is not suspended yet. Fix: check that KubeRay's operator runs" in result.stderr
    assert "Last seen: 1 pod still terminating" in result.stderr
    assert changed.changes == [SUSPEND]


def test_pods_that_are_not_ready_in_time_are_counted(changed: Apis) -> None:
    changed.kubernetes[PODS] = listed(OLD, NO_HEAD, [], pods("worker2", ready=False))
    changed.kubernetes[RAY_CLUSTER] = [ray_cluster(), ray_cluster("suspended", suspend=True), ray_cluster("suspended")]
    result = run("rayml", "--yes", "--timeout", "0s")
    assert result.exit_code == 1
    assert (
        "is not ready yet; it continues without this command. Fix: `ops wait`. Last seen: 0 of 5 pods are ready"
        in result.stderr
    )
    assert changed.changes == [SUSPEND, RESUME]


def test_an_api_server_that_does_not_answer_for_a_while_is_asked_again(changed: Apis) -> None:
    gone = 503, {"kind": "Status", "message": "etcd leader changed"}
    changed.kubernetes[PODS][2:2] = [gone]
    result = run("rayml", "--yes")
    assert result.exit_code == 0, result.output
    assert "no answer, retrying" in result.stdout
    assert changed.changes == [SUSPEND, RESUME]


def test_without_outdated_pods_only_orphans_are_deleted_and_nothing_is_suspended(apis: Apis) -> None:
    apis.kubernetes |= {RAY_JOBS: {"items": []}, RAY_CLUSTER: ray_cluster(available=6)}
    apis.kubernetes[PODS] = listed([*NEW, *ORPHANS], NO_HEAD, [*NEW, ORPHANS[0]], NEW)
    result = run("rayml", "--yes")
    assert result.exit_code == 0, result.output
    assert [what for what, _ in apis.changes] == [f"DELETE {PODS}/orphan-{n}" for n in range(2)]
    assert "1 pod of a removed group still terminating" in result.stdout


def test_an_orphan_that_is_gone_already_is_no_error(apis: Apis) -> None:
    apis.kubernetes |= {RAY_JOBS: {"items": []}, RAY_CLUSTER: ray_cluster(available=6)}
    apis.kubernetes[f"DELETE {PODS}/orphan-0"] = (404, {"kind": "Status", "message": "not found"})
    apis.kubernetes[PODS] = listed([*NEW, *ORPHANS], NO_HEAD, NEW)
    assert run("rayml", "--yes").exit_code == 0


def test_replicas_outside_the_bounds_are_counted_as_kuberay_counts_them(changed: Apis) -> None:
    for cluster in changed.kubernetes[RAY_CLUSTER]:
        cluster["spec"]["workerGroupSpecs"][0] |= {"replicas": 0, "minReplicas": 4}
    assert run("rayml", "--yes").exit_code == 0


def rayml(clients: Clients, require: Require = Require.ALL) -> ReadinessItem:
    return next(item for item in observe(config.load("dev"), clients, require) if item.kind == "RayCluster")


def test_status_counts_outdated_pods_and_names_the_command_that_replaces_them(apis: Apis, clients: Clients) -> None:
    apis.kubernetes |= {RAY_CLUSTER: ray_cluster(), PODS: {"items": pods("worker1")}}
    item = rayml(clients)
    assert item.state is ReadinessState.READY, "the cluster works: `ops wait` must not wait for a rollout"
    told = "ready, 4 of 4 workers; 4 pods with an old template: `ops rollout rayml --env dev`"
    assert item.detail == told


def test_status_counts_no_orphan_as_a_worker_and_names_its_group(apis: Apis, clients: Clients) -> None:
    apis.kubernetes |= {RAY_CLUSTER: ray_cluster(available=6), PODS: {"items": [*NEW, *ORPHANS]}}
    item = rayml(clients)
    assert item.state is ReadinessState.READY
    assert item.detail == (
        "ready, 4 of 4 workers; 2 pods of a removed group (removed-group): `ops rollout rayml --env dev`"
    )


@pytest.mark.parametrize("require", [Require.ALL, Require.MIN])
def test_a_suspended_ray_cluster_is_never_ready_and_status_says_how_to_resume_it(
    apis: Apis, clients: Clients, require: Require
) -> None:
    # KubeRay's `ready` stays until the pods are gone.
    apis.kubernetes |= {RAY_CLUSTER: ray_cluster("ready", suspend=True), PODS: {"items": NEW}}
    item = rayml(clients, require)
    assert item.state is ReadinessState.WAITING
    assert item.detail == "suspended, 4 of 4 workers; `ops rollout rayml --env dev` resumes it"


def test_a_resumed_ray_cluster_is_starting_until_its_pods_are_ready(apis: Apis, clients: Clients) -> None:
    apis.kubernetes |= {RAY_CLUSTER: ray_cluster("suspended", available=1), PODS: {"items": []}}
    assert rayml(clients).detail == "starting, 1 of 4 workers"


def test_terminating_pods_are_neither_outdated_nor_orphans(apis: Apis, clients: Clients) -> None:
    apis.kubernetes |= {RAY_CLUSTER: ray_cluster(), PODS: {"items": [*NEW, *ENDING]}}
    assert rayml(clients).detail == "ready, 4 of 4 workers; KubeRay replaces 1 pod"


@pytest.fixture
def batched(apis: Apis) -> Apis:
    """Serve `dev` after a deployment, whose pods are replaced as soon as they are deleted."""
    apis.kubernetes[RAY_JOBS] = {"items": []}
    apis.kubernetes[RAY_CLUSTER] = ray_cluster()
    half = [pod("head", "head1", "headgroup"), *(pod(f"new-{n}", "worker2") for n in range(2)), *OLD[3:]]
    workers = [pod("head", "head1", "headgroup"), *pods("worker2")[1:]]
    # The plan, jobs, the head; then for each batch: what is unfinished, what is old; then the head, and all.
    apis.kubernetes[PODS] = listed(OLD, NO_HEAD, OLD, OLD, OLD, half, half, workers, workers, workers, NEW)
    return apis


def deleted(apis: Apis) -> list[str]:
    return [what.rpartition("/")[2] for what, _ in apis.changes if what.startswith("DELETE")]


def test_batches_take_the_workers_first_and_the_head_last(batched: Apis) -> None:
    result = run("rayml", "--yes", "--max-unavailable", "50%")
    assert result.exit_code == 0, result.output
    assert deleted(batched) == ["worker-0", "worker-1", "worker-2", "worker-3", "head"]
    assert "delete 4 pods of gpu-group, at most 2 at once; wait for new ones" in result.stdout
    assert "delete the head last; its jobs end" in result.stdout
    assert [what for what, _ in batched.changes if what == PATCH] == []


def test_a_batch_that_is_not_ready_stops_all_others(batched: Apis) -> None:
    unready = [pod("head", "head1", "headgroup"), pod("new", "worker2", ready=False), *OLD[2:]]
    batched.kubernetes[PODS] = listed(OLD, NO_HEAD, OLD, OLD, OLD, unready)
    result = run("rayml", "--yes", "--max-unavailable", "1", "--timeout", "0s")
    assert result.exit_code == 1
    assert deleted(batched) == ["worker-0"]
    assert "gpu-group is not ready, so no other pod is replaced" in result.stderr
    assert "Last seen: gpu-group: 3 of 4 workers are in place" in result.stderr


def test_old_workers_that_are_not_ready_delay_nothing_and_go_first(batched: Apis) -> None:
    broken = [*OLD[:4], pod("worker-3", "worker1", ready=False)]
    batched.kubernetes[PODS] = listed(broken, NO_HEAD, broken, broken, broken, [*OLD[:4], *ENDING])
    result = run("rayml", "--yes", "--max-unavailable", "1", "--timeout", "0s")
    assert deleted(batched) == ["worker-3"]
    assert "Last seen: gpu-group: 1 pod still terminating" in result.stderr


def test_batches_without_a_ready_head_are_refused(batched: Apis) -> None:
    batched.kubernetes[PODS] = listed(OLD, NO_HEAD, pods("worker1", "head1", ready=False))
    result = run("rayml", "--yes", "--max-unavailable", "1")
    assert result.exit_code == 1
    assert "has no ready head, and new workers could not join" in result.stderr
    assert batched.changes == []


def test_batches_are_refused_if_new_workers_have_another_image_than_the_running_head(batched: Apis) -> None:
    running = [{**each, "spec": {"containers": [{"name": "ray", "image": "ray:1"}]}} for each in OLD]
    changing = ray_cluster()
    changing["spec"]["workerGroupSpecs"][0]["template"]["spec"] = {"containers": [{"name": "ray", "image": "ray:2"}]}
    batched.kubernetes |= {RAY_CLUSTER: changing, PODS: listed(running, NO_HEAD)}
    result = run("rayml", "--yes", "--max-unavailable", "1")
    assert result.exit_code == 1
    assert "its new workers have another image than the running head" in result.stderr
    assert batched.changes == []


@pytest.mark.parametrize(
    ("given", "of_ten", "of_three"), [("1", 1, 1), ("4", 4, 4), ("25%", 2, 1), ("1%", 1, 1), ("100%", 10, 3)]
)
def test_the_size_of_a_batch_is_rounded_down_and_at_least_one(given: str, of_ten: int, of_three: int) -> None:
    limit = max_unavailable(given)
    assert (limit.of(10), limit.of(3), str(limit)) == (of_ten, of_three, given)


@pytest.mark.parametrize("given", ["0", "0%", "101%", "-1", "half", "1.5"])
def test_a_batch_of_no_pods_is_refused_with_the_fix(apis: Apis, given: str) -> None:
    result = run("rayml", f"--max-unavailable={given}")
    assert result.exit_code == 2
    assert "Allowed: 1 or more, or 1% to 100%. Fix: give 2 or 10%" in " ".join(result.stderr.replace("│", " ").split())
