"""`ops job … --as rayjob`: the object from the live RayCluster, and what KubeRay says of it."""

import json
from typing import Any

import pytest

from ops.jobs.operators.rayjob import LONGEST_NAME, NoWorkersError, ray_job, state
from ops.jobs.run import OwnCluster, RunError
from tests.unit.ops.jobs.test_job import CONFIG_MAPS, JOBS, LEASES, RAY_CLUSTERS, ops, refused
from tests.unit.support.documented_data import assert_same_shape, documented
from tests.unit.support.fake_apis import Apis

Object = dict[str, Any]

RAY_JOBS = "/apis/ray.io/v1/namespaces/ray/rayjobs"
TEMPLATE = "/apis/batch/v1/namespaces/ray/cronjobs/rayjob-submitter"
PODS = "/api/v1/namespaces/ray/pods"


def a_ray_cluster(**changes: Any) -> Object:
    """Return a live RayCluster whose autoscaler was about to remove a pod."""

    def group(**fields: Any) -> Object:
        pod = {"serviceAccountName": "ray", "containers": [{"name": "ray", "image": "ray:2.42.1"}]}
        template = {"metadata": {"labels": {"ray-on-hyperpod/template": "abc"}}, "spec": pod}
        return {"rayStartParams": {"num-cpus": "0"}, "template": template, **fields}

    spec = {
        "rayVersion": "2.42.1",
        "headGroupSpec": group(),
        "workerGroupSpecs": [
            group(
                groupName="gpu-group",
                replicas=4,
                minReplicas=2,
                maxReplicas=4,
                scaleStrategy={"workersToDelete": ["rayml-worker-x"]},
            )
        ],
        **changes,
    }
    return {"metadata": {"name": "rayml"}, "spec": spec}


def a_submitter() -> Object:
    container = {"name": "rayjob-submitter", "image": "python", "volumeMounts": []}
    labels = {"ray-on-hyperpod/submitter": "true"}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": []}}


def made(own: OwnCluster = OwnCluster(), cluster: Object | None = None) -> Object:  # noqa: B008  frozen
    return ray_job(
        "train", "python train.py", own, attempts=4, cluster=cluster or a_ray_cluster(), submitter=a_submitter()
    )


def a_ray_job(name: str, *, queue: str | None = None, **status: Any) -> Object:
    """Return a RayJob as the API server has it."""
    own = ray_job(
        name, "python train.py", OwnCluster(queue=queue), attempts=4, cluster=a_ray_cluster(), submitter=a_submitter()
    )
    own["metadata"] |= {"uid": "u-2", "creationTimestamp": "2026-11-02T10:00:00Z"}
    return {**own, "status": status}


