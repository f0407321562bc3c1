"""The environment as types. Every key of an environment's YAML file is a field here, and nothing else is.

All models are frozen and refuse unknown keys. Sizes are in GiB unless the name says otherwise.
"""

import re
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, StringConstraints, model_validator

from config import versions
from config.catalogue import InstanceType, catalogue

Name = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$")]
# SageMaker CreateCluster, ClusterName and InstanceGroupName.
HyperPodName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$")]
AccountId = Annotated[str, StringConstraints(pattern=r"^\d{12}$")]
Region = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")]
ZoneId = Annotated[str, StringConstraints(pattern=r"^[a-z]{3,4}\d-az\d$")]
RoleArn = Annotated[str, StringConstraints(pattern=r"^arn:aws:iam::\d{12}:role/[\w+=,.@/-]+$")]


def _one_of(*allowed: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"allowed: {', '.join(allowed)}")
        return value

    return check


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Network(_Model):
    """The VPC. Each zone takes a /18 of it for nodes and two small subnets (public, EKS control plane)."""

    vpc_cidr: IPv4Network = IPv4Network("10.192.0.0/16")
    # Zone *ids*: names mean different zones in different accounts, and HyperPod's capacity is bound to a zone.
    # The nodes and the file system live in the first; EKS needs two.
    zones: tuple[ZoneId, ...] = Field(min_length=2, max_length=3)
    nat_gateways: Literal["one", "one-per-zone"] = "one"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.vpc_cidr.prefixlen != 16:
            raise ValueError(f"vpc_cidr {self.vpc_cidr} must be a /16: each zone takes a /18 for its nodes")
        if len(set(self.zones)) != len(self.zones):
            raise ValueError(f"zones {list(self.zones)} must differ")
        return self

    def node_subnet(self, zone: int) -> IPv4Network:
        """Subnet of the zone's nodes: the /18s behind the first, which holds the small subnets."""
        return list(self.vpc_cidr.subnets(new_prefix=18))[zone + 1]

    def public_subnet(self, zone: int) -> IPv4Network:
        """Subnet of the zone's NAT gateway, a /24."""
        return list(self.vpc_cidr.subnets(new_prefix=24))[zone]

    def control_plane_subnet(self, zone: int) -> IPv4Network:
        """Subnet of EKS's own interfaces, a /28 (AWS recommends it to be apart from the nodes')."""
        return list(self.vpc_cidr.subnets(new_prefix=28))[16 * 16 + zone]


class SystemNodes(_Model):
    """The EKS managed node group `system`: CoreDNS, operators, the CSI controller, the image build."""

    # An EC2 type: these nodes are EC2's own, not HyperPod's.
    instance_type: Annotated[str, StringConstraints(pattern=r"^[a-z]+\d[a-z0-9-]*\.[a-z0-9]+$")] = "m5.xlarge"
    count: PositiveInt = 2
    volume_gib: PositiveInt = 150

    @model_validator(mode="after")
    def _x86(self) -> Self:
        # The node image is x86-64, and the Ray image for HyperPod's x86-64 nodes is built here.
        if re.match(r"[a-z]+\d+g", self.instance_type):
            raise ValueError(f"instance_type {self.instance_type!r} is a Graviton type; allowed: x86-64 types")
        return self


class Eks(_Model):
    """The EKS cluster."""

    version: Annotated[str, AfterValidator(_one_of(*versions.KUBERNETES_VERSIONS))] = versions.KUBERNETES_DEFAULT
    # Who reaches the public endpoint of the Kubernetes API; the private one is always on.
    public_access_cidrs: tuple[IPv4Network, ...] = Field(min_length=1)
    system_nodes: SystemNodes = SystemNodes()


class Access(_Model):
    """IAM roles that may use the Kubernetes API: admins everywhere, submitters in Ray's namespace."""

    admins: tuple[RoleArn, ...] = ()
    submitters: tuple[RoleArn, ...] = ()


class InstanceGroup(_Model):
    """One HyperPod instance group (CreateCluster's `ClusterInstanceGroupSpecification`)."""

    name: HyperPodName
    instance_type: str
    count: Annotated[int, Field(ge=0, le=6758)]
    threads_per_core: Literal[1, 2] = 1
    # Secondary EBS volume for container images and kubelet data; without it they fill the 100 GB root volume.
    volume_gib: Annotated[int, Field(ge=1, le=16384)] = 500
    deep_health_checks: tuple[Literal["InstanceStress", "InstanceConnectivity"], ...] = ()

    @model_validator(mode="after")
    def _known_type(self) -> Self:
        known = catalogue()
        if self.instance_type not in known:
            allowed = ", ".join(sorted(known))
            raise ValueError(f"instance_type {self.instance_type!r} is not in the catalogue; allowed: {allowed}")
        if self.threads_per_core not in self.type.threads_per_core:
            allowed = ", ".join(map(str, self.type.threads_per_core))
            raise ValueError(f"threads_per_core {self.threads_per_core} on {self.instance_type}; allowed: {allowed}")
        if self.deep_health_checks and not self.type.accelerated:
            raise ValueError(f"deep_health_checks need an accelerated instance type, not {self.instance_type}")
        return self

    @property
    def type(self) -> InstanceType:
        return catalogue()[self.instance_type]


