"""How a HyperPod node looks in Kubernetes: name, labels, taints and what pods can have of it.

Labels and taints: AWS docs, sagemaker-hyperpod-eks-resiliency-node-labels and sagemaker-hyperpod-eks-prerequisites.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from config.facts.capacity import allocatable
from embedded_account.hyperpod.model import DeepCheck, Group, Health, HyperPodCluster, Node

PREFIX: Final = "sagemaker.amazonaws.com"
HEALTH_LABEL: Final = f"{PREFIX}/node-health-status"
DEEP_CHECK_LABEL: Final = f"{PREFIX}/deep-health-check-status"
DEEP_CHECK_TAINT: Final = {"key": HEALTH_LABEL, "value": Health.UNSCHEDULABLE.value, "effect": "NoSchedule"}


@dataclass(frozen=True)
class KubernetesNode:
    """A Node object: quantities in `allocatable` and taints as Kubernetes spells them."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


def as_kubernetes(cluster: HyperPodCluster, node: Node) -> KubernetesNode:
    """The Node object for the node in its present state.

    Only deep health checks taint a node. One that waits for its replacement is told by its label alone.
    """
    config = _kubernetes_config(cluster.groups.get(node.group))
    in_deep_check = node.deep_check is DeepCheck.IN_PROGRESS
    return KubernetesNode(
        name=node.kubernetes_name,
        labels=config.get("Labels", {}) | _labels(cluster, node),
        annotations={f"{PREFIX}/fault-details": node.fault} if node.fault else {},
        allocatable=quantities(node),
        taints=(*map(_taint, config.get("Taints", [])), *([DEEP_CHECK_TAINT] if in_deep_check else [])),
    )


def quantities(node: Node) -> dict[str, str]:
    """What pods can have of the node, with its pod cap, as Kubernetes quantities."""
    offered = allocatable(node.instance_type, node.threads_per_core)
    resources = {
        "cpu": f"{offered.cpu_millis}m",
        "memory": f"{offered.memory_mib}Mi",
        "pods": str(offered.pods),
        **{name: str(count) for name, count in offered.devices.items()},
    }
    if node.instance_type.hugepages_mib:
        resources["hugepages-2Mi"] = f"{node.instance_type.hugepages_mib}Mi"
    return resources


def _labels(cluster: HyperPodCluster, node: Node) -> dict[str, str]:
    in_deep_check = node.deep_check is DeepCheck.IN_PROGRESS
    region = cluster.arn.split(":")[3]
    labels = {
        f"{PREFIX}/cluster-name": cluster.name,
        f"{PREFIX}/compute-type": "hyperpod",
        f"{PREFIX}/instance-group-name": node.group,
        HEALTH_LABEL: Health.UNSCHEDULABLE if in_deep_check else node.health,
        "node.kubernetes.io/instance-type": node.instance_type.name,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": node.subnet.zone,
        "topology.k8s.aws/zone-id": node.subnet.zone_id,
        "kubernetes.io/hostname": node.kubernetes_name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    if node.deep_check:
        labels[DEEP_CHECK_LABEL] = node.deep_check
    if node.fault:
        labels[f"{PREFIX}/fault-types"] = node.fault
    return {key: str(value) for key, value in labels.items()}


def _kubernetes_config(group: Group | None) -> dict[str, Any]:
    return dict(group.specification.get("KubernetesConfig", {})) if group else {}


def _taint(taint: Mapping[str, str]) -> dict[str, str]:
    return {"key": taint["Key"], "value": taint.get("Value", ""), "effect": taint["Effect"]}
