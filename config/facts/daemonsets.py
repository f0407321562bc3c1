"""The pods beside Ray's on HyperPod nodes: DaemonSets of the deployed add-ons and charts, and floating pods.

All of them count against a node's pod cap, also those on the host's network: the kubelet counts pods, not addresses.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from config.facts.instance_types import GPU_RESOURCE, InstanceTypeFacts


class NodeScope(StrEnum):
    """Which nodes a DaemonSet runs on. Charts list instance types; these words cover those of the catalogue."""

    ALL = "all"
    GPU = "GPU"
    NEURON = "Neuron"
    EFA = "EFA"


class DaemonSet(NamedTuple):
    """One DaemonSet and what one of its pods requests: CPU in millicores, memory in MiB; 0 where it requests none."""

    name: str
    cpu_millis: int
    memory_mib: int
    nodes: NodeScope
    source: str


class FloatingPods(NamedTuple):
    """Pods of a Deployment without a node selector: the scheduler may place them on any node."""

    name: str
    pods: int
    source: str


_HYPERPOD_CHART: Final = "HyperPodHelmChart 0.1.0 (aws/sagemaker-hyperpod-cli)"

DAEMONSETS: Final = (
    # Two containers of 25m: aws-node and aws-eks-nodeagent, the one for network policies.
    DaemonSet("aws-node", 50, 0, NodeScope.ALL, "EKS add-on vpc-cni (aws/amazon-vpc-cni-k8s)"),
    DaemonSet("kube-proxy", 100, 0, NodeScope.ALL, "EKS add-on kube-proxy"),
    DaemonSet("eks-pod-identity-agent", 0, 0, NodeScope.ALL, "EKS add-on eks-pod-identity-agent"),
    # Three containers of 10m: the driver with 40Mi, its registrar and its liveness probe with 32Mi each.
    DaemonSet("fsx-csi-node", 30, 104, NodeScope.ALL, "aws-fsx-csi-driver 1.17.0, values.yaml"),
    DaemonSet("health-monitoring-agent", 500, 512, NodeScope.GPU, f"{_HYPERPOD_CHART}, health-monitoring-agent"),
    DaemonSet("health-monitoring-agent-non-nvidia", 500, 512, NodeScope.NEURON, f"{_HYPERPOD_CHART}, the same part"),
    DaemonSet("nvidia-device-plugin", 0, 0, NodeScope.GPU, "nvidia-device-plugin 0.16.1, values.yaml"),
    DaemonSet("neuron-device-plugin", 0, 0, NodeScope.NEURON, f"{_HYPERPOD_CHART}, neuron-device-plugin"),
    DaemonSet("aws-efa-k8s-device-plugin", 10, 20, NodeScope.EFA, "aws-efa-k8s-device-plugin 0.5.20, values.yaml"),
)

FLOATING_PODS: Final = (
    FloatingPods("coredns", 2, "EKS add-on coredns"),
    FloatingPods("training-operator", 1, f"{_HYPERPOD_CHART}, training-operators"),
    FloatingPods("mpi-operator", 1, f"{_HYPERPOD_CHART}, mpi-operator"),
)


class NodeLoad(NamedTuple):
    """What an environment's optional parts take of each node: DaemonSets, floating pods, percent of the memory."""

    daemonsets: tuple[DaemonSet, ...] = ()
    floating_pods: int = 0
    reserved_percent: int = 0


NO_LOAD: Final = NodeLoad()


def daemonsets_on(instance_type: InstanceTypeFacts, load: NodeLoad = NO_LOAD) -> list[DaemonSet]:
    """Return the DaemonSets on HyperPod nodes of this type."""
    accelerated = instance_type.accelerators > 0
    gpu = instance_type.accelerator_resource == GPU_RESOURCE
    kinds = {
        NodeScope.ALL: True,
        NodeScope.GPU: gpu,
        NodeScope.NEURON: accelerated and not gpu,
        NodeScope.EFA: instance_type.efa > 0,
    }
    return [each for each in (*DAEMONSETS, *load.daemonsets) if kinds[each.nodes]]


def system_pods(instance_type: InstanceTypeFacts, load: NodeLoad = NO_LOAD) -> int:
    """Return the most pods beside Ray's on a HyperPod node of this type: DaemonSets and all floating pods."""
    return len(daemonsets_on(instance_type, load)) + sum(each.pods for each in FLOATING_PODS) + load.floating_pods