class HyperPod(_Model):
    """The HyperPod cluster; it is bound 1:1 to the environment's EKS cluster."""

    cluster_name: HyperPodName
    node_recovery: Literal["Automatic", "None"] = "Automatic"
    instance_groups: tuple[InstanceGroup, ...] = Field(min_length=1, max_length=100)


class DataRepository(_Model):
    """A path of the file system that mirrors a prefix of the data bucket, both ways."""

    path: Annotated[str, StringConstraints(pattern=r"^/[^\s]*[^/\s]$")]
    prefix: Annotated[str, StringConstraints(pattern=r"^[^/\s]([^\s]*[^/\s])?$")]


class Fsx(_Model):
    """The FSx for Lustre file system (PERSISTENT_2, SSD) and the claim that pods mount."""

    # CreateFileSystem: 1,200 or a multiple of 2,400 GiB; it can grow, never shrink.
    capacity_gib: PositiveInt = 1200
    throughput_mbps_per_tib: Literal[125, 250, 500, 1000] = 250
    compression: Literal["LZ4", "NONE"] = "LZ4"
    claim: Name = "fsx-claim"
    mount_path: Literal["/fsx"] = "/fsx"
    data_repositories: tuple[DataRepository, ...] = Field(default=(), max_length=8)

    @model_validator(mode="after")
    def _capacity(self) -> Self:
        if self.capacity_gib != 1200 and self.capacity_gib % 2400:
            raise ValueError(f"capacity_gib {self.capacity_gib}; allowed: 1200 or a multiple of 2400")
        return self


class Image(_Model):
    """The Ray image that the cluster builds from `ray_image/` into this ECR repository."""

    repository: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([._/-][a-z0-9]+)*$")]


class KubeRay(_Model):
    """The KubeRay operator."""

    version: Annotated[str, AfterValidator(_one_of(versions.KUBERAY))] = versions.KUBERAY
    namespace: Name = "kuberay"


class RayHead(_Model):
    """The head pod: on a group without accelerators, where their faults cannot reach it."""

    instance_group: HyperPodName
    cpu: Annotated[int, Field(ge=2)] = 2
    memory_gib: Annotated[int, Field(ge=8)] = 8


class RayWorkers(_Model):
    """One worker group: one pod per node of an instance group, with all that the node can give."""

    name: Name
    instance_group: HyperPodName
    replicas: Annotated[int, Field(ge=0)]
    min_replicas: Annotated[int, Field(ge=0)]
    max_replicas: PositiveInt

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        if not self.min_replicas <= self.replicas <= self.max_replicas:
            raise ValueError(
                f"replicas {self.replicas} must lie between min_replicas {self.min_replicas} "
                f"and max_replicas {self.max_replicas}"
            )
        return self


class RayCluster(_Model):
    """One RayCluster."""

    name: Name
    head: RayHead
    workers: tuple[RayWorkers, ...] = Field(min_length=1)


class Ray(_Model):
    """Ray itself."""

    version: Annotated[str, AfterValidator(_one_of(versions.RAY))] = versions.RAY
    namespace: Name = "ray"
    clusters: tuple[RayCluster, ...] = Field(min_length=1)


class Notifications(_Model):
    """Who hears of cluster and node events."""

    email: Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")]


class Environment(_Model):
    """One environment: everything that a deployment is made from."""

    name: Name
    project: Name
    account: AccountId
    region: Region
    orchestrator: Literal["eks"] = "eks"
    # Keeps the network and storage stacks: destroying the environment then ends everything but the data.
    protect: bool = False
    network: Network
    access: Access = Access()
    eks: Eks
    hyperpod: HyperPod
    fsx: Fsx = Fsx()
    image: Image
    kuberay: KubeRay = KubeRay()
    ray: Ray
    notifications: Notifications | None = None

    @model_validator(mode="after")
    def _references(self) -> Self:
        groups = [group.name for group in self.hyperpod.instance_groups]
        if len(set(groups)) != len(groups):
            raise ValueError(f"hyperpod.instance_groups: names {groups} must differ")
        for cluster in self.ray.clusters:
            wanted = {"head": cluster.head.instance_group}
            wanted |= {f"workers {workers.name}": workers.instance_group for workers in cluster.workers}
            for user, group in wanted.items():
                if group not in groups:
                    raise ValueError(
                        f"ray.clusters {cluster.name}, {user}: no instance group {group!r}; "
                        f"allowed: {', '.join(groups)}"
                    )
        return self

    def instance_group(self, name: str) -> InstanceGroup:
        """The instance group of that name; the model guarantees that Ray's references exist."""
        return next(group for group in self.hyperpod.instance_groups if group.name == name)
