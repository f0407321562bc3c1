"""The cluster of a week: HyperPod's simulator, whose nodes join a real control plane, and what is deployed on it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import cdk8s

from config import labels, load
from embedded_account.hyperpod.bench import EksRecords, HyperPodBench
from embedded_account.hyperpod.eks import translated
from embedded_account.hyperpod.model import SimulatedCluster
from embedded_account.hyperpod.nodes import HEALTH_LABEL, KubernetesNode
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from embedded_account.testing.cluster import GENERAL, Kubectl, Object
from k8s_charts.controllers.job_supervisor import JobSupervisor, JobSupervisorChart
from k8s_charts.controllers.sleeper import SleeperChart, sleeper_objects
from k8s_charts.shared.names import JOB_SUPERVISOR, RUN_CLUSTER_LABEL, RUN_LABEL, SLEEPER
from tests.handlers.support.edits import WORKERS
from tests.handlers.support.judging import NAME
from tests.rehearsal.kubernetes.cluster import ray_cluster
from tests.rehearsal.kubernetes.sleep_week.schedule import COUNT
from tests.support.sleeping_environment import with_sleep

OWN: Final = "sleeper"
RAY: Final = "sleeper-ray"
CLUSTER: Final = "rayml"
SUPERVISOR: Final = "example.invalid/supervisor:1"
"""Image of the runs' supervisors, of which a week reports how they run and end."""
TYPE: Final = "ml.p5.48xlarge"
JOBS: Final = f"/apis/batch/v1/namespaces/{RAY}/jobs"
RAY_CLUSTER: Final = f"/apis/ray.io/v1/namespaces/{RAY}/rayclusters/{CLUSTER}"
PODS: Final = f"/api/v1/namespaces/{RAY}/pods"
NOTEBOOKS: Final = "/api/v1/namespaces/default/pods"
NOW: Final = {"gracePeriodSeconds": 0}


class RealNodes(EksRecords):
    """EKS clusters as records, with the nodes of all in a real control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__()
        self._plane = plane
        self.on_change: Callable[[], None] = lambda: None
        self.on_leave: Callable[[str, list[Object]], None] = lambda _name, _pods: None

    def join(self, name: str, node: KubernetesNode) -> None:
        super().join(name, node)
        with translated(ignoring=409):
            Nodes(self._plane.api).add(
                node.name,
                labels=node.labels,
                annotations=node.annotations,
                allocatable=node.allocatable,
                capacity=node.allocatable,
                taints=node.taints,
            )
        self.on_change()

    def mark(self, name: str, node: KubernetesNode) -> None:
        super().mark(name, node)
        path = f"/api/v1/nodes/{node.name}"
        with translated(ignoring=404):
            others = [
                each for each in self._plane.api.get(path)["spec"].get("taints", []) if each["key"] != HEALTH_LABEL
            ]
            own = [each for each in node.taints if each["key"] == HEALTH_LABEL]
            metadata = {"labels": dict(node.labels), "annotations": dict(node.annotations)}
            self._plane.api.patch(path, {"metadata": metadata, "spec": {"taints": [*others, *own]}})
        self.on_change()

    def leave(self, name: str, node_name: str) -> None:
        super().leave(name, node_name)
        api = self._plane.api
        with translated(ignoring=404):
            found = api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node_name}")["items"]
            self.on_leave(node_name, found)
            api.delete(f"/api/v1/nodes/{node_name}")
            # Kubernetes would delete the pods of a node that is gone up to a minute of real time later.
            for pod in found:
                api.delete(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}", NOW)
        self.on_change()


class WeekBench(HyperPodBench):
    """HyperPod's simulator; once `passing` is set, it lets time pass for all parts of the week."""

    eks: RealNodes

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__()
        self.eks = RealNodes(plane)
        self.passing: Callable[[float], None] | None = None

    def advance(self, minutes: float) -> None:
        if self.passing:
            self.passing(60 * minutes)
        else:
            super().advance(minutes)

    @property
    def cluster(self) -> SimulatedCluster:
        """Return the HyperPod cluster."""
        return self.hyperpod.world.clusters[NAME]


