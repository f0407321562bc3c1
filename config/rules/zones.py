"""Rules of zones: where nodes, file system and capacity are."""

from collections.abc import Iterator

from config.addresses import subnet_uses
from config.model import Environment, InstanceGroup
from config.rules.rule import error, warning
from config.rules.walk import by_name, clusters, groups, is_known, workers


def _zone(environment: Environment, group: InstanceGroup) -> str:
    return group.zone or environment.network.node_zones[0]


def _zones_are_known(environment: Environment) -> bool:
    zones = environment.network.node_zones
    return bool(zones) and all(group.zone in {None, *zones} for _, group in groups(environment))


@error("V32")
def zones_with_a_subnet(environment: Environment) -> Iterator[tuple[str, str]]:
    """A group's nodes need a subnet in their zone (SageMaker CreateCluster: OverrideVpcConfig)."""
    zones = environment.network.node_zones
    for key, group in groups(environment):
        if zones and group.zone and group.zone not in zones:
            yield f"{key}.zone", f"{group.zone!r} has no subnet for nodes; allowed: {', '.join(zones)}"


@error("V33")
def zone_of_a_training_plan(environment: Environment) -> Iterator[tuple[str, str]]:
    """A plan's capacity is in one zone, which the group must name: nothing here can ask for it.

    AWS docs: sagemaker-hyperpod-prerequisites; awslabs/agent-plugins: capacity-planning.md.
    """
    for key, group in groups(environment):
        if group.training_plan and not group.zone:
            yield f"{key}.zone", "is missing beside training_plan; allowed: the zone of the plan's capacity"


@error("V7")
def efa_in_one_zone(environment: Environment) -> Iterator[tuple[str, str]]:
    """EFA does not cross zones; NCCL then falls back to TCP without a word (AWS docs: hyperpod-prerequisites)."""
    if not _zones_are_known(environment):
        return
    by = by_name(environment)
    for key, cluster in clusters(environment):
        used = [by[each.instance_group] for each in cluster.workers if each.instance_group in by]
        places = {group.name: _zone(environment, group) for group in used if group.type.efa}
        if len(set(places.values())) > 1:
            said = ", ".join(f"{name} in {zone}" for name, zone in places.items())
            yield f"{key}.workers", f"instance groups with EFA in several zones: {said}; allowed: one zone"


@warning("V8")
def file_system_in_another_zone(environment: Environment) -> Iterator[tuple[str, str]]:
    """Traffic between zones costs money and time (FSx for Lustre guide; the file system is in the first zone)."""
    if not environment.fsx.efa:
        for key, zone in _workers_elsewhere(environment):
            yield key, f"{zone} is not the file system's zone, {environment.network.node_zones[0]}: traffic is paid for"


@error("V36")
def efa_to_a_file_system_in_another_zone(environment: Environment) -> Iterator[tuple[str, str]]:
    """EFA does not cross zones (AWS docs: sagemaker-hyperpod-prerequisites)."""
    if environment.fsx.efa:
        for key, zone in _workers_elsewhere(environment):
            first = environment.network.node_zones[0]
            yield key, f"{zone}; allowed with fsx.efa: the file system's zone, {first}"


def _workers_elsewhere(environment: Environment) -> Iterator[tuple[str, str]]:
    """Instance groups of Ray's workers outside the file system's zone: key and zone."""
    if not _zones_are_known(environment):
        return
    used = {group.instance_group for _, group in workers(environment)}
    for key, group in groups(environment):
        zone = _zone(environment, group)
        if group.name in used and zone != environment.network.node_zones[0]:
            yield f"{key}.zone", zone


@error("V11")
def addresses(environment: Environment) -> Iterator[tuple[str, str]]:
    """A node takes many addresses (81 on a p5), and a subnet's block cannot change (hyperpod-prerequisites)."""
    network = environment.network
    subnets_are_known = network.existing or (network.vpc_cidr.prefixlen == 16 and len(network.zones) <= 3)
    types_are_known = all(is_known(group) for _, group in groups(environment))
    if not (subnets_are_known and types_are_known and _zones_are_known(environment)):
        return
    for use in subnet_uses(environment):
        if use.used > use.free:
            yield (
                "hyperpod.instance_groups",
                f"nodes and services in {use.zone} take {use.used:,} addresses; allowed: {use.free:,}, "
                f"those of the subnet {use.block}",
            )
