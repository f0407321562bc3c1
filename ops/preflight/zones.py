"""Checks of zones and of what AWS offers in them."""

from collections.abc import Iterator

from config import Environment
from ops.preflight.check import CheckFinding, failed, passed, warned
from ops.preflight.here import Here


def zones(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Require the zones of the environment, available to this account.

    AWS: ec2 DescribeAvailabilityZones. Source: EC2 user guide, "Regions and Zones": zone ids mean the same zone in all
    accounts, but some zones are closed to new accounts.
    """
    found = here.client("ec2").describe_availability_zones()["AvailabilityZones"]
    states = {each["ZoneId"]: each["State"] for each in found}
    there = ", ".join(sorted(zone for zone, state in states.items() if state == "available"))
    wrong = [zone for zone in here.environment.network.node_zones if states.get(zone) != "available"]
    for zone in wrong:
        state = states.get(zone, "not open to this account")
        yield failed(state, f"choose other network.zones: {there}", zone)
    if not wrong:
        yield passed(f"{', '.join(here.environment.network.node_zones)} are available")


def instance_types(here: Here[Environment]) -> Iterator[CheckFinding]:
    """Warn of instance types that EC2 does not offer in their zone; require the type of the system nodes.

    AWS: ec2 DescribeInstanceTypeOfferings. HyperPod has no such call: for its types EC2's answer is an indication.
    Source: awslabs/agent-plugins, capacity-planning.md.
    """
    environment = here.environment
    default, *_ = zones = environment.network.node_zones
    groups = environment.hyperpod.instance_groups
    wanted = sorted({(group.instance_type, group.zone or default) for group in groups})
    system = environment.system_nodes.instance_type if environment.system_nodes else None
    offered = _offered(here, {*([system] if system else []), *(name.removeprefix("ml.") for name, _ in wanted)})
    for name, zone in wanted:
        others = offered.get(name.removeprefix("ml."), set())
        if zone in others:
            yield passed(f"EC2 offers it in {zone} (HyperPod: an indication)", name)
            continue
        where = f"EC2 offers it in {', '.join(sorted(others))}" if others else "EC2 does not offer it in this region"
        fix = "ask your account team whether HyperPod has it there, or set another zone of the instance group"
        yield warned(f"not offered in {zone} by EC2 (HyperPod: an indication); {where}", fix, name)
    if system is None:
        return
    missing = [zone for zone in zones if zone not in offered.get(system, set())]
    if len(missing) == len(zones):
        yield failed(f"not offered in {', '.join(zones)}", "set another eks.system_nodes.instance_type", system)
    elif missing:
        text = f"not offered in {', '.join(missing)}: system nodes run in the other zones only"
        yield warned(text, "set another eks.system_nodes.instance_type, or accept it", system)
    else:
        yield passed(f"EC2 offers it in {', '.join(zones)}", system)


def _offered(here: Here[Environment], names: set[str]) -> dict[str, set[str]]:
    """Return the zone ids in which EC2 offers each type."""
    offered: dict[str, set[str]] = {}
    for each in here.pages(
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": sorted(names)}],
    ):
        offered.setdefault(each["InstanceType"], set()).add(each["Location"])
    return offered
