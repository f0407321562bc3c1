"""Rules about the zones of nodes, file system and capacity."""

from collections.abc import Iterator
from functools import singledispatch

from config.estimates.addresses import subnet_uses
from config.model import EksEnvironment, Environment, InstanceGroup, SlurmEnvironment
from config.rules.parts import by_name, clusters, groups, is_known
from config.rules.rule import Violation, error, warning


def zone_of(environment: Environment, group: InstanceGroup) -> str:
    """Return the zone of a group's nodes."""
    return group.zone or environment.network.node_zones[0]


def _zones_are_known(environment: Environment) -> bool:
    zones = environment.network.node_zones
    return bool(zones) and all(group.zone in {None, *zones} for _, group in groups(environment))


@error("V32")
def zones_with_a_subnet(environment: Environment) -> Iterator[Violation]:
    """Require a zone that has a subnet for nodes.

    Why: a group's nodes need a subnet in their zone.
    Source: SageMaker API reference, CreateCluster: OverrideVpcConfig.
    Example: hyperpod.instance_groups.0.zone: usw2-az3
    """
    zones = environment.network.node_zones
    for key, group in groups(environment):
        if zones and group.zone and group.zone not in zones:
            reason, fix = "the network has no node subnet in it", "choose one of them, or add the zone to the network"
            yield Violation(f"{key}.zone", reason, ", ".join(zones), fix)


@error("V33")
def zone_of_a_training_plan(environment: Environment) -> Iterator[Violation]:
    """Require the zone of a training plan.

    Why: a plan's capacity is in one zone, which the project cannot look up.
    Source: AWS docs, sagemaker-hyperpod-prerequisites; awslabs/agent-plugins, capacity-planning.md.
    Example: hyperpod.instance_groups.1.zone: (left out)
    """
    for key, group in groups(environment):
        if group.training_plan and not group.zone:
            fix = "add zone; `aws sagemaker describe-training-plan` shows the plan's AvailabilityZone"
            reason = "a training plan's capacity is in one zone"
            yield Violation(f"{key}.zone", reason, "the zone of the plan's capacity", fix)


@error("V7")
def efa_in_one_zone(environment: Environment) -> Iterator[Violation]:
    """Require one zone for the groups with EFA of a RayCluster's workers, or of a Slurm partition.

    Why: EFA does not cross zones; NCCL then silently falls back to TCP.
    Source: AWS docs, sagemaker-hyperpod-prerequisites.
    Example: hyperpod.instance_groups.1.zone: usw2-az2
    """
    if not _zones_are_known(environment):
        return
    by = by_name(environment)
    for key, names, fix in _used_together(environment):
        used = [by[name] for name in names if name in by]
        places = {group.name: zone_of(environment, group) for group in used if group.type.efa}
        if len(set(places.values())) > 1:
            listed = ", ".join(f"{name} in {zone}" for name, zone in places.items())
            reason = "EFA does not cross zones, and these groups have EFA"
            yield Violation(key, reason, "one zone", f"put the instance groups into one zone, or {fix}", listed)


@singledispatch
def _used_together(environment: Environment) -> Iterator[tuple[str, list[str], str]]:
    """Yield the instance groups that one job uses: the key, their names, and how to separate them."""
    raise NotImplementedError(type(environment))


@_used_together.register
def _(environment: EksEnvironment) -> Iterator[tuple[str, list[str], str]]:
    for key, cluster in clusters(environment):
        names = [each.instance_group for each in cluster.workers]
        yield f"{key}.workers", names, "the worker groups into separate RayClusters"


@_used_together.register
def _(environment: SlurmEnvironment) -> Iterator[tuple[str, list[str], str]]:
    partitions: dict[str, list[str]] = {}
    for _, group in groups(environment):
        if group.slurm and group.slurm.partition:
            partitions.setdefault(group.slurm.partition, []).append(group.name)
    for names in partitions.values():
        yield "hyperpod.instance_groups", names, "into separate partitions"


@warning("V8")
def file_system_in_another_zone(environment: Environment) -> Iterator[Violation]:
    """Warn of workers in another zone than the file system's.

    Why: traffic between zones costs money and time. The file system is in the first zone.
    Source: FSx for Lustre user guide, accessing file systems; EC2 on-demand pricing, data transfer.
    Example: hyperpod.instance_groups.1.zone: usw2-az1
    """
    if not environment.fsx.efa:
        first = environment.network.node_zones[:1]
        for key, zone in _workers_elsewhere(environment):
            reason = f"the file system is in {first[0]}, and traffic between zones costs money"
            yield Violation(key, reason, f"the file system's zone, {first[0]}", "change zone", repr(zone))


@error("V36")
def efa_to_a_file_system_in_another_zone(environment: Environment) -> Iterator[Violation]:
    """Require workers in the file system's zone where it has EFA.

    Why: EFA does not cross zones.
    Source: AWS docs, sagemaker-hyperpod-prerequisites.
    Example: hyperpod.instance_groups.1.zone: usw2-az1
    """
    if environment.fsx.efa:
        for key, zone in _workers_elsewhere(environment):
            first = environment.network.node_zones[0]
            reason = f"EFA does not cross zones, and the file system is in {first}"
            yield Violation(key, reason, f"with fsx.efa the file system's zone, {first}", "change zone", repr(zone))


def _workers_elsewhere(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield the instance groups of workers outside the file system's zone: key and zone. All of Slurm mount it."""
    if not _zones_are_known(environment):
        return
    used = environment.mounting_groups
    for key, group in groups(environment):
        zone = zone_of(environment, group)
        if group.name in used and zone != environment.network.node_zones[0]:
            yield f"{key}.zone", zone


@error("V11")
def addresses(environment: Environment) -> Iterator[Violation]:
    """Require enough addresses in each node subnet.

    Why: a node takes many addresses (81 on a p5), and a subnet's block cannot change.
    Source: AWS docs, sagemaker-hyperpod-prerequisites.
    Example: hyperpod.instance_groups.1.count: 210
    """
    network = environment.network
    subnets_are_known = network.existing or (network.vpc_cidr.prefixlen == 16 and len(network.zones) <= 3)
    types_are_known = all(is_known(group) for _, group in groups(environment))
    if not (subnets_are_known and types_are_known and _zones_are_known(environment)):
        return
    for use in subnet_uses(environment):
        if use.used > use.free:
            yield Violation(
                "hyperpod.instance_groups",
                f"nodes and services in {use.zone} need more than the subnet {use.block} has",
                f"{use.free:,} addresses",
                "lower counts, or move groups to another zone",
                f"{use.used:,} addresses",
            )
