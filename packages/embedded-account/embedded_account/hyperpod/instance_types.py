"""Describe the instance types that the simulator supports, based on moto's copy of EC2's DescribeInstanceTypes.

Two figures are derived, because EC2 does not give them:

- Pods and subnet addresses per node. A HyperPod node has one network interface for pods; pods use all its addresses
  except the first (AWS docs, sagemaker-hyperpod-eks-prerequisites, table of pods per instance type). Each further
  network card takes one subnet address (sagemaker-hyperpod-prerequisites: 81 addresses for an ml.p5.48xlarge).
- Huge pages. EFA's software reserves 110 pages of 2 MiB per CPU, plus one page (bottlerocket-core-kit, corndog;
  awslabs/libfabric-ci-scripts, efa-check.sh).
"""

from dataclasses import dataclass
from functools import cache
from typing import Final

from moto.ec2.models.instance_types import INSTANCE_TYPES

from embedded_account.kubernetes.allocatable import GPU_RESOURCE

NEURON_RESOURCE: Final = "aws.amazon.com/neuron"
EFA_RESOURCE: Final = "vpc.amazonaws.com/efa"
_EFA_PAGES_PER_CPU: Final = 110
_PAGE_MIB: Final = 2
# EC2's record of G5 has no ValidThreadsPerCore (EC2 user guide, "CPU options for accelerated computing instances").
_VALID_THREADS_PER_CORE: Final = {"g5": (1, 2)}


@dataclass(frozen=True)
class NodeType:
    """An instance type. `vcpus` counts the CPUs at the maximum threads per core; `memory_gib` is rounded down."""

    name: str
    vcpus: int
    memory_gib: int
    threads_per_core: tuple[int, ...]
    pod_cap: int
    ips_per_node: int
    accelerators: int
    accelerator_resource: str | None
    efa: int
    hugepages_mib: int

    @property
    def accelerated(self) -> bool:
        """Whether HyperPod offers deep health checks and automatic replacement for this type (not for CPU types)."""
        return self.accelerators > 0

    @property
    def devices(self) -> dict[str, int]:
        """The numbers of accelerators and EFA interfaces, by Kubernetes resource name."""
        devices = {self.accelerator_resource: self.accelerators, EFA_RESOURCE: self.efa}
        return {name: count for name, count in devices.items() if name and count}

    def vcpus_at(self, threads_per_core: int) -> int:
        """Return the number of CPUs that the operating system sees with this many threads per core."""
        return self.vcpus * threads_per_core // max(self.threads_per_core)


@cache
def find(name: str) -> NodeType | None:
    """Return the type with this name (`ml.…`); None if EC2's record lacks it or it is not x86-64 (not simulated)."""
    ec2_name = name.removeprefix("ml.")
    ec2 = INSTANCE_TYPES.get(ec2_name, {})
    if not name.startswith("ml.") or "x86_64" not in ec2.get("ProcessorInfo", {}).get("SupportedArchitectures", ()):
        return None
    cpu, network = ec2["VCpuInfo"], ec2["NetworkInfo"]
    gpus = sum(each["Count"] for each in ec2.get("GpuInfo", {}).get("Gpus", ()))
    neuron = sum(each["Count"] for each in ec2.get("NeuronInfo", {}).get("NeuronDevices", ()))
    efa = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    pods = network["Ipv4AddressesPerInterface"] - 1
    threads = _VALID_THREADS_PER_CORE.get(ec2_name.partition(".")[0], (cpu["DefaultThreadsPerCore"],))
    return NodeType(
        name=name,
        vcpus=cpu["DefaultVCpus"],
        memory_gib=max(1, ec2["MemoryInfo"]["SizeInMiB"] // 1024),
        threads_per_core=tuple(cpu.get("ValidThreadsPerCore", threads)),
        pod_cap=pods,
        ips_per_node=pods + network["MaximumNetworkCards"],
        accelerators=gpus or neuron,
        accelerator_resource=GPU_RESOURCE if gpus else NEURON_RESOURCE if neuron else None,
        efa=efa,
        hugepages_mib=_PAGE_MIB * (_EFA_PAGES_PER_CPU * cpu["DefaultVCpus"] + 1) if efa else 0,
    )
