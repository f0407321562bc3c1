"""Describe HyperPod nodes as Kubernetes Node objects: name, labels, taints and allocatable resources.

Sources of labels and taints: AWS docs, sagemaker-hyperpod-eks-resiliency-node-labels and
sagemaker-hyperpod-eks-prerequisites; awslabs/awsome-distributed-ai 95b939cd, hyperpod-mental-model.md.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from embedded_account.hyperpod.model import DeepCheck, Node, NodeHealth, SimulatedCluster, SimulatedGroup
from embedded_account.kubernetes.allocatable import allocatable

PREFIX: Final = "sagemaker.amazonaws.com"
HEALTH_LABEL: Final = f"{PREFIX}/node-health-status"
DEEP_CHECK_LABEL: Final = f"{PREFIX}/deep-health-check-status"
UNSCHEDULABLE_TAINT: Final = {"key": HEALTH_LABEL, "value": NodeHealth.UNSCHEDULABLE.value, "effect": "NoSchedule"}


@dataclass(frozen=True)
class KubernetesNode:
    """A Node object; `allocatable` and `taints` have the form of the Kubernetes API."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


def as_kubernetes(cluster: SimulatedCluster, node: Node) -> KubernetesNode:
    """Return the Node object for the node's present state.

    HyperPod taints a node for deep health checks, and for a fault that its monitoring agent finds. A node that somebody
    else labelled for a replacement has only the label.
    """
    config = _kubernetes_config(cluster.groups.get(node.group))
    fault = _found_fault(node)
    return KubernetesNode(
        name=node.kubernetes_name,
        labels=config.get("Labels", {}) | _labels(cluster, node),
        annotations={f"{PREFIX}/fault-details": json.dumps([{"reason": fault}])} if fault else {},
        allocatable=quantities(node),
        taints=(
            *map(_taint, config.get("Taints", [])),
            *([UNSCHEDULABLE_TAINT] if fault or node.deep_check is DeepCheck.IN_PROGRESS else []),
        ),
    )


def quantities(node: Node) -> dict[str, str]:
    """Return the node's allocatable resources and its pod limit as Kubernetes quantities."""
    kind = node.instance_type
    offered = allocatable(
        cpus=kind.vcpus_at(node.threads_per_core),
        memory_gib=kind.memory_gib,
        pods=kind.pod_cap,
        hugepages_mib=kind.hugepages_mib,
    )
    devices = {name: str(count) for name, count in kind.devices.items()}
    resources = offered.quantities | {"pods": str(kind.pod_cap)} | devices
    if kind.hugepages_mib:
        resources["hugepages-2Mi"] = f"{kind.hugepages_mib}Mi"
    return resources


def _labels(cluster: SimulatedCluster, node: Node) -> dict[str, str]:
    in_deep_check = node.deep_check is DeepCheck.IN_PROGRESS
    region = cluster.arn.split(":")[3]
    labels = {
        f"{PREFIX}/cluster-name": cluster.name,
        f"{PREFIX}/compute-type": "hyperpod",
        f"{PREFIX}/instance-group-name": node.group,
        HEALTH_LABEL: NodeHealth.UNSCHEDULABLE if in_deep_check else node.health,
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
    if fault := _found_fault(node):
        labels |= dict.fromkeys((f"{PREFIX}/fault-types", f"{PREFIX}/fault-reasons"), fault)
    return {key: str(value) for key, value in labels.items()}


def _found_fault(node: Node) -> str:
    """Return the node's fault once the monitoring agent has found it, else ""."""
    return node.fault if node.health is not NodeHealth.SCHEDULABLE else ""


def _kubernetes_config(group: SimulatedGroup | None) -> dict[str, Any]:
    return dict(group.specification.get("KubernetesConfig", {})) if group else {}


def _taint(taint: Mapping[str, str]) -> dict[str, str]:
    return {"key": taint["Key"], "value": taint.get("Value", ""), "effect": taint["Effect"]}
