"""Rules of the VPC, its zones and subnets."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

from config.model import Environment, ExistingSubnet
from config.rules.rule import error
from config.rules.walk import known_groups, repeated, said_of_a_new

# AWS docs: VPC CIDR blocks (172.17.0.0/16 is used by some of AWS's own services), and what is no unicast block.
_UNUSABLE: Final = tuple(
    map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.17.0.0/16", "224.0.0.0/3"))
)
# EKS user guide, network requirements: zones that take no control plane's interfaces.
_WITHOUT_EKS: Final = {"use1-az3", "usw1-az2", "cac1-az3"}
_OTHER_PARTITIONS: Final = ("cn-", "us-gov-", "us-iso", "eu-iso", "eusc-")


@error("V23")
def two_zones_for_eks(environment: Environment) -> Iterator[tuple[str, str]]:
    """EKS needs subnets in two zones; the /16 of a new VPC has room for three (EKS: network requirements)."""
    network = environment.network
    if network.existing is None:
        if twice := repeated(list(network.zones)):
            yield "network.zones", f"{', '.join(twice)} stands there twice"
        elif not 2 <= len(network.zones) <= 3:
            yield "network.zones", f"{len(network.zones)} zones; allowed: two or three zone ids"


@error("V24")
def vpc_block(environment: Environment) -> Iterator[tuple[str, str]]:
    """A zone's nodes take a /18 of the new VPC's block, and some blocks are not for VPCs."""
    block = environment.network.vpc_cidr
    if environment.network.existing:
        return
    if block.prefixlen != 16:
        yield "network.vpc_cidr", f"{block}; allowed: a /16, of which each zone takes a /18 for its nodes"
    elif taken := [str(other) for other in _UNUSABLE if block.overlaps(other)]:
        yield "network.vpc_cidr", f"{block} overlaps {taken[0]}, which no VPC may use; allowed: such as 10.192.0.0/16"


@error("V37")
def zones_of_the_region(environment: Environment) -> Iterator[tuple[str, str]]:
    """A zone id names its region, and EKS's control plane is not in every zone (EKS: network requirements)."""
    if environment.region.startswith(_OTHER_PARTITIONS):
        return
    network, prefix = environment.network, _short(environment.region)
    named = [(f"network.zones.{n}", zone, True) for n, zone in enumerate(network.zones)]
    if existing := network.existing:
        for place, subnets in _subnets(environment):
            control = subnets is existing.control_plane_subnets
            named += [(f"{place}.{n}.zone", subnet.zone, control) for n, subnet in enumerate(subnets)]
    for key, zone, for_eks in named:
        if not zone.startswith(f"{prefix}-"):
            yield key, f"{zone!r} is no zone of {environment.region}; allowed: such as {prefix}-az1"
        elif for_eks and zone in _WITHOUT_EKS:
            yield key, f"{zone!r} takes no EKS control plane; allowed: another zone of {environment.region}"


def _short(region: str) -> str:
    """How zone ids name a region: us-west-2 is usw2, ap-northeast-1 apne1."""
    area, *words, number = region.split("-")
    directions = re.findall("north|south|east|west|central", "-".join(words))
    return area + "".join(direction[0] for direction in directions) + number


@error("V38")
def nothing_new_in_an_existing_vpc(environment: Environment) -> Iterator[tuple[str, str]]:
    """Nothing of an existing VPC is changed, so that what describes a new one would be read by nobody."""
    network = environment.network
    if network.existing:
        yield from said_of_a_new("VPC", "network", network, ("vpc_cidr", "zones", "nat_gateways"))


@error("V39")
def existing_subnets(environment: Environment) -> Iterator[tuple[str, str]]:
    """Each subnet is one of the VPC's; nodes have one per zone, EKS's interfaces two zones (EKS: network)."""
    existing = environment.network.existing
    if existing is None:
        return
    for place, subnets in _subnets(environment):
        for n, subnet in enumerate(subnets):
            if not subnet.cidr.subnet_of(existing.cidr):
                yield f"{place}.{n}.cidr", f"{subnet.cidr} is not inside the VPC's block {existing.cidr}"
            for other in subnets[:n]:
                if subnet.id == other.id:
                    yield f"{place}.{n}.id", f"{subnet.id} stands there twice"
                elif subnet.cidr.overlaps(other.cidr):
                    yield f"{place}.{n}.cidr", f"{subnet.cidr} overlaps {other.cidr} of {other.id}"
    if twice := repeated([subnet.zone for subnet in existing.node_subnets]):
        yield "network.existing.node_subnets", f"{', '.join(twice)} has two of them; allowed: one per zone"
    if len({subnet.zone for subnet in existing.control_plane_subnets}) < 2:
        yield "network.existing.control_plane_subnets", "lie in one zone; EKS needs two"


def _subnets(environment: Environment) -> Iterator[tuple[str, tuple[ExistingSubnet, ...]]]:
    if existing := environment.network.existing:
        yield "network.existing.node_subnets", existing.node_subnets
        yield "network.existing.control_plane_subnets", existing.control_plane_subnets


@error("V40")
def closed_network(environment: Environment) -> Iterator[tuple[str, str]]:
    """Without a way out, images come from ECR in this region (its interface endpoint reaches no other).

    Nor can an image be built: its packages come from the internet.
    """
    if not environment.network.closed:
        return
    image = environment.image
    if image.uri is None and image.repository is not None:
        yield "image.repository", "cannot be built into without a way to PyPI; allowed in a closed network: image.uri"
    registry = rf"\d{{12}}\.dkr\.ecr\.{environment.region}\.amazonaws\.com/.+"
    allowed = f"allowed in a closed network: ECR in {environment.region}, <account>.dkr.ecr.<region>.amazonaws.com/…"
    if environment.image_registry is None:
        yield "image_registry", f"is missing; {allowed}"
    for key, value in (("image_registry", environment.image_registry), ("image.uri", image.uri)):
        if value is not None and not re.fullmatch(registry, value, re.ASCII):
            yield key, f"{value!r}; {allowed}"


@error("V67")
def no_neuron_in_a_closed_network(environment: Environment) -> Iterator[tuple[str, str]]:
    """The image of the Neuron device plugin stands in HyperPod's chart: no value takes it from another registry."""
    if not environment.network.closed:
        return
    for key, group in known_groups(environment):
        if (group.type.accelerator_resource or "").startswith("aws.amazon.com/neuron"):
            yield (
                f"{key}.instance_type",
                f"{group.instance_type} needs an image from public.ecr.aws, which a closed network does not reach; "
                "allowed: types without Neuron devices",
            )


@error("V35")
def supported_partition(environment: Environment) -> Iterator[tuple[str, str]]:
    """China, GovCloud and the isolated regions have other ARNs, endpoints and image accounts."""
    region = environment.region
    if region.startswith(_OTHER_PARTITIONS):
        yield "region", f"{region!r} is not supported yet; allowed: regions of AWS's commercial partition"