class TestObject:
    def test_its_pods_are_the_ray_clusters_with_the_label_that_lets_them_reach_each_other(self) -> None:
        spec, live = made()["spec"]["rayClusterSpec"], a_ray_cluster()["spec"]
        pairs = [(spec["headGroupSpec"], live["headGroupSpec"])]
        pairs += list(zip(spec["workerGroupSpecs"], live["workerGroupSpecs"], strict=True))
        for copied, original in pairs:
            assert copied["template"]["spec"] == original["template"]["spec"]
            assert copied["rayStartParams"] == original["rayStartParams"]
            labels = {**original["template"]["metadata"]["labels"], "ray-on-hyperpod/rayjob": "true"}
            assert copied["template"]["metadata"]["labels"] == labels
        assert spec["rayVersion"] == "2.42.1"

    def test_what_holds_only_for_the_live_ray_cluster_is_left_out(self) -> None:
        """A paused RayCluster's copy would never start; the autoscaler's pods are not the copy's."""
        spec = made(cluster=a_ray_cluster(suspend=True))["spec"]["rayClusterSpec"]
        assert "suspend" not in spec
        assert "scaleStrategy" not in spec["workerGroupSpecs"][0]

    @pytest.mark.parametrize(
        ("workers", "expected"), [(None, (4, 2, 4)), (1, (1, 1, 4)), (8, (8, 2, 8))], ids=("as many", "fewer", "more")
    )
    def test_workers_of_a_group_are_the_ray_clusters_or_as_told(
        self, workers: int | None, expected: tuple[int, int, int]
    ) -> None:
        [group] = made(OwnCluster(workers=workers))["spec"]["rayClusterSpec"]["workerGroupSpecs"]
        assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == expected

    def test_ray_cluster_without_workers_is_no_template_unless_a_number_is_given_or_it_scales(self) -> None:
        empty = a_ray_cluster()
        empty["spec"]["workerGroupSpecs"][0] |= {"replicas": 0, "minReplicas": 0}
        with pytest.raises(NoWorkersError):
            made(cluster=empty)
        assert made(OwnCluster(workers=2), empty)
        empty["spec"]["enableInTreeAutoscaling"] = True
        assert made(cluster=empty)

    def test_token_that_kuberay_would_not_send_is_refused(self) -> None:
        """KubeRay's client sends a token only where `authOptions` has the mode (kuberay 1.6.2: utils/util.go)."""
        closed = a_ray_cluster()
        closed["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "RAY_AUTH_TOKEN"}]
        with pytest.raises(RunError, match=r"rayml wants a token, .* Fix: submit without `--as rayjob`"):
            made(cluster=closed)
        closed["spec"]["authOptions"] = {"mode": "token"}
        assert made(cluster=closed)["spec"]["rayClusterSpec"]["authOptions"] == {"mode": "token"}

    def test_only_a_queues_ray_job_is_suspended_and_kueue_finds_it_by_its_label(self) -> None:
        """Without `shutdownAfterJobFinishes` KubeRay refuses to suspend it."""
        assert made()["spec"]["suspend"] is False
        queued = made(OwnCluster(queue="team-a"))
        assert queued["spec"]["suspend"] is True
        assert queued["spec"]["shutdownAfterJobFinishes"] is True
        assert queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"

    def test_first_attempt_is_no_retry(self) -> None:
        assert made()["spec"]["backoffLimit"] == 3


@pytest.mark.parametrize(
    ("status", "phase", "attempt", "exit_code"),
    [
        ({}, "starting", None, None),
        ({"jobDeploymentStatus": "Initializing"}, "waiting for its RayCluster", 1, None),
        ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "failed": 1}, "running", 2, None),
        ({"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED", "failed": 2}, "waiting to retry", 3, None),
        ({"jobDeploymentStatus": "Suspended"}, "suspended", 1, None),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "failed": 1}, "succeeded", 2, 0),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, "stopped", 1, 130),
        ({"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "failed": 4}, "failed", 4, 1),
        ({"jobDeploymentStatus": "Failed", "jobStatus": "", "failed": 4}, "failed", 4, 1),
    ],
)
def test_state_of_a_ray_job_is_told_like_a_supervised_runs(
    status: Object, phase: str, attempt: int | None, exit_code: int | None
) -> None:
    found = state(a_ray_job("train", **status))
    assert (found["phase"], found.get("attempt"), found.get("exit_code")) == (phase, attempt, exit_code)


@pytest.fixture
def cluster(apis: Apis) -> Apis:
    """Serve `dev` with its RayCluster and the submitter's template."""
    job = {"template": a_submitter()}
    apis.kubernetes |= {
        RAY_CLUSTERS: {"items": [a_ray_cluster()]},
        f"{RAY_CLUSTERS}/rayml": a_ray_cluster(),
        TEMPLATE: {"metadata": {"name": "rayjob-submitter"}, "spec": {"schedule": "", "jobTemplate": {"spec": job}}},
        f"POST {RAY_JOBS}": (201, a_ray_job("train")),
        RAY_JOBS: {"items": []},
        JOBS: {"items": []},
        LEASES: {"items": []},
        PODS: {"items": []},
    }
    return apis


SUBMIT = ("submit", "--as", "rayjob", "--name", "train", "--detach", "pytorch_ddp")


