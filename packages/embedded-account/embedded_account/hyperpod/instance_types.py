"""The instance types that the simulated service knows.

AWS knows its types whatever a project's catalogue says of them. Where the catalogue has no row (an environment then
states the figures itself), EC2's record answers, by the rules that the catalogue's file names for estimates.
"""

from functools import cache

from moto.ec2.models.instance_types import INSTANCE_TYPES

from config.facts.instance_types import GPU_RESOURCE, InstanceType, catalogue


@cache
def find(name: str) -> InstanceType | None:
    """Return the type `ml.…`; None for one that EC2's record does not have or that is not x86-64 (not simulated)."""
    if known := catalogue().get(name):
        return known
    ec2 = INSTANCE_TYPES.get(name.removeprefix("ml."), {})
    if not name.startswith("ml.") or "x86_64" not in ec2.get("ProcessorInfo", {}).get("SupportedArchitectures", ()):
        return None
    cpu, network = ec2["VCpuInfo"], ec2["NetworkInfo"]
    gpus = sum(each["Count"] for each in ec2.get("GpuInfo", {}).get("Gpus", ()))
    neuron = sum(each["Count"] for each in ec2.get("NeuronInfo", {}).get("NeuronDevices", ()))
    efa = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    addresses = network["Ipv4AddressesPerInterface"]
    return InstanceType(
        name=name,
        vcpus=cpu["DefaultVCpus"],
        memory_gib=max(1, ec2["MemoryInfo"]["SizeInMiB"] // 1024),
        threads_per_core=tuple(cpu.get("ValidThreadsPerCore", (cpu["DefaultThreadsPerCore"],))),
        pod_cap=addresses - 1,
        ips_per_node=addresses - 1 + network["MaximumNetworkCards"],
        accelerators=gpus or neuron,
        accelerator_resource=GPU_RESOURCE if gpus else "aws.amazon.com/neuron" if neuron else None,
        efa=efa,
        hugepages_mib=2 * (110 * cpu["DefaultVCpus"] + 1) if efa else 0,
        source="EC2 DescribeInstanceTypes",
    )
