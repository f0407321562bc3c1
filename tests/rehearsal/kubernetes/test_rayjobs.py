"""`ops job submit --as rayjob` on a real control plane with the real operator, as somebody of the submitters' group."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import cdk8s
import pytest

from config import labels
from config.facts.versions import PYTHON_IMAGE
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.testing.cluster import GENERAL, Kubectl, Object
from k8s_charts.controllers.code import RELEASE, ControllerCode, ControllerCodeChart
from k8s_charts.controllers.job_supervisor import JobSupervisor, JobSupervisorChart
from k8s_charts.shared.names import (
    JOB_SUPERVISOR,
    RAYJOB_LABEL,
    RAYJOB_SUBMITTER,
    RAYJOB_SUBMITTER_CODE,
    SUBMITTER_LABEL,
    submitters_group,
)
from ops.errors import UnreachableError
from ops.jobs.operators.rayjob import LONGEST_NAME
from ops.jobs.packing import Package
from ops.jobs.run import OwnCluster, RunError, RunRequest
from ops.jobs.runs import Runs, as_submitter
from tests.rehearsal.kubernetes.cluster import install_objects, ray_cluster
from tests.support.impersonation import api_as
from tests.support.waiting import KUBECTL_PATIENCE, wait_until

pytestmark = pytest.mark.product

NAMESPACE = "rayjobs"
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def request(name: str, queue: str | None = None) -> RunRequest:
    return RunRequest(
        name=name,
        cluster="rayml",
        command="python train.py",
        storage="/fsx/runs",
        package=Package("_ray_pkg_0123456789abcdef.zip", b"a zip file"),
        max_attempts=4,
        max_stalled=1,
        give_up_after=0,
        own_cluster=OwnCluster(workers=2, queue=queue),
    )


def suspended_ray_cluster() -> Object:
    """The environment's RayCluster as `ops pause` leaves it: it holds no node that a RayJob needs."""
    cluster = ray_cluster("rayml", workers=1)
    cluster["metadata"]["namespace"] = NAMESPACE
    cluster["spec"]["suspend"] = True
    for group in (cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        pod["securityContext"] = RESTRICTED
        pod["containers"][0]["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    return cluster


@pytest.fixture(scope="module")
def place(operator: Object, nodes: Nodes, kubectl: Kubectl, control_plane: ControlPlane) -> Iterator[None]:
    """The namespace as the ray stack leaves it, paused."""
    own = {labels.SYSTEM_NODE_LABEL: labels.SYSTEM_NODE_ROLE}
    nodes.add("submitters-1", labels=own, allocatable=GENERAL, capacity=GENERAL)
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": level}})
    code = ControllerCode("rayjob_submitter", RAYJOB_SUBMITTER_CODE, NAMESPACE)
    install_objects(control_plane, RELEASE, NAMESPACE, ControllerCodeChart(cdk8s.App(), "code", controllers=[code]))
    supervisor = JobSupervisor(NAMESPACE, PYTHON_IMAGE)
    kubectl.apply(*JobSupervisorChart(cdk8s.App(), JOB_SUPERVISOR, supervisor=supervisor).to_json())
    kubectl.apply(suspended_ray_cluster())
    yield
    kubectl("delete", "namespace", NAMESPACE, KUBECTL_PATIENCE)
    nodes.remove("submitters-1")


@pytest.fixture
def ann(place: None, control_plane: ControlPlane) -> Runs:
    """Somebody of the submitters' group."""
    return Runs(api_as(control_plane, "ann", submitters_group(NAMESPACE)), NAMESPACE)


def ray_job(kubectl: Kubectl, name: str) -> Object:
    found: Object = kubectl.get("-n", NAMESPACE, "rayjob", name)
    return found


def deployment_status(kubectl: Kubectl, name: str) -> str:
    return str(ray_job(kubectl, name).get("status", {}).get("jobDeploymentStatus", ""))


def objects_of(kubectl: Kubectl, name: str) -> dict[str, list[Object]]:
    """The RayJob itself, and what KubeRay made for it, by kind."""
    listed = kubectl.get("-n", NAMESPACE, "rayjobs,rayclusters,jobs")["items"]
    own: dict[str, list[Object]] = {}
    for item in listed:
        owners = [owner["name"] for owner in item["metadata"].get("ownerReferences", [])]
        if name in (item["metadata"]["name"], *owners):
            own.setdefault(item["kind"], []).append(item)
    return own


def said(control_plane: ControlPlane, name: str) -> str:
    """What the submitters of a RayJob have logged."""
    return "".join(log.read_text() for log in (control_plane.logs / "pods").glob(f"{NAMESPACE}_{name}-*.log"))


def labels_of(pod: Object) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"]["labels"]
    return found


def test_ray_job_gets_a_ray_cluster_like_the_environments_and_the_projects_submitter(
    ann: Runs, kubectl: Kubectl, control_plane: ControlPlane
) -> None:
    """With the longest name, which KubeRay makes longer still."""
    name = "a" * LONGEST_NAME
    with as_submitter():
        ann.create(request(name), again=False)
    wait_until(lambda: deployment_status(kubectl, name) == "Running", "KubeRay's submission")

    [cluster] = objects_of(kubectl, name)["RayCluster"]
    pods = kubectl.get("-n", NAMESPACE, "pods", "-l", f"ray.io/cluster={cluster['metadata']['name']}")["items"]
    assert sorted(labels_of(pod)["ray.io/node-type"] for pod in pods) == ["head", "worker", "worker"]
    assert {labels_of(pod)[RAYJOB_LABEL] for pod in pods} == {"true"}

    wait_until(lambda: [pod.status.phase for pod in ann.pods(name)] == ["Running"], "the submitter's pod")
    wait_until(lambda: "waiting for the head" in said(control_plane, name), "the submitter's search for the head")
    [pod] = ann.pods(name)
    assert pod.metadata.labels[SUBMITTER_LABEL] == "true", "heads admit this label"
    assert pod.spec.containers[0].name == RAYJOB_SUBMITTER

    with as_submitter():
        [run] = ann.all()
    assert (run.name, run.kind, run.cluster, run.finished) == (name, "rayjob", "rayml", False)
    with pytest.raises(RunError, match="is in use"):
        ann.create(request(name), again=True)

    with as_submitter():
        ann.stop(name)
    wait_until(lambda: not objects_of(kubectl, name), "the end of the RayJob and all that it owns")


def test_queued_ray_job_has_no_ray_cluster_until_the_queue_starts_it(ann: Runs, kubectl: Kubectl) -> None:
    with as_submitter():
        ann.create(request("queued", queue="team-a"), again=False)
    wait_until(lambda: deployment_status(kubectl, "queued") == "Suspended", "KubeRay's suspension")
    assert "RayCluster" not in objects_of(kubectl, "queued")
    with as_submitter():
        run = ann.get("queued")
    assert (run.phase, run.state["reason"]) == ("suspended", "waits for queue team-a")

    # As Kueue admits it.
    kubectl("-n", NAMESPACE, "patch", "rayjob", "queued", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    wait_until(lambda: "RayCluster" in objects_of(kubectl, "queued"), "the RayCluster")
    with as_submitter():
        ann.stop("queued")
    wait_until(lambda: not objects_of(kubectl, "queued"), "the end of the RayJob")


def test_outsider_is_refused(place: None, control_plane: ControlPlane, kubectl: Kubectl) -> None:
    bob: Any = Runs(api_as(control_plane, "bob"), NAMESPACE)
    for attempt in (partial(bob.create, request("foreign"), again=False), bob.all, partial(bob.get, "foreign")):
        with pytest.raises(UnreachableError, match=r"refuses this request \(403\).*access\.submitters"), as_submitter():
            attempt()
    assert not objects_of(kubectl, "foreign")
