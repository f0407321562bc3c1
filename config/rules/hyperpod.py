"""Rules of the HyperPod cluster and its instance groups."""

from collections.abc import Iterator

from config.catalogue import catalogue
from config.model import Environment, InstanceGroup
from config.rules.rule import error


def groups(environment: Environment) -> Iterator[tuple[str, InstanceGroup]]:
    """Each instance group with its key."""
    for n, group in enumerate(environment.hyperpod.instance_groups):
        yield f"hyperpod.instance_groups.{n}", group


@error("V3")
def known_instance_types(environment: Environment) -> Iterator[tuple[str, str]]:
    """What a type offers decides Ray's requests, subnets and pods: it must be known."""
    for key, group in groups(environment):
        if group.instance_type not in catalogue():
            allowed = ", ".join(sorted(catalogue()))
            yield f"{key}.instance_type", f"{group.instance_type!r} is not in the catalogue; allowed: {allowed}"


@error("V4")
def threads_per_core(environment: Environment) -> Iterator[tuple[str, str]]:
    """EC2 refuses two threads per core where the type has no hyper-threads (VCpuInfo.ValidThreadsPerCore)."""
    for key, group in groups(environment):
        if group.instance_type in catalogue() and group.threads_per_core not in group.type.threads_per_core:
            allowed = ", ".join(map(str, group.type.threads_per_core))
            yield f"{key}.threads_per_core", f"{group.threads_per_core} on {group.instance_type}; allowed: {allowed}"


@error("V5")
def deep_health_checks(environment: Environment) -> Iterator[tuple[str, str]]:
    """Deep health checks are for accelerators (AWS docs: sagemaker-hyperpod-eks-resiliency-deep-health-checks)."""
    for key, group in groups(environment):
        if group.deep_health_checks and group.instance_type in catalogue() and not group.type.accelerated:
            yield f"{key}.deep_health_checks", f"need an accelerated instance type, not {group.instance_type}"


@error("V18")
def volumes(environment: Environment) -> Iterator[tuple[str, str]]:
    """SageMaker CreateCluster: EbsVolumeConfig.VolumeSizeInGB."""
    for key, group in groups(environment):
        if not 1 <= group.volume_gib <= 16384:
            yield f"{key}.volume_gib", f"{group.volume_gib}; allowed: 1 to 16384"


@error("V25")
def distinct_groups(environment: Environment) -> Iterator[tuple[str, str]]:
    """HyperPod and Ray's pods find a group by its name."""
    names = [group.name for group in environment.hyperpod.instance_groups]
    if len(set(names)) != len(names):
        yield "hyperpod.instance_groups", f"names {names} must differ"
