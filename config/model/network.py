"""The models of the VPC, new or existing."""

from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import Field

from config.model.base import AccountId, Model, Shape, ZoneId

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
    """An existing private subnet."""

    id: SubnetId = Field(description="Its id.")
    zone: ZoneId = Field(description="Id of its availability zone, such as `usw2-az2`.")
    cidr: IPv4Network = Field(description="Its block; free addresses are counted in it.")


class ExistingVpc(Model):
    """An existing VPC. A deployment adds a security group of the environment, and changes nothing else in it.

    It must have DNS support and hostnames, and routes from the private subnets to S3 and to AWS's APIs.
    """

    id: VpcId = Field(description="Its id.")
    cidr: IPv4Network = Field(description="Its block.")
    owner: AccountId | None = Field(
        default=None,
        description="Account that owns the VPC, if another account shares its subnets with this one (AWS RAM).",
    )
    node_subnets: tuple[ExistingSubnet, ...] = Field(
        min_length=2, description="Private subnets of the nodes, one per zone; the file system is in the first."
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
        description="Ids of two or three availability zones of the new VPC, such as `usw2-az2`. The file system is "
        "in the first, and so are the nodes of groups without a `zone`. EKS needs two.",
    )
    nat_gateways: Literal["one", "one-per-zone", "none"] = Field(
        default="one",
        description="NAT gateways to the internet. `none` closes the network: it has interface endpoints for AWS's "
        "APIs, and takes all images from `image_registry`.",
    )
    existing: ExistingVpc | None = Field(default=None, description="Use this VPC instead of a new one.")

    @property
    def closed(self) -> bool:
        """Whether the new VPC has no route to the internet."""
        return self.nat_gateways == "none" and self.existing is None

    @property
    def subnets_owner(self) -> str | None:
        """The account that shares its subnets with the environment's; None without such an account."""
        return self.existing.owner if self.existing else None

    @property
    def node_zones(self) -> tuple[ZoneId, ...]:
        """Zones that have a subnet for nodes; the first is the file system's."""
        return tuple(subnet.zone for subnet in self.existing.node_subnets) if self.existing else self.zones

    def node_subnet(self, zone: int) -> IPv4Network:
        """Return the zone's node subnet; in a new VPC a /18 after the first one, which holds the small subnets."""
        if self.existing:
            return self.existing.node_subnets[zone].cidr
        return _part(self.vpc_cidr, 18, zone + 1)

    def public_subnet(self, zone: int) -> IPv4Network:
        """Return the subnet of the zone's NAT gateway, a /24."""
        return _part(self.vpc_cidr, 24, zone)

    def control_plane_subnet(self, zone: int) -> IPv4Network:
        """Return the subnet of EKS's own interfaces, a /28 (AWS recommends separate subnets for them)."""
        return _part(self.vpc_cidr, 28, 16 * 16 + zone)


def _part(block: IPv4Network, prefix: int, number: int) -> IPv4Network:
    """Return the block's subnet of this size and number; `IPv4Network.subnets` would create all before it."""
    return IPv4Network((int(block.network_address) + (number << (32 - prefix)), prefix))
