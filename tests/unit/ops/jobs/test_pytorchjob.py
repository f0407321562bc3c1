"""`ops job … --as pytorchjob`: the object from the live RayCluster, and what Kubeflow's operator says of it."""

import json
import re
import secrets
from pathlib import Path
from typing import Any

import kubernetes
import pytest
import yaml

from ops.jobs.operators.pytorchjob import Script, pytorch_job, state
from ops.jobs.operators.rayjob import NoWorkersError
from ops.jobs.packing import FETCHER, LARGEST_BYTES
from ops.jobs.run import OwnPods
from ops.jobs.running import running
from tests.unit.ops.jobs.test_job import CONFIG_MAPS, JOBS, LEASES, RAY_CLUSTERS, ops, refused
from tests.unit.ops.jobs.test_rayjob import RAY_JOBS, a_ray_job
from tests.unit.support.documented_data import assert_same_shape, documented
from tests.unit.support.fake_apis import Apis

Object = dict[str, Any]

PYTORCH_JOBS = "/apis/kubeflow.org/v1/namespaces/ray/pytorchjobs"
PODS = "/api/v1/namespaces/ray/pods"
SCRIPT = Script("torchrun train.py", "/fsx/ray/runs", ("/opt/ray-on-hyperpod-package/p.zip", "run-train"))


def a_ray_cluster(replicas: int = 2) -> Object:
    """Return a live RayCluster whose workers have what the chart gives them."""
    container = {
        "name": "ray-worker",
        "image": "ray:2.42.1",
        "args": ["ray start"],
        "env": [{"name": "NCCL_SOCKET_IFNAME", "value": "^docker,lo,veth"}],
        "resources": {"limits": {"cpu": "90", "nvidia.com/gpu": "8"}},
        "securityContext": {"allowPrivilegeEscalation": False},
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "ray stop"]}}},
        "readinessProbe": {"exec": {"command": ["true"]}},
        "livenessProbe": {"exec": {"command": ["true"]}},
        "volumeMounts": [{"name": "fsx-storage", "mountPath": "/fsx"}, {"name": "ray-logs", "mountPath": "/tmp/ray"}],
    }
    pod = {
        "serviceAccountName": "ray",
        "restartPolicy": "Never",
        "nodeSelector": {"sagemaker.amazonaws.com/instance-group-name": "worker-group-1"},
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ["deep checks"]}},
        "containers": [container],
        "volumes": [{"name": "fsx-storage"}, {"name": "ray-logs"}],
    }
    template = {"metadata": {"labels": {"ray-on-hyperpod/template": "abc"}}, "spec": pod}
    group = {"groupName": "gpu-group", "replicas": replicas, "template": template}
    return {"metadata": {"name": "rayml"}, "spec": {"workerGroupSpecs": [group]}}


def made(own: OwnPods = OwnPods(), *, attempts: int = 4, replicas: int = 2) -> Object:  # noqa: B008  frozen
    return pytorch_job("train", SCRIPT, own, attempts=attempts, cluster=a_ray_cluster(replicas))


def worker_of(job: Object) -> Object:
    [(role, spec)] = job["spec"]["pytorchReplicaSpecs"].items()
    assert role == "Worker", "beside a Master, workers get an init container that Pod Security refuses"
    found: Object = spec
    return found


def a_pytorch_job(name: str, *conditions: str, queue: str | None = None, message: str = "") -> Object:
    """Return a PyTorchJob as the API server has it."""
    own = pytorch_job(name, SCRIPT, OwnPods(queue=queue), attempts=4, cluster=a_ray_cluster())
    own["metadata"] |= {"uid": "u-3", "creationTimestamp": "2026-11-02T10:00:00Z"}
    told = [{"type": kind, "status": "True", "message": message} for kind in conditions]
    return {**own, "status": {"conditions": told}}