def template(bench: WeekBench, edits: frozenset[str], least: int) -> dict[str, Any]:
    """Return the properties of the custom resource with these edits."""
    team = [{"Key": "team", "Value": "vision"}] if "other tags" in edits else []
    made: dict[str, Any] = bench.request(Tags=[{"Key": "project", "Value": "rayhp"}, *team])
    head, workers = made["InstanceGroups"]
    workers["InstanceCount"] = COUNT
    for group, edit in ((workers, "labels"), (head, "head labels")):
        if edit in edits:
            group["KubernetesConfig"] = {"Labels": {"team": "vision"}}
    sleeping = {WORKERS: least}
    if "more" in edits:
        made["InstanceGroups"].append(bench.group("more", "ml.g5.2xlarge", 1))
        sleeping |= {"more": 0} if "more sleeps" in edits else {}
    else:
        made["ConfirmGroupRemoval"] = ["more"]
    return made | {"SleepingGroups": sleeping}


def ranges(properties: dict[str, Any]) -> dict[str, list[int]]:
    """Return what the function may set in a deployment of this template."""
    counts = {each["InstanceGroupName"]: int(each["InstanceCount"]) for each in properties["InstanceGroups"]}
    return {name: [int(least), counts[name]] for name, least in properties["SleepingGroups"].items()}


def add_system_nodes(plane: ControlPlane) -> None:
    """Add the nodes of the operator, the sleeper and the supervisors."""
    for number in (1, 2, 3):
        own = {labels.SYSTEM_NODE_LABEL: labels.SYSTEM_NODE_ROLE, **({"group": "system"} if number == 1 else {})}
        Nodes(plane.api).add(f"system-{number}", labels=own, allocatable=GENERAL, capacity=GENERAL)


def deployed(kubectl: Kubectl) -> dict[str, Any]:
    """Deploy sleeper and supervisors as an environment does, but for the sleeper's pods; return a run's Job."""
    kuberay, ray = (
        part.model_copy(update={"namespace": namespace})
        for part, namespace in ((load("dev").kuberay, OWN), (load("dev").ray, RAY))
    )
    environment = with_sleep(load("dev").model_copy(update={"kuberay": kuberay, "ray": ray}))
    app = cdk8s.App()
    chart = SleeperChart(app, "sleeper", sleeper=sleeper_objects(environment, "arn:aws:iam::111122223333:role/sleeper"))
    runs = JobSupervisorChart(app, "runs", supervisor=JobSupervisor(RAY, SUPERVISOR))
    made: list[Object] = [*chart.to_json(), *runs.to_json()]
    for item in made:
        if item["kind"] == "Deployment":
            item["spec"]["replicas"] = 0
    kubectl.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (OWN, RAY)))
    kubectl.apply(*made)
    [job] = [
        item["spec"]["jobTemplate"]["spec"]
        for item in made
        if (item["kind"], item["metadata"]["name"]) == ("CronJob", JOB_SUPERVISOR)
    ]
    return dict(job)


def account_of_sleeper(plane: ControlPlane, kubectl: Kubectl, folder: Path) -> Path:
    """Return a folder with what Kubernetes gives the sleeper's pods: a token of its service account, and the CA."""
    folder.mkdir()
    (folder / "token").write_text(kubectl("-n", OWN, "create", "token", SLEEPER, "--duration=24h"))
    (folder / "ca.crt").write_bytes(plane.ca_pem)
    return folder


def a_ray_cluster() -> Object:
    """Return the RayCluster, with its workers on the group that sleeps."""
    made = ray_cluster(CLUSTER, workers=COUNT)
    made["metadata"]["namespace"] = RAY
    [workers] = made["spec"]["workerGroupSpecs"]
    for part, group in ((made["spec"]["headGroupSpec"], "head-group"), (workers, WORKERS)):
        part["template"]["spec"]["nodeSelector"] = {labels.INSTANCE_GROUP_LABEL: group}
        part["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    return made


def group_argument(least: int, after: float, hours: str | None) -> str:
    """Return the sleeper's argument for the group."""
    workers = {"cluster": CLUSTER, "name": "gpu-group", "replicas": COUNT, "min_replicas": 1}
    group = {"group": WORKERS, "count": COUNT, "min": least, "after_seconds": after, "hours": hours}
    return json.dumps(group | {"workers": [workers]})


def a_run(name: str, spec: dict[str, Any]) -> Object:
    """Return the Job of a run, as `ops job submit` makes it."""
    metadata = {"name": name, "labels": {RUN_LABEL: name, RUN_CLUSTER_LABEL: CLUSTER}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
