"""What of an instance type a pod can have.

allocatable = nominal x the fraction that the kernel leaves - what EKS's kubelet reserves - hugepages.

Sources: the kubelet reserves of the EKS AMI (awslabs/amazon-eks-ami, nodeadm: CPU 6 % of the first core, 1 % of
the second, 0.5 % of the next two, 0.25 % of the rest; memory 255 MiB + 11 MiB per pod; hard eviction at 100 MiB),
confirmed for HyperPod by 1,930 m allocatable on an ml.m5.xlarge with one thread per core. The fraction that
firmware and kernel take from the nominal memory is an estimate and not verified on AWS.
"""

from dataclasses import dataclass
from typing import Final

from config.catalogue import InstanceType

MEMORY_FRACTION: Final = 0.95
# Requests of the DaemonSets on a GPU node: VPC CNI, kube-proxy, pod identity agent, FSx CSI node, health
# monitoring agent, NVIDIA and EFA device plugins.
DAEMONSET_CPU_MILLIS: Final = 600
DAEMONSET_MEMORY_MIB: Final = 2048
# Left free of what remains, for what the formula does not know.
HEADROOM: Final = 0.05


@dataclass(frozen=True)
class Resources:
    """CPU in millicores, memory in MiB, whole GPUs and EFA interfaces, pods."""

    cpu_millis: int
    memory_mib: int
    gpus: int
    efa: int
    pods: int


def allocatable(instance_type: InstanceType, threads_per_core: int) -> Resources:
    """Return what the kubelet of a HyperPod node of this type offers to pods."""
    cpus = instance_type.vcpus_at(threads_per_core)
    memory_mib = int(instance_type.memory_gib * 1024 * MEMORY_FRACTION)
    memory_mib -= 255 + 11 * instance_type.pod_cap + 100 + instance_type.hugepages_mib
    return Resources(
        cpu_millis=cpus * 1000 - _reserved_cpu_millis(cpus),
        memory_mib=memory_mib,
        gpus=instance_type.gpus,
        efa=instance_type.efa,
        pods=instance_type.pod_cap,
    )


def whole_node_pod(instance_type: InstanceType, threads_per_core: int) -> Resources:
    """Return the requests of a pod that has a node to itself beside the DaemonSets (a Ray worker).

    CPU is rounded down to whole cores and memory to whole GiB, so that manifests stay readable.
    """
    node = allocatable(instance_type, threads_per_core)
    cpu_millis = int((node.cpu_millis - DAEMONSET_CPU_MILLIS) * (1 - HEADROOM))
    memory_mib = int((node.memory_mib - DAEMONSET_MEMORY_MIB) * (1 - HEADROOM))
    return Resources(
        cpu_millis=cpu_millis // 1000 * 1000,
        memory_mib=memory_mib // 1024 * 1024,
        gpus=node.gpus,
        efa=node.efa,
        pods=1,
    )


def _reserved_cpu_millis(cpus: int) -> int:
    steps = [60, 10, 5, 5]
    return int(sum(steps[:cpus]) + 2.5 * max(0, cpus - len(steps)))
