"""What an environment is made of when it runs, item by item, with the reason for each that is not ready.

CloudFormation does not wait for nodes, deep health checks, capacity or the image (docs/adr/0002): this does.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import kubernetes
from botocore.exceptions import ClientError
from kubernetes.client import ApiException

from config import Environment
from config.labels import DEEP_HEALTH_LABEL, INSTANCE_GROUP_LABEL, NODE_HEALTH_LABEL, NODE_SCHEDULABLE
from k8s_charts.names import IMAGE_BUILD_NAMESPACE
from ops.clients import Clients


class State(StrEnum):
    """FAILED is what no waiting mends."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True)
class Item:
    """One thing that has to be ready; `detail` is the figure or the reason a person reads."""

    kind: str
    name: str
    state: State
    detail: str


def observe(environment: Environment, clients: Clients) -> list[Item]:
    """Return the state of the HyperPod cluster, its groups, the volume, the image and the RayClusters."""
    return [
        *_hyperpod(environment, clients),
        *_nodes(environment, clients),
        *_image(environment, clients),
        *_claim(environment, clients),
        *_ray_clusters(environment, clients),
    ]


def _hyperpod(environment: Environment, clients: Clients) -> Iterator[Item]:
    name = environment.hyperpod.cluster_name
    try:
        cluster = clients.sagemaker.describe_cluster(ClusterName=name)
    except ClientError as error:
        yield Item("HyperPod cluster", name, State.WAITING, error.response["Error"]["Message"])
        return
    status = cluster["ClusterStatus"]
    state = {"InService": State.READY, "Failed": State.FAILED}.get(status, State.WAITING)
    yield Item("HyperPod cluster", name, state, cluster.get("FailureMessage") or status)
    groups = {group["InstanceGroupName"]: group for group in cluster["InstanceGroups"]}
    for wanted in environment.hyperpod.instance_groups:
        group = groups.get(wanted.name)
        if group is None:
            yield Item("instance group", wanted.name, State.WAITING, "not in the cluster: deploy the hyperpod stack")
            continue
        current, target = group["CurrentCount"], group["TargetCount"]
        detail = f"{current} of {target} nodes"
        if current != target:
            detail += _newest_event(clients, name, wanted.name)
        done = current == target == wanted.count
        yield Item("instance group", wanted.name, State.READY if done else State.WAITING, detail)


def _newest_event(clients: Clients, cluster: str, group: str) -> str:
    """Under Continuous provisioning a shortage does not fail the cluster; only its events tell."""
    events = clients.sagemaker.list_cluster_events(
        ClusterName=cluster, InstanceGroupName=group, SortBy="EventTime", SortOrder="Descending", MaxResults=1
    )["Events"]
    return f"; {events[0]['Description']}" if events and events[0].get("Description") else ""


def _nodes(environment: Environment, clients: Clients) -> Iterator[Item]:
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    for group in environment.hyperpod.instance_groups:
        nodes = core.list_node(label_selector=f"{INSTANCE_GROUP_LABEL}={group.name}").items
        usable = [node for node in nodes if _is_usable(node)]
        detail = f"{len(usable)} of {group.count} Ready and Schedulable"
        checking = sum(node.metadata.labels.get(DEEP_HEALTH_LABEL) == "InProgress" for node in nodes)
        if checking:
            detail += f"; {checking} in deep health checks"
        state = State.READY if len(usable) == group.count else State.WAITING
        yield Item("Kubernetes nodes", group.name, state, detail)


def _is_usable(node: Any) -> bool:
    ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or [])
    return bool(ready and node.metadata.labels.get(NODE_HEALTH_LABEL) == NODE_SCHEDULABLE)


def _image(environment: Environment, clients: Clients) -> Iterator[Item]:
    jobs = kubernetes.client.BatchV1Api(clients.kubernetes).list_namespaced_job(IMAGE_BUILD_NAMESPACE).items
    if not jobs:
        yield Item("Ray image", environment.image.repository, State.WAITING, "no build job: deploy the ray stack")
    for job in jobs:
        conditions = {c.type: c for c in job.status.conditions or [] if c.status == "True"}
        if "Failed" in conditions:
            state, detail = State.FAILED, conditions["Failed"].message or conditions["Failed"].reason
        elif "Complete" in conditions:
            state, detail = State.READY, "built"
        else:
            state, detail = State.WAITING, "building"
        yield Item("Ray image", job.metadata.name, state, detail)


def _claim(environment: Environment, clients: Clients) -> Iterator[Item]:
    claim, namespace = environment.fsx.claim, environment.ray.namespace
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    phase = _or_missing(lambda: core.read_namespaced_persistent_volume_claim(claim, namespace).status.phase)
    yield Item("volume claim", f"{namespace}/{claim}", State.READY if phase == "Bound" else State.WAITING, phase)


def _ray_clusters(environment: Environment, clients: Clients) -> Iterator[Item]:
    api = kubernetes.client.CustomObjectsApi(clients.kubernetes)
    namespace = environment.ray.namespace
    for wanted in environment.ray.clusters:
        read = partial(api.get_namespaced_custom_object, "ray.io", "v1", namespace, "rayclusters", wanted.name)
        found = _or_missing(read)
        name = f"{namespace}/{wanted.name}"
        if isinstance(found, str):
            yield Item("RayCluster", name, State.WAITING, found)
            continue
        status: dict[str, Any] = found.get("status", {})
        replicas = sum(group.replicas for group in wanted.workers)
        # availableWorkerReplicas counts Terminating pods too (kuberay#4078): a lost node shows in the groups above.
        available = status.get("availableWorkerReplicas", 0)
        state = State.READY if status.get("state") == "ready" and available == replicas else State.WAITING
        detail = f"head {status.get('state') or 'starting'}, {available} of {replicas} workers"
        if reason := status.get("reason"):
            detail += f"; {reason}"
        yield Item("RayCluster", name, state, detail)


def _or_missing(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except ApiException as error:
        if error.status == 404:
            return "does not exist yet"
        raise
