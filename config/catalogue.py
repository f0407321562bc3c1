"""The catalogue of HyperPod instance types: nominal figures, read from `instance_types.yaml`."""

from functools import cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, PositiveInt
from ruamel.yaml import YAML

CATALOGUE_FILE: Final = Path(__file__).with_name("instance_types.yaml")
GPU_RESOURCE: Final = "nvidia.com/gpu"
EFA_RESOURCE: Final = "vpc.amazonaws.com/efa"


class InstanceType(BaseModel):
    """Nominal figures of one instance type.

    `vcpus` counts hardware threads at the largest `threads_per_core`; memory in GiB; `pod_cap` is the most pods
    that HyperPod's single network interface allows; `ips_per_node` the private addresses one node takes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    vcpus: PositiveInt
    memory_gib: PositiveInt
    threads_per_core: tuple[int, ...]
    pod_cap: PositiveInt
    ips_per_node: PositiveInt
    gpus: int = 0
    efa: int = 0
    hugepages_mib: int = 0

    @property
    def accelerated(self) -> bool:
        """Whether HyperPod offers deep health checks and automatic replacement for it (not for CPU types)."""
        return self.gpus > 0

    def vcpus_at(self, threads_per_core: int) -> int:
        """CPUs that the operating system sees with the given threads per core."""
        return self.vcpus * threads_per_core // max(self.threads_per_core)


@cache
def catalogue() -> dict[str, InstanceType]:
    """All known instance types by name."""
    rows = YAML(typ="safe").load(CATALOGUE_FILE)
    return {name: InstanceType(name=name, **row) for name, row in rows.items()}
