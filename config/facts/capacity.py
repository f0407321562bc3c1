"""Compute which part of a node's resources its pods can use.

    allocatable CPU    = CPUs at the group's threads per core - the kubelet's reserve
    allocatable memory = nominal x MEMORY_FRACTION - the kubelet's reserve - eviction threshold - hugepages

The kubelet's reserves are those of the EKS AMI (awslabs/amazon-eks-ami, nodeadm): CPU 6 % of the first core, 1 % of
the second, 0.5 % of the next two, 0.25 % of the rest; memory 255 MiB + 11 MiB per pod; eviction below 100 MiB free.
Seen: 1,930 m on a HyperPod ml.m5.xlarge with one thread per core, 95,690 m on EKS nodes with 96 CPUs.

MEMORY_FRACTION is the part of the nominal memory that firmware and kernel leave. EKS nodes showed 0.974 (p4de) and
0.977 (p5, 2 TiB); small ones keep less. 0.95 is an estimate on the safe side, not verified for every type.

Hugepages are what EFA reserves at the most threads per core. With one thread per core EFA may reserve less. The whole
is kept free, because a pod that requests too much would stay pending.
"""

from dataclasses import dataclass
from typing import Final

from config.facts.daemonsets import NO_LOAD, NodeLoad, daemonsets_on
from config.facts.instance_types import EFA_RESOURCE, GPU_RESOURCE, InstanceType

MEMORY_FRACTION: Final = 0.95
EVICTION_MIB: Final = 100
# The part that stays free after the DaemonSets' requests: for DaemonSets without requests, and for unknown overheads.
HEADROOM: Final = 0.05


# KubeRay's autoscaler container in the head pod; twice KubeRay's default memory, as it holds a record of every worker.
AUTOSCALER_CPU_MILLIS: Final = 500
AUTOSCALER_MEMORY_MIB: Final = 1024


class NodeTooSmallError(ValueError):
    """A node of this type has no room for a pod of a whole core and a whole GiB."""


@dataclass(frozen=True)
class NodeResources:
    """CPU in millicores, memory in MiB, whole accelerators and EFA interfaces, pods."""

    cpu_millis: int
    memory_mib: int
    accelerators: int = 0
    accelerator_resource: str | None = None
    cores_per_accelerator: int = 1
    efa: int = 0
    pods: int = 1

    @property
    def gpus(self) -> int:
        """Number of NVIDIA GPUs."""
        return self.accelerators if self.accelerator_resource == GPU_RESOURCE else 0

    @property
    def neuron_cores(self) -> int:
        """Number of NeuronCores of the Neuron devices."""
        return (self.accelerators - self.gpus) * self.cores_per_accelerator

    @property
    def devices(self) -> dict[str, int]:
        """Numbers of accelerators and EFA interfaces by Kubernetes resource name, without zeros."""
        devices = {self.accelerator_resource: self.accelerators, EFA_RESOURCE: self.efa}
        return {name: count for name, count in devices.items() if name and count}


def allocatable(instance_type: InstanceType, threads_per_core: int) -> NodeResources:
    """Return the resources that the kubelet of a HyperPod node of this type offers to pods.

    Raises NodeTooSmallError when the reserves leave nothing.
    """
    cpus = instance_type.vcpus_at(threads_per_core)
    cpu_millis = cpus * 1000 - _reserved_cpu_millis(cpus)
    memory_mib = int(instance_type.memory_gib * 1024 * MEMORY_FRACTION)
    memory_mib -= 255 + 11 * instance_type.pod_cap + EVICTION_MIB + instance_type.hugepages_mib
    if cpu_millis <= 0 or memory_mib <= 0:
        raise NodeTooSmallError(f"{instance_type.name}: the kubelet's reserves and hugepages leave no memory to pods")
    return NodeResources(
        cpu_millis=cpu_millis,
        memory_mib=memory_mib,
        accelerators=instance_type.accelerators,
        accelerator_resource=instance_type.accelerator_resource,
        cores_per_accelerator=instance_type.cores_per_accelerator,
        efa=instance_type.efa,
        pods=instance_type.pod_cap,
    )


def share_mib(instance_type: InstanceType, percent: int) -> int:
    """Return so many percent of a node's nominal memory."""
    return int(instance_type.memory_gib * 1024 * percent / 100)


def whole_node_pod(instance_type: InstanceType, threads_per_core: int, load: NodeLoad = NO_LOAD) -> NodeResources:
    """Return the requests of a pod that has a node to itself beside the DaemonSets and the `load` (a Ray worker).

    CPU is rounded down to whole cores and memory to whole GiB, so that manifests stay readable and Ray counts whole
    CPUs. Raises NodeTooSmallError when less than one of either is left.
    """
    node = allocatable(instance_type, threads_per_core)
    daemonsets = daemonsets_on(instance_type, load)
    cpus = int((node.cpu_millis - sum(each.cpu_millis for each in daemonsets)) * (1 - HEADROOM)) // 1000
    memory_mib = node.memory_mib - sum(each.memory_mib for each in daemonsets)
    memory_mib -= share_mib(instance_type, load.reserved_percent)
    memory_gib = int(memory_mib * (1 - HEADROOM)) // 1024
    if cpus < 1 or memory_gib < 1:
        raise NodeTooSmallError(
            f"{instance_type.name} with threads_per_core {threads_per_core} has {node.cpu_millis}m CPU and "
            f"{node.memory_mib} MiB for pods: beside its DaemonSets less than 1 CPU and 1 GiB is left"
        )
    return NodeResources(
        cpu_millis=cpus * 1000,
        memory_mib=memory_gib * 1024,
        accelerators=node.accelerators,
        accelerator_resource=node.accelerator_resource,
        cores_per_accelerator=node.cores_per_accelerator,
        efa=node.efa,
    )


def _reserved_cpu_millis(cpus: int) -> int:
    steps = [60, 10, 5, 5]
    return int(sum(steps[:cpus]) + 2.5 * max(0, cpus - len(steps)))
