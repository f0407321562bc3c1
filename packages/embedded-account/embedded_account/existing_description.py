"""What the caller says exists before its own stacks: a VPC, an EKS cluster in it, a file system in it.

`POST /_rehearsal/existing` takes an `ExistingResources` as JSON.
"""

from ipaddress import IPv4Network
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Described(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Subnet(_Described):
    """A private subnet. `zone_id` is the id of its zone, such as `usw2-az2`."""

    id: str
    zone_id: str
    cidr: IPv4Network


class Vpc(_Described):
    """A VPC with private subnets, which leave it through a NAT gateway."""

    id: str
    cidr: IPv4Network
    subnets: tuple[Subnet, ...] = Field(min_length=1)


class AddOn(_Described):
    """A managed add-on of EKS, with EKS's own version and configuration unless it states others."""

    name: str
    version: str | None = None
    configuration: str | None = None


class Cluster(_Described):
    """An EKS cluster with a private endpoint, a node group and its owner's own access entry and objects.

    `issuer_id` is the last part of the URL of its OIDC issuer; the subnets are ids of the VPC's.
    """

    name: str
    version: str
    issuer_id: str
    security_group: str
    control_plane_subnets: tuple[str, ...] = Field(min_length=2)
    node_subnets: tuple[str, ...] = Field(min_length=1)
    add_ons: tuple[AddOn, ...]


class FileSystem(_Described):
    """An FSx for Lustre file system in one of the VPC's subnets."""

    id: str
    mount_name: str
    subnet: str


class ExistingResources(_Described):
    """All of it; cluster and file system need the VPC."""

    vpc: Vpc | None = None
    cluster: Cluster | None = None
    file_system: FileSystem | None = None

    @model_validator(mode="after")
    def _in_the_vpc(self) -> Self:
        known = {subnet.id for subnet in self.vpc.subnets} if self.vpc else set()
        named = {self.file_system.subnet} if self.file_system else set()
        if self.cluster:
            named |= {*self.cluster.control_plane_subnets, *self.cluster.node_subnets}
        if unknown := sorted(named - known):
            allowed = ", ".join(sorted(known)) or "none without a vpc"
            raise ValueError(f"subnets {', '.join(unknown)} are not the VPC's. Allowed: {allowed}")
        return self
