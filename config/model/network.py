"""The VPC: a new one, or one that exists."""

from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import Field

from config.model.base import Model, Shape, ZoneId

SubnetId = Annotated[
    str,
    Shape(
        pattern=r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$",
        what="the id of a subnet",
        like="subnet-0123456789abcdef0",
        fix="copy it from `aws ec2 describe-subnets`",
    ),
]
VpcId = Annotated[
    str,
    Shape(
        pattern=r"^vpc-([0-9a-f]{8}|[0-9a-f]{17})$",
        what="the id of a VPC",
        like="vpc-0123456789abcdef0",
        fix="copy it from `aws ec2 describe-vpcs`",
    ),
]


class ExistingSubnet(Model):
    """A private subnet that exists."""

    id: SubnetId = Field(description="Its id.")
    zone: ZoneId = Field(description="Id of its availability zone, such as `usw2-az2`.")
    cidr: IPv4Network = Field(description="Its block, to count addresses.")


class ExistingVpc(Model):
    """A VPC that exists. Nothing in it is changed but that the environment's own security group is added.

    It must have DNS support and hostnames, and a way for the private subnets to S3 and to AWS's APIs.
    """

    id: VpcId = Field(description="Its id.")
    cidr: IPv4Network = Field(description="Its block.")
    node_subnets: tuple[ExistingSubnet, ...] = Field(
        min_length=2, description="Private subnets of the nodes, one per zone; the file system lies in the first."
    )
    control_plane_subnets: tuple[ExistingSubnet, ...] = Field(
        min_length=2, max_length=2, description="The two subnets of EKS's own interfaces, in different zones."
    )


class Network(Model):
    """The VPC. Each zone takes a /18 of it for nodes and two small subnets (public, EKS control plane)."""

    vpc_cidr: IPv4Network = Field(default=IPv4Network("10.192.0.0/16"), description="Block of the new VPC, a /16.")
    # Zone *ids*: names mean different zones in different accounts, and HyperPod's capacity is bound to a zone.
    zones: tuple[ZoneId, ...] = Field(
        default=(),
        description="Ids of two or three availability zones of the new VPC, such as `usw2-az2`. The file system lives "
        "in the first, and nodes unless their group names another; EKS needs two.",
    )
    nat_gateways: Literal["one", "one-per-zone", "none"] = Field(
        default="one",
        description="Ways out to the internet. `none` is a closed network: interface endpoints for AWS's APIs, and "
        "all images from `image_registry`.",
    )
    existing: ExistingVpc | None = Field(default=None, description="Use this VPC instead of a new one.")

    @property
    def closed(self) -> bool:
        """Whether the new VPC has no way to the internet."""
        return self.nat_gateways == "none" and self.existing is None

    @property
    def node_zones(self) -> tuple[ZoneId, ...]:
        """Zones that have a subnet for nodes; the first is the file system's."""
        return tuple(subnet.zone for subnet in self.existing.node_subnets) if self.existing else self.zones

    def node_subnet(self, zone: int) -> IPv4Network:
        """Subnet of the zone's nodes: in a new VPC the /18s behind the first, which holds the small subnets."""
        if self.existing:
            return self.existing.node_subnets[zone].cidr
        return _part(self.vpc_cidr, 18, zone + 1)

    def public_subnet(self, zone: int) -> IPv4Network:
        """Subnet of the zone's NAT gateway, a /24."""
        return _part(self.vpc_cidr, 24, zone)

    def control_plane_subnet(self, zone: int) -> IPv4Network:
        """Subnet of EKS's own interfaces, a /28 (AWS recommends it to be apart from the nodes')."""
        return _part(self.vpc_cidr, 28, 16 * 16 + zone)


def _part(block: IPv4Network, prefix: int, number: int) -> IPv4Network:
    """The block's subnet of this size and number; `IPv4Network.subnets` would make all those before it."""
    return IPv4Network((int(block.network_address) + (number << (32 - prefix)), prefix))
