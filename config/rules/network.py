"""Rules about the VPC, its zones and subnets."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

from config.facts.regions import regions, table_date
from config.model import EksEnvironment, Environment, ExistingSubnet
from config.rules.parts import described_twice, known_groups, repeated, same_names
from config.rules.rule import Violation, error, warning

# AWS docs: VPC CIDR blocks (some AWS services use 172.17.0.0/16); and blocks that are not unicast.
_UNUSABLE: Final = tuple(
    map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.17.0.0/16", "224.0.0.0/3"))
)
_SERVICES: Final = tuple(map(IPv4Network, ("10.100.0.0/16", "172.20.0.0/16")))
_PRIVATE: Final = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
# EKS user guide, network requirements: zones that do not support interfaces of a control plane.
_WITHOUT_EKS: Final = {"use1-az3", "usw1-az2", "cac1-az3"}
OTHER_PARTITIONS: Final = ("cn-", "us-gov-", "us-iso", "eu-iso", "eusc-")
_BLOCK: Final = "a private /16 such as 10.192.0.0/16"


@error("V23")
def two_zones_for_eks(environment: Environment) -> Iterator[Violation]:
    """Require two or three different zones of a new VPC; one suffices for Slurm.

    Why: EKS needs subnets in two zones, and the /16 of a new VPC has room for three.
    Source: EKS user guide, network requirements.
    Example: network.zones: [usw2-az2]
    """
    network = environment.network
    if network.existing is None:
        if repeated(network.zones):
            yield from same_names("network.zones", network.zones, key="")
        elif not environment.least_zones <= len(network.zones) <= 3:
            room, allowed, ids = {
                1: ("the VPC has room for one to three zones", "one to three", "zones"),
                2: ("EKS needs two zones, and the VPC has room for three", "two or three", "two or three zones"),
            }[environment.least_zones]
            reason = f"{room}; {len(network.zones)} are listed"
            yield Violation("network.zones", reason, f"{allowed} zone ids", f"list the ids of {ids} of the region")


@error("V24")
def vpc_block(environment: Environment) -> Iterator[Violation]:
    """Require a /16 that a VPC may use.

    Why: each zone's nodes use a /18 of the new VPC's block, and AWS reserves some blocks.
    Source: Amazon VPC user guide, VPC CIDR blocks.
    Example: network.vpc_cidr: 10.0.0.0/15
    """
    block = environment.network.vpc_cidr
    if environment.network.existing:
        return
    if block.prefixlen != 16:
        reason = "it must have room for four /18 blocks, one for each zone's nodes"
        yield Violation("network.vpc_cidr", reason, _BLOCK, f"write {block.network_address}/16 or another /16")
    elif taken := [other for other in _UNUSABLE if block.overlaps(other)]:
        reason = f"it overlaps {taken[0]}, which no VPC may use"
        yield Violation("network.vpc_cidr", reason, _BLOCK, "choose another block")


@error("V71")
def services_have_their_own_addresses(environment: EksEnvironment) -> Iterator[Violation]:
    """Keep a new VPC away from the addresses of Kubernetes services.

    Why: EKS uses 10.100.0.0/16 or 172.20.0.0/16 for services. Pods cannot reach a node with an address of that
    range.
    Source: EKS API reference, KubernetesNetworkConfigRequest: serviceIpv4Cidr.
    Example: network.vpc_cidr: 10.100.0.0/16
    """
    block = environment.network.vpc_cidr
    if environment.network.existing is None:
        for taken in _SERVICES:
            if block.overlaps(taken):
                reason = f"it overlaps {taken}, which EKS may give to Kubernetes services"
                yield Violation("network.vpc_cidr", reason, _BLOCK, "choose another block")


@warning("V72")
def private_block(environment: Environment) -> Iterator[Violation]:
    """Warn of a new VPC with public addresses.

    Why: its nodes cannot reach the owners of these addresses on the internet.
    Source: RFC 1918, RFC 6598; Amazon VPC user guide, VPC CIDR blocks.
    Example: network.vpc_cidr: 52.94.0.0/16
    """
    block = environment.network.vpc_cidr
    unusable = any(block.overlaps(other) for other in _UNUSABLE)
    if environment.network.existing is None and not unusable and not any(map(block.subnet_of, _PRIVATE)):
        reason = "it contains public addresses, and nodes could not reach their owners"
        yield Violation("network.vpc_cidr", reason, _BLOCK, "choose a private block")


@error("V70")
def known_region(environment: Environment) -> Iterator[Violation]:
    """Require a region that exists.

    Why: otherwise an unknown region shows only when AWS does not answer.
    Source: AWS global infrastructure guide, AWS Availability Zones; the table is config/facts/regions.yaml.
    Example: region: us-west-3
    """
    region = environment.region
    if region not in regions() and not region.startswith(OTHER_PARTITIONS):
        from config.suggest import did_you_mean  # noqa: PLC0415

        fix = did_you_mean(region, regions(), "choose one of them")
        yield Violation(
            "region",
            f"the region is unknown as of {table_date()}",
            ", ".join(sorted(regions())),
            f"{fix} Add a newer region in config/facts/regions.yaml"
            if fix.endswith("?")
            else f"{fix}, or add a newer region in config/facts/regions.yaml",
        )


@error("V37")
def zones_of_the_region(environment: Environment) -> Iterator[Violation]:
    """Require zones of the region that, for EKS's interfaces, support a control plane.

    Why: a subnet needs a zone of its region, and some zones support no EKS control plane.
    Source: AWS global infrastructure guide, AWS Availability Zones; EKS user guide, network requirements.
    Example: network.zones: [usw2-az2, use1-az1]
    """
    zones = regions().get(environment.region)
    if zones is None:
        return
    network = environment.network
    of_eks = environment.has_kubernetes
    named = [(f"network.zones.{n}", zone, of_eks) for n, zone in enumerate(network.zones)]
    if existing := network.existing:
        for place, subnets in _subnets(environment):
            control = of_eks and subnets is existing.control_plane_subnets
            named += [(f"{place}.{n}.zone", subnet.zone, control) for n, subnet in enumerate(subnets)]
    for key, zone, for_eks in named:
        usable = ", ".join(each for each in zones if not (for_eks and each in _WITHOUT_EKS))
        if zone not in zones:
            other = next((code for code, ids in regions().items() if zone in ids), None)
            reason = f"it is a zone of {other}" if other else f"the zone is unknown as of {table_date()}"
            fix = "choose one of them, or add a newer zone in config/facts/regions.yaml"
            yield Violation(key, f"{reason}, and the region is {environment.region}", usable, fix)
        elif for_eks and zone in _WITHOUT_EKS:
            yield Violation(key, "it supports no EKS control plane", usable, "choose another zone")


@error("V38")
def nothing_new_in_an_existing_vpc(environment: Environment) -> Iterator[Violation]:
    """Refuse keys of a new VPC beside `network.existing`.

    Why: an existing VPC is not changed, so nothing would read these keys.
    Source: this project, docs/operate/networks.md.
    Example: network.nat_gateways: one
    """
    network = environment.network
    if network.existing:
        yield from described_twice("VPC", "network", network, ("vpc_cidr", "zones", "nat_gateways"))


@error("V39")
def existing_subnets(environment: Environment) -> Iterator[Violation]:
    """Require existing subnets inside the VPC: one per zone for nodes, two zones for EKS's interfaces.

    Why: a subnet of another VPC fails the deployment, and of two node subnets in a zone one would be unused.
    Source: EKS user guide, network requirements.
    Example: network.existing.node_subnets.1.cidr: 10.30.0.0/18
    """
    existing = environment.network.existing
    if existing is None:
        return
    fix = "copy the subnet's values from `aws ec2 describe-subnets`"
    for place, subnets in _subnets(environment):
        for n, subnet in enumerate(subnets):
            if not subnet.cidr.subnet_of(existing.cidr):
                reason = f"it is not inside the VPC's block {existing.cidr}"
                yield Violation(f"{place}.{n}.cidr", reason, f"blocks within {existing.cidr}", fix)
            for other in subnets[:n]:
                if subnet.id == other.id:
                    reason = "another subnet in the list has this id"
                    yield Violation(f"{place}.{n}.id", reason, "each subnet once", "delete one of the two")
                elif subnet.cidr.overlaps(other.cidr):
                    reason = f"it overlaps {other.cidr} of {other.id}"
                    yield Violation(f"{place}.{n}.cidr", reason, "blocks that do not overlap", fix)
    place = "network.existing.node_subnets"
    for zone, (first, second, *_) in repeated(subnet.zone for subnet in existing.node_subnets).items():
        reason = f"{place}.{first} is in {zone} already"
        yield Violation(f"{place}.{second}.zone", reason, "one node subnet per zone", "delete one of the two")
    if len({subnet.zone for subnet in existing.control_plane_subnets}) < 2:
        yield Violation(
            "network.existing.control_plane_subnets.1.zone",
            "both subnets are in it",
            "two zones",
            "name a subnet of another zone",
        )


def _subnets(environment: Environment) -> Iterator[tuple[str, tuple[ExistingSubnet, ...]]]:
    if existing := environment.network.existing:
        yield "network.existing.node_subnets", existing.node_subnets
        yield "network.existing.control_plane_subnets", existing.control_plane_subnets


@error("V40")
def closed_network(environment: EksEnvironment) -> Iterator[Violation]:
    """Require existing images from ECR in the region if the network is closed.

    Why: the interface endpoint of ECR reaches only its own region, and an image build needs packages from the internet.
    Source: Amazon ECR user guide, interface VPC endpoints.
    Example: image_registry: docker.io/library
    """
    if not environment.network.closed:
        return
    image = environment.image
    if image.uri is None and image.repository is not None:
        yield Violation(
            "image.repository",
            "an image cannot be built without access to PyPI",
            "image.uri in a closed network",
            "build the image elsewhere, push it to ECR and name it in image.uri",
        )
    registry = rf"\d{{12}}\.dkr\.ecr\.{environment.region}\.amazonaws\.com/.+"
    allowed = (
        f"ECR in {environment.region}, such as {environment.account}.dkr.ecr.{environment.region}.amazonaws.com/mirror"
    )
    if environment.image_registry is None:
        yield Violation(
            "image_registry",
            "a closed network cannot reach public registries",
            allowed,
            "add image_registry; `ops images` lists what to copy there",
        )
    for key, value in (("image_registry", environment.image_registry), ("image.uri", image.uri)):
        if value is not None and not re.fullmatch(registry, value, re.ASCII):
            reason = "a closed network cannot reach it"
            yield Violation(key, reason, allowed, "copy the images there, for example with `crane copy`")


@error("V67")
def no_neuron_in_a_closed_network(environment: EksEnvironment) -> Iterator[Violation]:
    """Refuse Neuron devices in a closed network.

    Why: HyperPod's chart fixes the image of the Neuron device plugin, and no value selects another registry.
    Source: aws/sagemaker-hyperpod-cli, charts/neuron-device-plugin.
    Example: hyperpod.instance_groups.1.instance_type: ml.trn1.32xlarge
    """
    if not environment.network.closed:
        return
    for key, group in known_groups(environment):
        if (group.type.accelerator_resource or "").startswith("aws.amazon.com/neuron"):
            yield Violation(
                f"{key}.instance_type",
                "its device plugin needs an image from public.ecr.aws, which a closed network cannot reach",
                "types without Neuron devices",
                "choose another type, or open the network with nat_gateways",
            )


@error("V35")
def supported_partition(environment: Environment) -> Iterator[Violation]:
    """Require a region of AWS's commercial partition.

    Why: China, GovCloud and the isolated regions have other ARNs, endpoints and image accounts.
    Source: AWS general reference, AWS partitions.
    Example: region: cn-north-1
    """
    if environment.region.startswith(OTHER_PARTITIONS):
        yield Violation(
            "region",
            "its partition is not supported yet",
            "regions of AWS's commercial partition",
            "choose another region",
        )
