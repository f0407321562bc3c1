"""Join what SageMaker and Kubernetes know of each HyperPod node."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiException

from config import EksEnvironment
from config.labels import DEEP_HEALTH_LABEL, INSTANCE_GROUP_LABEL, NODE_HEALTH_LABEL
from k8s_charts.shared.names import RAY_NODE
from ops.clients import REQUEST_TIMEOUT, Clients
from ops.readiness.nodes import blocking_reason, list_nodes

Answer = Mapping[str, Any]

RUNNING: Final = "Running"
_RAY_PODS: Final = ",".join(f"{key}={value}" for key, value in RAY_NODE.items())


@dataclass(frozen=True)
class ClusterNode:
    """One instance of the HyperPod cluster.

    Attributes:
        status: InstanceStatus of ListClusterNodes.
        health: HyperPod's label node-health-status; "" if Kubernetes has no such node.
        deep_check: HyperPod's label deep-health-check-status; "" without deep health checks.
        hindrance: Why pods cannot run on it, or "".
        software: ImageVersionStatus of the node or its group; "" if SageMaker does not say it.
        pods: Its Ray pods that the caller may list, as NAMESPACE/NAME.
    """

    instance: str
    group: str
    type: str
    status: str
    health: str
    deep_check: str
    hindrance: str
    software: str
    pods: tuple[str, ...]

    @property
    def name(self) -> str:
        """The node's name in Kubernetes (AWS docs: HyperPod names a node after its instance)."""
        return f"hyperpod-{self.instance}"

    @property
    def is_usable(self) -> bool:
        """Whether the node runs and takes pods."""
        return not self.trouble

    @property
    def trouble(self) -> str:
        """What keeps pods off the node, or ""."""
        return self.hindrance if self.status == RUNNING else self.status

    def as_data(self) -> dict[str, Any]:
        """Return the node for JSON and YAML."""
        return {**asdict(self), "pods": list(self.pods)}


def nodes(environment: EksEnvironment, clients: Clients) -> list[ClusterNode]:
    """Return every node of the cluster, by group and instance."""
    name = environment.hyperpod.cluster_name
    groups = clients.sagemaker.describe_cluster(ClusterName=name)["InstanceGroups"]
    software = {group["InstanceGroupName"]: group.get("ImageVersionStatus", "") for group in groups}
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    listed = core.list_node(label_selector=INSTANCE_GROUP_LABEL, _request_timeout=REQUEST_TIMEOUT).items
    in_kubernetes = {node.metadata.name: node for node in listed}
    pods: dict[str, list[str]] = {}
    for pod in _visible_ray_pods(environment, clients.kubernetes):
        pods.setdefault(pod.spec.node_name or "", []).append(f"{pod.metadata.namespace}/{pod.metadata.name}")
    found = [_node(each, in_kubernetes, software, pods) for each in list_nodes(clients.sagemaker, name)]
    return sorted(found, key=lambda node: (node.group, node.instance))


def ray_pods(api: kubernetes.client.ApiClient, namespace: str | None = None) -> list[Any]:
    """Return Ray's pods of a namespace, or of all namespaces, that are not terminating."""
    core = kubernetes.client.CoreV1Api(api)
    options: dict[str, Any] = {"label_selector": _RAY_PODS, "_request_timeout": REQUEST_TIMEOUT}
    if namespace is None:
        listed = core.list_pod_for_all_namespaces(**options).items
    else:
        listed = core.list_namespaced_pod(namespace, **options).items
    return [pod for pod in listed if not pod.metadata.deletion_timestamp]


def _visible_ray_pods(environment: EksEnvironment, api: kubernetes.client.ApiClient) -> list[Any]:
    """Return Ray's pods of all namespaces, or of Ray's own if the API server shows the caller no more."""
    try:
        return ray_pods(api)
    except ApiException as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
    return ray_pods(api, environment.ray.namespace)


def _node(
    found: Answer, in_kubernetes: Mapping[str, Any], software: Mapping[str, str], pods: Mapping[str, list[str]]
) -> ClusterNode:
    name = f"hyperpod-{found['InstanceId']}"
    node = in_kubernetes.get(name)
    labels = (node.metadata.labels or {}) if node else {}
    return ClusterNode(
        instance=found["InstanceId"],
        group=found["InstanceGroupName"],
        type=found["InstanceType"],
        status=found["InstanceStatus"]["Status"],
        health=labels.get(NODE_HEALTH_LABEL, ""),
        deep_check=labels.get(DEEP_HEALTH_LABEL, ""),
        hindrance=blocking_reason(node) if node else "not in Kubernetes",
        software=found.get("ImageVersionStatus") or software.get(found["InstanceGroupName"], ""),
        pods=tuple(sorted(pods.get(name, ()))),
    )
