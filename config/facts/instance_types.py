"""Read the catalogue of HyperPod instance types, `instance_types.yaml`: nominal figures, regions and prices."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from config.facts.tables import read_table

CATALOGUE_FILE: Final = Path(__file__).with_name("instance_types.yaml")
GPU_RESOURCE: Final = "nvidia.com/gpu"
EFA_RESOURCE: Final = "vpc.amazonaws.com/efa"

AcceleratorResource = Literal["nvidia.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"]
Estimate = Literal[
    "vcpus", "memory_gib", "threads_per_core", "pod_cap", "ips_per_node", "accelerators", "efa", "hugepages_mib"
]


class InstanceTypeFacts(BaseModel):
    """Nominal figures of one instance type, without its name."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)

    vcpus: PositiveInt = Field(description="Hardware threads at the largest of `threads_per_core`.")
    memory_gib: PositiveInt = Field(description="Memory in whole GiB, rounded down.")
    threads_per_core: tuple[Literal[1, 2], ...] = Field(
        min_length=1, description="Allowed `threads_per_core` of an instance group: EC2's valid threads per core."
    )
    pod_cap: PositiveInt = Field(description="Most pods on a node, limited by HyperPod's single network interface.")
    ips_per_node: PositiveInt = Field(description="Addresses of its subnet that one node uses.")
    accelerators: NonNegativeInt = Field(default=0, description="GPUs, or Neuron devices.")
    accelerator_resource: AcceleratorResource | None = Field(
        default=None, description="Kubernetes' resource name of the accelerators; required if there are any."
    )
    cores_per_accelerator: PositiveInt = Field(
        default=1, description="NeuronCores per Neuron device, as its runtime numbers them; Ray counts cores."
    )
    efa: NonNegativeInt = Field(default=0, description="EFA interfaces.")
    hugepages_mib: NonNegativeInt = Field(default=0, description="Memory in MiB that EFA reserves as 2 MiB pages.")
    unverified: tuple[Estimate, ...] = Field(
        default=(), description="Figures that are estimates; `ops check` marks them where the type is used."
    )
    source: str = Field(default="the environment file", description="Where the figures come from.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.accelerators > 0) != (self.accelerator_resource is not None):
            given = "accelerators" if self.accelerators else "accelerator_resource"
            raise _disagreement(
                f"it has only {given}", "accelerators together with accelerator_resource", "give both or none"
            )
        if self.cores_per_accelerator > 1 and self.accelerator_resource in (None, GPU_RESOURCE):
            raise _disagreement(
                f"cores_per_accelerator is {self.cores_per_accelerator} without Neuron devices",
                "cores_per_accelerator beside accelerators that are Neuron devices",
                "remove cores_per_accelerator",
            )
        if self.hugepages_mib >= self.memory_gib * 1024:
            raise _disagreement(
                f"hugepages_mib {self.hugepages_mib} is not less than memory_gib {self.memory_gib}",
                f"hugepages_mib of less than {self.memory_gib * 1024}",
                "lower hugepages_mib",
            )
        return self


def _disagreement(reason: str, allowed: str, fix: str) -> PydanticCustomError:
    return PydanticCustomError("facts_disagree", "{reason}", {"reason": reason, "allowed": allowed, "fix": fix})


class InstanceType(InstanceTypeFacts):
    """One instance type: its HyperPod name (`ml.…`) and its nominal figures."""

    name: str
    cuda: str | None = None
    """The oldest CUDA that computes on its GPUs, where the Ray image's may be older."""
    network_gbps: float | None = None
    """Nominal bandwidth of a node in Gbit/s; None for a type of an environment's own figures."""
    regions: tuple[str, ...] = ()
    """Regions that are known to offer it in EC2."""
    usd_per_hour: float | None = None
    """On-demand price in HyperPod, if it is known."""
    ec2_usd_per_hour: float | None = None
    """On-demand price of the same type in EC2, if it is known."""

    @property
    def accelerated(self) -> bool:
        """Whether HyperPod offers deep health checks and automatic replacement for it (not for CPU types)."""
        return self.accelerators > 0

    @property
    def gpus(self) -> int:
        """Number of NVIDIA GPUs."""
        return self.accelerators if self.accelerator_resource == GPU_RESOURCE else 0

    def vcpus_at(self, threads_per_core: int) -> int:
        """Return the number of CPUs that the operating system sees with the given threads per core."""
        return self.vcpus * threads_per_core // max(self.threads_per_core)


@cache
def catalogue() -> dict[str, InstanceType]:
    """Return all known instance types by name."""
    rows = []
    for family, facts in _families().items():
        shared = {key: fact for key, fact in facts.items() if key != "sizes"}
        rows += [shared | figures | {"name": f"ml.{family}.{size}"} for size, figures in facts["sizes"].items()]
    # From JSON: only there do strict models accept lists as tuples.
    types = TypeAdapter(list[InstanceType]).validate_json(json.dumps(rows))
    return {each.name: each for each in types}


def regions_of(name: str) -> tuple[str, ...] | None:
    """Return the regions that are known to offer a type, by its name in EC2 or in HyperPod.

    A size that is not listed has its family's. None for a family that is not in the catalogue.
    """
    name = name.removeprefix("ml.")
    if known := catalogue().get(f"ml.{name}"):
        return known.regions
    family = _families().get(name.partition(".")[0])
    return tuple(family["regions"]) if family else None


@cache
def _families() -> dict[str, dict[str, Any]]:
    families: dict[str, dict[str, Any]] = read_table(CATALOGUE_FILE)["families"]
    return families


def instance_type(name: str, facts: InstanceTypeFacts | None) -> InstanceType | None:
    """Return what is known of a type: the environment's own figures, else the catalogue's, else None."""
    return InstanceType(name=name, **dict(facts)) if facts else catalogue().get(name)
