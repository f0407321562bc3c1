"""The reaper from its own manifests, beside the real operator, on nodes that are lost.

Times are short here: a silent node is Unknown after 8 seconds, and pods tolerate it for 3. How soon a RayCluster is
whole again is what the drills node-dies and node-replaced promise, with nothing beside them.
"""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import cdk8s
import pytest

from config import labels
from config.facts.versions import PYTHON_IMAGE
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes, NodeSpec
from embedded_account.testing.cluster import ACCELERATED, GENERAL, Kubectl, Object
from k8s_charts.controllers.code import ControllerCode, ControllerCodeChart
from k8s_charts.controllers.job_supervisor import JobSupervisor, JobSupervisorChart
from k8s_charts.controllers.reaper import ReaperChart, ReaperObjects
from k8s_charts.controllers.replicas import REPLICAS
from k8s_charts.shared.names import REAPER, REAPER_CODE
from tests.rehearsal.kubernetes.cluster import ray_cluster
from tests.support.waiting import KUBECTL_PATIENCE, wait_until

pytestmark = pytest.mark.product

NAMESPACE = "reaper"
RAY = "reaper-ray"
WORKERS = 2
TOLERATED = 3
UNWELL = 4
GRACE = 10
REPLACE = "UnschedulablePendingReplacement"


