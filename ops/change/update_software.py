"""`ops update-software`: HyperPod's platform software, on nodes where nothing runs.

An operator's command and no property of the deployment: it wipes the nodes' root volumes and runs the lifecycle
scripts anew, which nobody should get as a by-product of a changed count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import kubernetes

from config import Environment
from config.labels import INSTANCE_GROUP_LABEL
from ops.change.scale import RAY_PODS, RefusedError, in_service, refuse_deep_checks
from ops.clients import REQUEST_TIMEOUT, Clients
from ops.readiness.nodes import list_nodes


@dataclass(frozen=True)
class SoftwareUpdate:
    """What is updated. `ray_clusters`, by namespace and name, have pods on its nodes."""

    cluster: str
    groups: tuple[str, ...]
    nodes: int
    ray_clusters: frozenset[tuple[str, str]]


def look(environment: Environment, clients: Clients, groups: Sequence[str]) -> SoftwareUpdate:
    """Find what an update of the groups (all when none is named) reaches; Refused when HyperPod takes none now."""
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
    """Send UpdateClusterSoftware; HyperPod rolls a group back by itself when its nodes do not come up."""
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
