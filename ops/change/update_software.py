"""`ops update-software`: update HyperPod's platform software on nodes without Ray jobs.

It is a command and not a property of the deployment: it wipes the nodes' root volumes and reruns the lifecycle scripts.
Nobody should get that as a side effect of a changed count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import kubernetes

from config import Environment
from config.labels import INSTANCE_GROUP_LABEL
from ops.change.scale import RAY_PODS, in_service, refuse_deep_checks
from ops.clients import REQUEST_TIMEOUT, Clients
from ops.errors import RefusedError
from ops.readiness.nodes import list_nodes


@dataclass(frozen=True)
class SoftwareUpdate:
    """A software update. `ray_clusters` are the (namespace, name) of RayClusters with pods on its nodes."""

    cluster: str
    groups: tuple[str, ...]
    nodes: int
    ray_clusters: frozenset[tuple[str, str]]


def plan_update(environment: Environment, clients: Clients, groups: Sequence[str]) -> SoftwareUpdate:
    """Plan an update of the groups; an empty `groups` means all. Raises RefusedError if HyperPod accepts none now."""
    cluster = in_service(clients.sagemaker, environment.hyperpod.cluster_name)
    existing = [group["InstanceGroupName"] for group in cluster["InstanceGroups"]]
    if unknown := [name for name in groups if name not in existing]:
        allowed = ", ".join(existing)
        raise RefusedError(f"the cluster has no instance group {', '.join(unknown)}. Allowed: {allowed}")
    chosen = tuple(groups) or tuple(existing)
    nodes = list_nodes(clients.sagemaker, cluster["ClusterName"])
    refuse_deep_checks(nodes)
    return SoftwareUpdate(
        cluster=cluster["ClusterName"],
        groups=chosen,
        nodes=sum(node["InstanceGroupName"] in chosen for node in nodes),
        ray_clusters=frozenset(_ray_clusters(clients.kubernetes, chosen)),
    )


def begin(update: SoftwareUpdate, sagemaker: Any) -> None:
    """Call UpdateClusterSoftware; HyperPod itself rolls a group back if its nodes do not come up."""
    groups = [{"InstanceGroupName": name} for name in update.groups]
    sagemaker.update_cluster_software(ClusterName=update.cluster, InstanceGroups=groups)


def _ray_clusters(api: kubernetes.client.ApiClient, groups: Sequence[str]) -> set[tuple[str, str]]:
    core = kubernetes.client.CoreV1Api(api)
    selector = f"{INSTANCE_GROUP_LABEL} in ({','.join(groups)})"
    names = {
        node.metadata.name for node in core.list_node(label_selector=selector, _request_timeout=REQUEST_TIMEOUT).items
    }
    pods = core.list_pod_for_all_namespaces(label_selector=RAY_PODS, _request_timeout=REQUEST_TIMEOUT)
    return {
        (pod.metadata.namespace, pod.metadata.labels["ray.io/cluster"])
        for pod in pods.items
        if pod.spec.node_name in names
    }