def objects(namespace: str, ray_namespace: str) -> list[Object]:
    """The reaper as deployed, but for the times that a lost node and an unwell worker are tolerated."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": restricted}}
    rays = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ray_namespace}}
    app = cdk8s.App()
    code = ControllerCodeChart(app, "code", controllers=[ControllerCode("reaper", REAPER_CODE, namespace)])
    chart = ReaperChart(app, "reaper", reaper=ReaperObjects(namespace, ray_namespace, PYTHON_IMAGE))
    made = [own, rays, *code.to_json(), *chart.to_json()]
    arguments(made)[1:3] = [f"--unready-seconds={TOLERATED}", f"--unwell-seconds={UNWELL}"]
    return made


def the(kind: str, made: list[Object]) -> Object:
    return next(item for item in made if item["kind"] == kind)


def arguments(made: list[Object]) -> list[str]:
    words: list[str] = the("Deployment", made)["spec"]["template"]["spec"]["containers"][0]["args"]
    return words


def cluster_that_leaves_lost_nodes() -> Object:
    """A RayCluster whose workers need a healthy node and tolerate the loss of theirs for `TOLERATED` seconds."""
    cluster = ray_cluster("rayml", workers=WORKERS)
    cluster["metadata"]["namespace"] = RAY
    [group] = cluster["spec"]["workerGroupSpecs"]
    healthy = {"key": labels.NODE_HEALTH_LABEL, "operator": "In", "values": [labels.NODE_SCHEDULABLE]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [healthy]}]}
    group["template"]["spec"] |= {
        "nodeSelector": {"group": "reaped"},
        "terminationGracePeriodSeconds": GRACE,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{condition}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": TOLERATED,
            }
            for condition in ("not-ready", "unreachable")
        ],
    }
    return cluster


class Ray:
    """The RayCluster's workers, and what the reaper says."""

    def __init__(self, kubectl: Kubectl, control_plane: ControlPlane) -> None:
        self._kubectl = kubectl
        self._logs = control_plane.logs / "pods"

    def workers(self) -> list[Object]:
        selector = ("-l", "ray.io/cluster=rayml,ray.io/node-type=worker")
        items: list[Object] = self._kubectl.get("-n", RAY, "pods", *selector)["items"]
        return items

    def running(self) -> set[str]:
        """Nodes of the workers that run and are not about to end."""
        return {
            pod["spec"]["nodeName"]
            for pod in self.workers()
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def is_whole_without(self, node: str) -> bool:
        running = self.running()
        return len(running) == WORKERS and len(self.workers()) == WORKERS and node not in running

    def placed(self) -> list[tuple[str, str]]:
        """Name and node of each worker that has one."""
        return [
            (pod["metadata"]["name"], pod["spec"]["nodeName"]) for pod in self.workers() if "nodeName" in pod["spec"]
        ]

    def a_worker(self) -> tuple[str, str]:
        """Name and node of a worker."""
        return self.placed()[0]

    def said(self, message: str, pod: str) -> int:
        """How often a replica of the reaper logged a message about a pod."""
        lines = [json.loads(line) for log in self._logs.glob(f"{NAMESPACE}_*.log") for line in log.open()]
        return sum(line["message"] == message and line.get("pod") == pod for line in lines)

    def has_said(self, message: str, pod: str, times: int) -> bool:
        """Whether a message about a pod was logged so often."""
        return self.said(message, pod) >= times

    def told(self, pod: str) -> set[tuple[str, str]]:
        """Kind and reason of each event that the reaper wrote about a pod."""
        events = self._kubectl.get("-n", RAY, "events")["items"]
        own = [event for event in events if event["source"].get("component") == REAPER and pod in event["message"]]
        return {(event["involvedObject"]["kind"], event["reason"]) for event in own}


@pytest.fixture(scope="module")
def ray(operator: Object, nodes: Nodes, kubectl: Kubectl, control_plane: ControlPlane) -> Iterator[Ray]:
    """Reaper, operator and a RayCluster with two workers on four nodes."""
    own = {"group": "reaped", labels.NODE_HEALTH_LABEL: labels.NODE_SCHEDULABLE}
    worker_nodes = [f"reaped-{number}" for number in range(1, 5)]
    nodes.add_all(
        NodeSpec(name=name, labels=own, allocatable=ACCELERATED, capacity=ACCELERATED) for name in worker_nodes
    )
    for number in (1, 2):
        place = {labels.SYSTEM_NODE_LABEL: labels.SYSTEM_NODE_ROLE}
        nodes.add(f"reapers-{number}", labels=place, allocatable=GENERAL, capacity=GENERAL)
    # As in a cluster that was deployed: on the only node that takes pods, the replicas run together.
    wait_until(lambda: both_take_pods(kubectl), "the reaper's nodes")
    kubectl.apply(*objects(NAMESPACE, RAY))
    rolled_out(kubectl)
    kubectl.apply(cluster_that_leaves_lost_nodes())
    made = Ray(kubectl, control_plane)
    wait_until(lambda: len(made.running()) == WORKERS, "the workers")
    yield made
    kubectl("-n", RAY, "delete", "raycluster", "rayml", KUBECTL_PATIENCE)
    kubectl("delete", "namespace", NAMESPACE, RAY, KUBECTL_PATIENCE)
    for name in {*worker_nodes, "reapers-1", "reapers-2"} & set(nodes.names()):
        nodes.remove(name)


def both_take_pods(kubectl: Kubectl) -> bool:
    """Whether the taint of a new node is gone from both nodes of the reaper."""
    return not any(kubectl.get("node", f"reapers-{number}")["spec"].get("taints") for number in (1, 2))


def rolled_out(kubectl: Kubectl) -> None:
    kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{REAPER}", KUBECTL_PATIENCE)


def lose(nodes: Nodes, node: str) -> float:
    """Stop a node's heart-beats; return the time when it is not Ready any more."""
    nodes.stop_heartbeat(node)
    wait_until(lambda: not nodes.is_ready(node), "node lost")
    return time.monotonic()


def test_replicas_run_on_different_nodes(ray: Ray, kubectl: Kubectl) -> None:
    pods = kubectl.get("-n", NAMESPACE, "pods")["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"reapers-1", "reapers-2"}


def test_worker_of_a_silent_node_is_replaced_after_its_toleration(ray: Ray, nodes: Nodes) -> None:
    pod, node = ray.a_worker()
    lost_at = lose(nodes, node)
    wait_until(lambda: ray.is_whole_without(node), "replacement")
    assert time.monotonic() - lost_at >= TOLERATED, "nobody may act on a node that is silent for a moment"
    nodes.resume_heartbeat(node)
    wait_until(lambda: nodes.is_ready(node), "node Ready again")
    told = {("Pod", "StuckPodForceDeleted"), ("RayCluster", "StuckPodForceDeleted")}
    wait_until(lambda: ray.told(pod) == told, "the reaper's events")
    assert ray.said("force-delete", pod) == 1, "two replicas must delete once"


def test_worker_of_a_labelled_node_moves_in_order(ray: Ray, nodes: Nodes) -> None:
    pod, node = ray.a_worker()
    nodes.set_label(node, labels.NODE_HEALTH_LABEL, REPLACE)
    wait_until(lambda: ray.is_whole_without(node), "replacement")
    nodes.set_label(node, labels.NODE_HEALTH_LABEL, labels.NODE_SCHEDULABLE)
    told = {("Pod", "MovedOffUnhealthyNode"), ("RayCluster", "MovedOffUnhealthyNode")}
    wait_until(lambda: ray.told(pod) == told, "the reaper's events")
    assert (ray.said("delete", pod), ray.said("force-delete", pod)) == (1, 0)


def test_worker_of_a_labelled_node_that_is_dead_is_replaced_after_its_grace(ray: Ray, nodes: Nodes) -> None:
    pod, node = ray.a_worker()
    nodes.stop_heartbeat(node)
    nodes.set_label(node, labels.NODE_HEALTH_LABEL, REPLACE)
    wait_until(lambda: ray.is_whole_without(node), "replacement")
    nodes.remove(node)
    wait_until(lambda: ray.told(pod) >= {("Pod", "StuckPodForceDeleted")}, "the reaper's events")
    assert (ray.said("delete", pod), ray.said("force-delete", pod)) == (1, 1)


def fail_the_probe(kubectl: Kubectl, *pods: str) -> None:
    """Report pods as a kubelet does whose readiness probe fails."""
    for pod in pods:
        # A second later than the start of its container: Kubernetes writes whole seconds.
        wait_until(partial(has_run_for_a_second, kubectl, pod), "the container's second")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": now}
        patch = json.dumps({"status": {"conditions": [ready]}})
        kubectl("-n", RAY, "patch", "pod", pod, "--subresource=status", f"--patch={patch}")


def has_run_for_a_second(kubectl: Kubectl, pod: str) -> bool:
    [container] = kubectl.get("-n", RAY, "pod", pod)["status"]["containerStatuses"]
    started = datetime.fromisoformat(container["state"]["running"]["startedAt"]).timestamp()
    return time.time() > started + 1


def test_worker_that_is_not_ready_any_more_is_replaced_while_its_head_is_ready(ray: Ray, kubectl: Kubectl) -> None:
    pod, _ = ray.a_worker()
    [head] = kubectl.get("-n", RAY, "pods", "-l", "ray.io/cluster=rayml,ray.io/node-type=head")["items"]
    name = head["metadata"]["name"]
    fail_the_probe(kubectl, name, pod)
    time.sleep(UNWELL + 2)
    assert pod in {worker for worker, _ in ray.placed()}, "its head may be the reason"
    kubectl("-n", RAY, "delete", "pod", name, "--wait=false")
    wait_until(lambda: pod not in {worker for worker, _ in ray.placed()}, "the worker's end")
    wait_until(lambda: len(ray.running()) == len(ray.workers()) == WORKERS, "replacement")
    told = {("Pod", "UnreadyWorkerReplaced"), ("RayCluster", "UnreadyWorkerReplaced")}
    wait_until(lambda: ray.told(pod) == told, "the reaper's events")
    assert (ray.said("delete", pod), ray.said("force-delete", pod)) == (1, 0)


def test_supervisor_of_a_silent_node_gets_a_successor(ray: Ray, nodes: Nodes, kubectl: Kubectl) -> None:
    """Its Job counts a pod that is Terminating as one that may still judge the run's end (podFailurePolicy)."""
    for number in (1, 2):
        nodes.add(f"supervisors-{number}", labels={"group": "supervisors"}, allocatable=GENERAL, capacity=GENERAL)
    kubectl.apply(supervisor_job())

    def running() -> list[str]:
        items = kubectl.get("-n", RAY, "pods", "-l", "job-name=supervised")["items"]
        return [
            pod["spec"]["nodeName"]
            for pod in items
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    wait_until(lambda: len(running()) == 1, "the supervisor")
    [node] = running()
    lose(nodes, node)
    wait_until(lambda: running() not in ([], [node]), "its successor")
    assert kubectl.get("-n", RAY, "job", "supervised")["status"].get("failed", 0) == 0, "a lost node is not its failure"
    # With its pods, while their node is there to end them: those of one that is gone stay 40 s longer.
    kubectl("-n", RAY, "delete", "job", "supervised", "--cascade=foreground", KUBECTL_PATIENCE)
    for number in (1, 2):
        nodes.remove(f"supervisors-{number}")


def supervisor_job() -> Object:
    """A run's Job as `ops job submit` makes it, on nodes of its own, with a program that does nothing for long."""
    supervisor = JobSupervisor(namespace=RAY, image=PYTHON_IMAGE)
    made = JobSupervisorChart(cdk8s.App(), "supervisor", supervisor=supervisor).to_json()
    spec: Object = the("CronJob", made)["spec"]["jobTemplate"]["spec"]
    pod = spec["template"]["spec"]
    pod |= {"nodeSelector": {"group": "supervisors"}, "serviceAccountName": "default", "volumes": []}
    [container] = pod["containers"]
    for key in ("args", "livenessProbe", "ports", "volumeMounts"):
        del container[key]
    container["command"] = ["python", "-c", "import time; time.sleep(600)"]
    for toleration in pod["tolerations"]:
        toleration["tolerationSeconds"] = TOLERATED
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "supervised", "namespace": RAY},
        "spec": spec,
    }


def test_dry_run_says_what_it_would_do_and_does_nothing(ray: Ray, nodes: Nodes, kubectl: Kubectl) -> None:
    dry = objects(NAMESPACE, RAY)
    arguments(dry).append("--dry-run")
    kubectl.apply(the("Deployment", dry))
    rolled_out(kubectl)
    would, placed = "dry run: would force-delete", ray.placed()
    for pod, node in placed:
        lose(nodes, node)
        wait_until(partial(ray.has_said, would, pod, REPLICAS), "the word of each replica")
    first, _ = placed[0]
    # Each replica has gone on to another pod since it spoke of the first.
    assert first in {worker["metadata"]["name"] for worker in ray.workers()}
    assert ray.told(first) == set()
    assert ray.said(would, first) == REPLICAS, "once for each replica"
    for _, node in placed:
        nodes.resume_heartbeat(node)


def test_reaper_that_may_not_delete_pods_is_never_ready_and_says_why(
    ray: Ray, kubectl: Kubectl, control_plane: ControlPlane
) -> None:
    lame = objects("reaper-lame", "reaper-lame-ray")
    pods = the("Role", lame)["rules"][0]
    assert pods["resources"] == ["pods"]
    pods["verbs"].remove("delete")
    kubectl.apply(*lame)

    def lines() -> list[Object]:
        logs = (control_plane.logs / "pods").glob("reaper-lame_*.log")
        return [json.loads(line) for log in logs for line in log.open()]

    wait_until(lambda: {"delete pods"} <= {word for line in lines() for word in line.get("missing", ())}, "its word")
    deployment = kubectl.get("-n", "reaper-lame", "deployment", REAPER)
    assert deployment["status"].get("availableReplicas", 0) == 0
    kubectl("delete", "namespace", "reaper-lame", "reaper-lame-ray", "--wait=false")


def test_reaper_with_an_argument_that_it_does_not_know_crashes(ray: Ray, kubectl: Kubectl) -> None:
    wrong = the("Deployment", objects(NAMESPACE, RAY))["spec"]["template"]["spec"]
    wrong["containers"][0]["args"].append("--no-such-flag")
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wrong", "namespace": NAMESPACE}, "spec": wrong}
    )

    def state() -> Object:
        statuses = kubectl.get("-n", NAMESPACE, "pod", "wrong")["status"].get("containerStatuses", [{}])
        return dict(statuses[0])

    wait_until(lambda: state().get("restartCount", 0) >= 1, "a restart")
    assert state()["lastState"]["terminated"]["exitCode"] == 2
    kubectl("-n", NAMESPACE, "delete", "pod", "wrong")
