"""What the kubelet of a node with EKS's image offers to pods.

The reserves are those of awslabs/amazon-eks-ami (nodeadm, internal/kubelet): CPU 6 % of the first core, 1 % of the
second, 0.5 % of the next two, 0.25 % of the rest; memory 255 MiB and 11 MiB per pod; eviction below 100 MiB free.
Firmware and kernel take a part of the nominal memory first: 5 % here, 2.3 to 2.6 % of what EKS nodes of 1 and 2 TiB
showed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GPU_RESOURCE: Final = "nvidia.com/gpu"

_CPU_RESERVES: Final[Sequence[float]] = (60, 10, 5, 5)
"""Millicores kept of the first cores."""
_CPU_RESERVE_OF_FURTHER: Final = 2.5
_MEMORY_OF_NOMINAL: Final = 0.95
_MEMORY_RESERVE_MIB: Final = 255
_MEMORY_RESERVE_PER_POD_MIB: Final = 11
_EVICTION_MIB: Final = 100


@dataclass(frozen=True)
class Allocatable:
    """CPU in millicores, memory in MiB."""

    cpu_millis: int
    memory_mib: int

    @property
    def quantities(self) -> dict[str, str]:
        """Return both as Kubernetes spells them."""
        return {"cpu": f"{self.cpu_millis}m", "memory": f"{self.memory_mib}Mi"}


def allocatable(*, cpus: int, memory_gib: int, pods: int, hugepages_mib: int = 0) -> Allocatable:
    """Return what pods can have of a node with this nominal size; `pods` is the most that it takes."""
    further = max(0, cpus - len(_CPU_RESERVES)) * _CPU_RESERVE_OF_FURTHER
    memory_mib = int(memory_gib * 1024 * _MEMORY_OF_NOMINAL)
    kept_mib = _MEMORY_RESERVE_MIB + _MEMORY_RESERVE_PER_POD_MIB * pods + _EVICTION_MIB
    return Allocatable(
        cpu_millis=cpus * 1000 - int(sum(_CPU_RESERVES[:cpus]) + further),
        memory_mib=memory_mib - kept_mib - hugepages_mib,
    )