def test_ray_job_gets_the_clusters_own_submitter_with_its_arguments_and_its_package_beside_it(cluster: Apis) -> None:
    result = ops(*SUBMIT, "--", "--epochs", "$(three)")
    assert result.exit_code == 0, result.output
    changes = dict(cluster.changes)
    spec = changes[f"POST {RAY_JOBS}"]["spec"]
    assert spec["entrypoint"] == "python pytorch_ddp.py --epochs '$(three)'"
    pod = spec["submitterPodTemplate"]["spec"]
    [container] = pod["containers"]
    [(name, _)] = changes[f"POST {CONFIG_MAPS}"]["binaryData"].items()
    assert container["args"] == [
        "--run=train",
        # Kubernetes would replace $(…).
        "--entrypoint=python pytorch_ddp.py --epochs '$$(three)'",
        "--storage=/fsx/ray/runs",
        f"--package=/opt/ray-on-hyperpod-package/{name}",
    ]
    assert {"name": "package", "configMap": {"name": "run-train"}} in pod["volumes"]
    [owner] = changes[f"POST {CONFIG_MAPS}"]["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "uid": "u-2"}
    assert f"POST {JOBS}" not in changes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {TEMPLATE: (404, {})},
            "the environment has no template for RayJobs' submitters. Fix: deploy the ray stack, or use --direct",
        ),
        (
            {f"{RAY_JOBS}/train": a_ray_job("train", jobDeploymentStatus="Running", jobStatus="RUNNING")},
            "the run train is in use (running). Fix: choose another --name, or follow it with `ops job logs train`",
        ),
        (
            {f"{RAY_JOBS}/train": a_ray_job("train", jobDeploymentStatus="Failed", jobStatus="FAILED")},
            "the run train has ended (failed). Fix: --again resumes it, or choose another --name",
        ),
        (
            {f"{RAY_CLUSTERS}/rayml": a_ray_cluster(workerGroupSpecs=[])},
            "RayCluster rayml has no workers to copy. Fix: --workers N",
        ),
        ({f"POST {RAY_JOBS}": (409, {})}, "the run name train is in use. Fix: choose another with --name"),
    ],
)
def test_each_obstacle_is_one_message_and_nothing_is_left(cluster: Apis, change: Object, message: str) -> None:
    cluster.kubernetes |= change
    assert refused(*SUBMIT, code=1) == message
    assert [name for name, _ in cluster.changes if name != f"POST {RAY_JOBS}"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--as", "rayjob", "--direct"), "--as rayjob excludes --direct and --in-head"),
        (("--as", "rayjob", "--max-stalled", "2"), "--max-stalled is invalid with --as rayjob"),
        (("--as", "rayjob", "--give-up-after", "1h"), "--give-up-after is invalid with --as rayjob"),
        (("--workers", "2"), "--workers is invalid without --as rayjob"),
        (("--queue", "team-a"), "--queue is invalid without --as rayjob"),
        (("--as", "rayjob", "--name", "a" * (LONGEST_NAME + 1)), f"at most {LONGEST_NAME} in all"),
    ],
)
def test_options_that_do_not_go_together_are_reported_before_anybody_is_asked(
    cluster: Apis, arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused("submit", *arguments, "--", "true", code=2)
    assert cluster.tokens == []


def test_default_name_is_short_enough_for_a_ray_job(cluster: Apis) -> None:
    """KubeRay's RayCluster has a longer name, which must fit into a label."""
    assert ops("submit", "--as", "rayjob", "--detach", "--", "a" * 60).exit_code == 0
    name = dict(cluster.changes)[f"POST {RAY_JOBS}"]["metadata"]["name"]
    assert len(f"{name}-raycluster-abcde") <= 63


def test_ray_jobs_are_listed_beside_runs_with_what_they_wait_for(cluster: Apis) -> None:
    waiting = a_ray_job("waits", jobDeploymentStatus="Initializing", rayClusterName="waits-raycluster-x2k9p")
    queued = a_ray_job("queued", queue="team-a", jobDeploymentStatus="Suspended")
    cluster.kubernetes[RAY_JOBS] = {"items": [waiting, queued]}
    condition = {"type": "PodScheduled", "status": "False", "message": "0/4 nodes are available: 4 are full. x"}
    status = {"phase": "Pending", "conditions": [condition]}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": []}, "status": status}
    cluster.kubernetes[PODS] = {"items": [pod]}
    data = json.loads(ops("list", "-o", "json").stdout)
    assert_same_shape(data, documented("job", "list"))
    assert [(run["run"], run["kind"], run["state"], run["reason"]) for run in data] == [
        ("waits", "rayjob", "waiting for its RayCluster", "1 of 1 pods wait: 0/4 nodes are available: 4 are full"),
        ("queued", "rayjob", "suspended", "waits for queue team-a"),
    ]


def test_stop_deletes_a_ray_job_and_waits_for_nothing(cluster: Apis) -> None:
    """KubeRay stops the job on Ray, and then removes the RayCluster."""
    cluster.kubernetes[f"{RAY_JOBS}/train"] = a_ray_job("train", jobDeploymentStatus="Running", jobStatus="RUNNING")
    assert ops("stop", "train").exit_code == 0
    [(change, _)] = cluster.changes
    assert change == f"DELETE {RAY_JOBS}/train"


def test_ray_job_that_somebody_else_made_is_no_run(cluster: Apis) -> None:
    foreign = a_ray_job("train")
    del foreign["metadata"]["labels"]
    cluster.kubernetes[f"{RAY_JOBS}/train"] = foreign
    assert "there is no run train" in refused("stop", "train", code=1)
