"""Describe the infrastructure that exists before the caller's stacks: a VPC, an EKS cluster, a file system, a KMS key.

`POST /_rehearsal/existing` takes an `ExistingResources` as JSON.
"""

from ipaddress import IPv4Network
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Described(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DescribedSubnet(_Described):
    """A private subnet. `zone_id` is the id of its Availability Zone, such as `usw2-az2`."""

    id: str
    zone_id: str
    cidr: IPv4Network


class DescribedVpc(_Described):
    """A VPC with private subnets, whose outbound traffic goes through a NAT gateway."""

    id: str
    cidr: IPv4Network
    subnets: tuple[DescribedSubnet, ...] = Field(min_length=1)


class DescribedAddOn(_Described):
    """A managed add-on of EKS; `version` and `configuration` default to EKS's own."""

    name: str
    version: str | None = None
    configuration: str | None = None


class Cluster(_Described):
    """An EKS cluster with a private endpoint, a node group, and the access entry and objects of its owner.

    `issuer_id` is the last part of the OIDC issuer's URL; the subnets are ids of subnets of the VPC.
    """

    name: str
    version: str
    issuer_id: str
    security_group: str
    control_plane_subnets: tuple[str, ...] = Field(min_length=2)
    node_subnets: tuple[str, ...] = Field(min_length=1)
    add_ons: tuple[DescribedAddOn, ...]


class DescribedFileSystem(_Described):
    """An FSx for Lustre file system in one of the VPC's subnets."""

    id: str
    mount_name: str
    subnet: str


class DescribedKey(_Described):
    """A KMS key that encrypts and decrypts; `policy` is its key policy as JSON."""

    id: str
    policy: str


class ExistingResources(_Described):
    """The whole description; the cluster and the file system require the VPC."""

    vpc: DescribedVpc | None = None
    cluster: Cluster | None = None
    file_system: DescribedFileSystem | None = None
    key: DescribedKey | None = None

    @model_validator(mode="after")
    def _in_the_vpc(self) -> Self:
        known = {subnet.id for subnet in self.vpc.subnets} if self.vpc else set()
        named = {self.file_system.subnet} if self.file_system else set()
        if self.cluster:
            named |= {*self.cluster.control_plane_subnets, *self.cluster.node_subnets}
        if unknown := sorted(named - known):
            allowed = ", ".join(sorted(known)) or "none without a vpc"
            raise ValueError(f"subnets {', '.join(unknown)} are not subnets of the VPC. Allowed: {allowed}")
        return self