class TestObject:
    def test_its_pods_are_the_ray_clusters_workers_without_what_is_rays(self) -> None:
        live = a_ray_cluster()["spec"]["workerGroupSpecs"][0]["template"]["spec"]
        pod = worker_of(made())["template"]["spec"]
        assert pod["serviceAccountName"] == live["serviceAccountName"]
        assert pod["nodeSelector"].items() >= live["nodeSelector"].items()
        assert pod["affinity"]["nodeAffinity"] == live["affinity"]["nodeAffinity"]
        [container], [original] = pod["containers"], live["containers"]
        for key in ("image", "resources", "securityContext"):
            assert container[key] == original[key]
        assert not {"lifecycle", "readinessProbe", "livenessProbe", "args"} & container.keys()
        assert container["name"] == "pytorch", "the operator requires this name"
        names = [volume["name"] for volume in pod["volumes"]]
        assert names == ["fsx-storage", "work", "package"]
        assert [mount["name"] for mount in container["volumeMounts"]] == names
        assert worker_of(made())["template"]["metadata"]["labels"] == {"ray-on-hyperpod/rayjob": "true"}

    def test_hyperpod_resumes_it_after_all_attempts_but_the_first(self) -> None:
        notes = made(attempts=3)["metadata"]["annotations"]
        assert notes["sagemaker.amazonaws.com/enable-job-auto-resume"] == "true"
        assert notes["sagemaker.amazonaws.com/job-max-retry-count"] == "2"
        assert worker_of(made())["restartPolicy"] == "OnFailure"
        assert "restartPolicy" not in worker_of(made())["template"]["spec"]
        assert made(attempts=1)["metadata"]["annotations"] == {"ray-on-hyperpod/entrypoint": "torchrun train.py"}

    def test_failing_code_ends_it_after_every_pod_was_restarted_in_each_attempt(self) -> None:
        assert made(OwnPods(workers=3), attempts=4)["spec"]["runPolicy"]["backoffLimit"] == 12

    def test_only_healthy_nodes_get_its_pods_and_each_node_one(self) -> None:
        pod = worker_of(made())["template"]["spec"]
        assert pod["nodeSelector"]["sagemaker.amazonaws.com/node-health-status"] == "Schedulable"
        [term] = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["labelSelector"]["matchLabels"] == {"training.kubeflow.org/job-name": "train"}

    def test_torchrun_needs_no_options(self) -> None:
        [container] = worker_of(made())["template"]["spec"]["containers"]
        given = {each["name"]: each.get("value") for each in container["env"]}
        assert given["PET_NPROC_PER_NODE"] == "8"
        assert (given["PET_MASTER_ADDR"], given["PET_MASTER_PORT"]) == ("train-worker-0", "23456")
        assert (given["RUN_NAME"], given["RUN_STORAGE"]) == ("train", "/fsx/ray/runs")
        rank = next(each for each in container["env"] if each["name"] == "PET_NODE_RANK")
        assert rank["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['training.kubeflow.org/replica-index']"

    def test_number_of_pods_is_the_first_groups_or_as_told(self) -> None:
        assert worker_of(made(replicas=4))["replicas"] == 4
        assert worker_of(made(OwnPods(workers=3), replicas=0))["replicas"] == 3
        with pytest.raises(NoWorkersError):
            made(replicas=0)

    def test_only_a_queues_pytorch_job_is_suspended_and_kueue_finds_it_by_its_label(self) -> None:
        assert made()["spec"]["runPolicy"]["suspend"] is False
        queued = made(OwnPods(queue="team-a"))
        assert queued["spec"]["runPolicy"]["suspend"] is True
        assert queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"


@pytest.mark.parametrize(
    ("conditions", "phase", "exit_code"),
    [
        ((), "starting", None),
        (("Created",), "starting", None),
        (("Created", "Running"), "running", None),
        (("Created", "Restarting"), "restarting", None),
        (("Suspended",), "suspended", None),
        (("Created", "Succeeded"), "succeeded", 0),
        (("Created", "Failed"), "failed", 1),
    ],
)
def test_state_of_a_pytorch_job_is_told_like_a_supervised_runs(
    conditions: tuple[str, ...], phase: str, exit_code: int | None
) -> None:
    found = state(a_pytorch_job("train", *conditions))
    assert (found["phase"], found.get("exit_code")) == (phase, exit_code)


@pytest.fixture
def cluster(apis: Apis) -> Apis:
    """Serve `dev` with its RayCluster."""
    apis.kubernetes |= {
        RAY_CLUSTERS: {"items": [a_ray_cluster()]},
        f"{RAY_CLUSTERS}/rayml": a_ray_cluster(),
        f"POST {PYTORCH_JOBS}": (201, a_pytorch_job("train")),
        PYTORCH_JOBS: {"items": []},
        RAY_JOBS: {"items": []},
        JOBS: {"items": []},
        LEASES: {"items": []},
        PODS: {"items": []},
    }
    return apis


SUBMIT = ("submit", "--as", "pytorchjob", "--max-attempts", "1", "--name", "train", "--detach", "pytorch_ddp")


def test_script_is_started_by_torchrun_with_its_package_beside_it(cluster: Apis) -> None:
    result = ops(*SUBMIT, "--", "--epochs", "$(three)")
    assert result.exit_code == 0, result.output
    assert "train: torchrun pytorch_ddp.py --epochs '$(three)' on pods like those of RayCluster rayml" in result.output
    changes = dict(cluster.changes)
    pod = worker_of(changes[f"POST {PYTORCH_JOBS}"])["template"]["spec"]
    *_, path, command = pod["containers"][0]["command"]
    # Kubernetes would replace $(…).
    assert command == "torchrun pytorch_ddp.py --epochs '$$(three)'"
    [(name, _)] = changes[f"POST {CONFIG_MAPS}"]["binaryData"].items()
    assert path == f"/opt/ray-on-hyperpod-package/{name}"
    assert {"name": "package", "configMap": {"name": "run-train"}} in pod["volumes"]
    [owner] = changes[f"POST {CONFIG_MAPS}"]["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "train", "uid": "u-3"}


def test_each_pod_fetches_a_large_working_directory_for_itself(cluster: Apis, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "weights.bin").write_bytes(secrets.token_bytes(LARGEST_BYTES))
    result = ops(*SUBMIT[:-1], "--dry-run", str(tmp_path / "train.py"))
    assert result.exit_code == 0, result.output
    printed = yaml.safe_load(result.stdout)
    assert printed["metadata"]["annotations"]["ray-on-hyperpod/entrypoint"] == "torchrun train.py"
    *_, command = worker_of(printed)["template"]["spec"]["containers"][0]["command"]
    python, program, address, digest, folder, *started = command.split()
    assert (python, program, folder, started) == ("python", FETCHER.name, ".", ["torchrun", "train.py"])
    assert address.endswith(f"/ray/packages/{digest}.zip")


def test_dry_run_prints_the_object_that_the_cluster_checked_and_brings_no_package(cluster: Apis) -> None:
    result = ops(*SUBMIT, "--dry-run")
    assert result.exit_code == 0, result.output
    printed = yaml.safe_load(result.stdout)
    [(change, sent)] = cluster.changes
    assert change == f"POST {PYTORCH_JOBS}"
    assert printed == sent


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {f"{PYTORCH_JOBS}/train": a_pytorch_job("train", "Running")},
            "the run train is in use (running). Fix: choose another --name, or follow it with `ops job logs train`",
        ),
        (
            {f"{PYTORCH_JOBS}/train": a_pytorch_job("train", "Failed")},
            "the run train has ended (failed). Fix: --again resumes it, or choose another --name",
        ),
        ({f"{RAY_CLUSTERS}/rayml": a_ray_cluster(0)}, "RayCluster rayml has no workers to copy. Fix: --workers N"),
        ({f"POST {PYTORCH_JOBS}": (409, {})}, "the run name train is in use. Fix: choose another with --name"),
        ({f"POST {PYTORCH_JOBS}": (404, {})}, "the cluster has no PyTorchJobs. Fix: deploy the platform stack"),
    ],
)
def test_each_obstacle_is_one_message_and_nothing_is_left(cluster: Apis, change: Object, message: str) -> None:
    cluster.kubernetes |= change
    assert refused(*SUBMIT, code=1) == message
    assert [name for name, _ in cluster.changes if name != f"POST {PYTORCH_JOBS}"] == []


def test_resumption_is_refused_where_hyperpod_resumes_nothing(cluster: Apis) -> None:
    """HyperPod looks at the namespace `kubeflow` and those whose name begins with `hyperpod` only."""
    told = refused("submit", "--as", "pytorchjob", "--detach", "--", "true", code=1)
    assert told == (
        "ray.namespace: 'ray' is invalid for a PyTorchJob that HyperPod resumes. Allowed: a name that begins with "
        "hyperpod. Fix: change ray.namespace, or give --max-attempts 1: it is not resumed"
    )
    assert cluster.changes == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--direct",), "--as pytorchjob excludes --direct and --in-head"),
        (("--max-stalled", "2"), "--max-stalled is invalid with --as pytorchjob"),
        (("--min-workers", "2"), "--min-workers is invalid with --as pytorchjob: torchrun starts all workers or none"),
        (("--dry-run", "--again"), "--dry-run excludes --again"),
        (("--name", "a" * 47), "at most 46 in all"),
    ],
)
def test_options_that_do_not_go_together_are_reported_before_anybody_is_asked(
    cluster: Apis, arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused("submit", "--as", "pytorchjob", *arguments, "--", "true", code=2)
    assert cluster.tokens == []


def test_pytorch_jobs_are_listed_beside_runs_with_what_they_wait_for(cluster: Apis) -> None:
    queued = a_pytorch_job("queued", "Suspended", queue="team-a")
    cluster.kubernetes[PYTORCH_JOBS] = {"items": [a_pytorch_job("waits", "Created"), queued]}
    cluster.kubernetes[RAY_JOBS] = {"items": [a_ray_job("other", jobDeploymentStatus="Running")]}
    condition = {"type": "PodScheduled", "status": "False", "message": "0/4 nodes are available: 4 are full. x"}
    status = {"phase": "Pending", "conditions": [condition]}
    cluster.kubernetes[PODS] = {"items": [{"metadata": {"name": "p"}, "spec": {"containers": []}, "status": status}]}
    data = json.loads(ops("list", "-o", "json").stdout)
    assert_same_shape(data, documented("job", "list"))
    assert [(run["run"], run["kind"], run["state"], run["reason"]) for run in data if run["kind"] != "rayjob"] == [
        ("waits", "pytorchjob", "starting", "1 of 1 pods wait: 0/4 nodes are available: 4 are full"),
        ("queued", "pytorchjob", "suspended", "waits for queue team-a"),
    ]


def test_output_is_the_first_workers_and_the_exit_code_the_jobs(cluster: Apis) -> None:
    container = {"name": "pytorch", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    ended = {**container, "state": {"terminated": {"exitCode": 0}}}
    status = {"phase": "Succeeded", "containerStatuses": [ended]}
    metadata = {"name": "train-worker-0", "uid": "u"}
    cluster.kubernetes |= {
        f"{PYTORCH_JOBS}/train": a_pytorch_job("train", "Succeeded"),
        PODS: {"items": [{"metadata": metadata, "spec": {"containers": []}, "status": status}]},
        f"{PODS}/train-worker-0/log": (200, "step 1\nstep 2\n"),
    }
    result = ops("logs", "train")
    assert (result.exit_code, result.stdout) == (0, "step 1\nstep 2\n")
    cluster.kubernetes[f"{PYTORCH_JOBS}/train"] = a_pytorch_job("train", "Failed", message="it reached its limit")
    assert ops("logs", "train").exit_code == 1


def test_changes_of_nodes_are_refused_while_a_pytorch_job_shares_them(cluster: Apis) -> None:
    """`ops scale`, `ops pause` and `ops destroy` ask for the running jobs of each RayCluster."""
    cluster.kubernetes[PYTORCH_JOBS] = {"items": [a_pytorch_job("train", "Running"), a_pytorch_job("old", "Failed")]}
    api = kubernetes.client.ApiClient(kubernetes.client.Configuration(host=cluster.endpoint))
    assert running(api, "ray", "rayml") == ["PyTorchJob train"]


def test_stop_deletes_a_pytorch_job(cluster: Apis) -> None:
    cluster.kubernetes[f"{PYTORCH_JOBS}/train"] = a_pytorch_job("train", "Running")
    assert ops("stop", "train").exit_code == 0
    [(change, _)] = cluster.changes
    assert change == f"DELETE {PYTORCH_JOBS}/train"


@pytest.mark.parametrize("command", ["checkpoint", "profile"])
def test_what_only_a_head_can_answer_is_refused(cluster: Apis, command: str) -> None:
    cluster.kubernetes[f"{PYTORCH_JOBS}/train"] = a_pytorch_job("train", "Running")
    told = refused(command, "train", code=1)
    assert re.fullmatch(r"the run train is a PyTorchJob, which has no Ray head to ask\. Allowed: .*", told)
