"""The model of a whole environment."""

from collections.abc import Callable, Mapping
from functools import cache
from ipaddress import IPv4Network
from typing import Annotated, Any, ClassVar, Final, TypeAlias, get_args

from pydantic import Field, PositiveInt, create_model

from config.facts import container_insights, in_cluster
from config.facts.add_ons import CLOUDWATCH, HYPERPOD
from config.facts.daemonsets import DaemonSet, NodeLoad
from config.facts.versions import SET_DEFAULT, SETS, SetName, VersionSet
from config.model.base import AccountId, Email, Model, Name, Region, Shape
from config.model.company import Company
from config.model.eks import Access, Eks, ExistingEks, SystemNodes
from config.model.fsx import Fsx
from config.model.hyperpod import HyperPod, InstanceGroup
from config.model.mlflow import MANAGED, Mlflow
from config.model.network import Network
from config.model.observability import Grafana, Observability
from config.model.ray import AwsRay, Image, KubeRay, Ray, RayCluster
from config.model.slurm import Slurm

RuleId = Annotated[
    str,
    Shape(
        pattern=r"^V[0-9]+$",
        what="the id of a rule",
        like="V56",
        fix="copy it from the end of the warning",
    ),
]
Reason = Annotated[
    str,
    Shape(
        pattern=r"\S",
        what="the reason, in words",
        like="a trial needs no second head node",
        fix="state why the warning is acceptable",
    ),
]
Registry = Annotated[
    str,
    Shape(
        pattern=r"^[A-Za-z0-9_.-]+(:[0-9]+)?(/[A-Za-z0-9_./-]*[A-Za-z0-9_])?$",
        what="the host of a registry, optionally with a path",
        like="111122223333.dkr.ecr.us-west-2.amazonaws.com/mirror",
        fix="remove the scheme and the slash at the end",
        mistakes=((r"[a-z]+://.*", "it has a scheme"),),
    ),
]


class Notifications(Model):
    """Who is notified of cluster and node events."""

    email: Email = Field(description="E-mail address; its owner must confirm the subscription once.")
    monthly_budget_usd: PositiveInt | None = Field(
        default=None,
        description="Budget of a month in US$, also a notification: at 80 % and 100 %, and if 100 % is forecast. Tags "
        "every resource.",
    )


class BaseEnvironment(Model):
    """What every environment has, whatever orchestrates its cluster."""

    name: Name = Field(description="Name of the file without `.yaml`; optional.")
    project: Name = Field(description="Prefix of all names.")
    account: AccountId = Field(description="AWS account, twelve digits in quotes.")
    region: Region = Field(description="AWS region, such as `us-west-2`.")
    protect: bool = Field(
        default=False,
        description="Keep the network and storage stacks, with the data, when the environment is destroyed.",
    )
    accepted_warnings: dict[RuleId, Reason] = Field(
        default={},
        description="Accepted warnings: the id of each rule, and the reason. Errors cannot be accepted.",
    )
    company: Company = Field(default=Company(), description="What your company demands of every resource.")
    network: Network = Field(description="The VPC.")
    hyperpod: HyperPod = Field(description="The HyperPod cluster.")
    fsx: Fsx = Field(default=Fsx(), description="The file system.")
    notifications: Notifications | None = Field(default=None, description="Who is notified of events.")

    @property
    def has_budget(self) -> bool:
        """Whether AWS compares the costs of a month with a budget."""
        return self.notifications is not None and self.notifications.monthly_budget_usd is not None

    def instance_group(self, name: str) -> InstanceGroup:
        """Return the instance group of that name; a rule guarantees that Ray's references exist."""
        return next(group for group in self.hyperpod.instance_groups if group.name == name)


class EksEnvironment(BaseEnvironment):
    """An environment whose cluster EKS orchestrates, with Ray."""

    section: ClassVar[str] = "eks"
    """The key of the file that tells this type of environment from the others."""
    stacks: ClassVar[tuple[str, ...]] = ("network", "storage", "eks", "hyperpod", "platform", "ray")
    """The environment's stacks, in the order of a deployment."""
    least_zones: ClassVar[int] = 2
    """The zones that a new VPC needs."""
    has_kubernetes: ClassVar[bool] = True
    """Whether nodes join a Kubernetes cluster, whose control plane has interfaces in the VPC."""

    image_registry: Registry | None = Field(
        default=None,
        description="Registry, optionally with a path, that holds copies of all public images; see `ops images`.",
    )
    access: Access = Field(default=Access(), description="Roles with access to the Kubernetes API.")
    eks: Eks = Field(description="The EKS cluster.")
    versions: SetName = Field(
        default=SET_DEFAULT,
        description="Set of versions: Ray, CPython, PyTorch and CUDA of the Ray image, and KubeRay. "
        "[Table](versions.md#sets-of-versions).",
    )
    image: Image = Field(description="The Ray image.")
    kuberay: KubeRay = Field(default=KubeRay(), description="The KubeRay operator.")
    ray: Ray = Field(description="The RayClusters.")
    aws_ray: AwsRay = Field(default=AwsRay(), description="AWS features for Ray.")
    observability: Observability = Field(default=Observability(), description="Metrics, dashboards and alerts.")
    mlflow: Mlflow | None = Field(
        default=None,
        description="MLflow tracking server of the jobs: `managed`, which SageMaker runs, or the address of yours.",
    )

    @property
    def version_set(self) -> VersionSet:
        """The set of versions that the Ray image is built with."""
        return SETS[self.versions]

    @property
    def ray_version(self) -> str:
        """The version of Ray in the image and the RayClusters."""
        return self.ray.version or self.version_set.ray

    @property
    def kuberay_version(self) -> str:
        """The version of the KubeRay operator."""
        return self.kuberay.version or self.version_set.kuberay

    @property
    def existing_eks(self) -> ExistingEks | None:
        """The EKS cluster that the environment uses and does not create."""
        return self.eks.existing

    @property
    def kubernetes_version(self) -> str | None:
        """The version of Kubernetes of the EKS cluster."""
        return self.eks.version

    @property
    def control_plane_subnets(self) -> tuple[tuple[str, IPv4Network], ...]:
        """The zone and the block of each subnet in which EKS has interfaces of its own."""
        if vpc := self.network.existing:
            return tuple((subnet.zone, subnet.cidr) for subnet in vpc.control_plane_subnets)
        return tuple((zone, self.network.control_plane_subnet(n)) for n, zone in enumerate(self.network.zones[:2]))

    @property
    def system_nodes(self) -> SystemNodes | None:
        """The EC2 nodes beside HyperPod's."""
        return self.eks.system_nodes

    @property
    def ray_clusters(self) -> tuple[RayCluster, ...]:
        """The RayClusters."""
        return self.ray.clusters

    @property
    def mounting_groups(self) -> frozenset[str]:
        """The names of the instance groups whose nodes work with the file system."""
        return frozenset(workers.instance_group for cluster in self.ray.clusters for workers in cluster.workers)

    @property
    def repository(self) -> str | None:
        """The repository that the storage stack makes for the Ray image."""
        return self.image.repository

    @property
    def managed_mlflow(self) -> bool:
        """Whether SageMaker runs an MLflow tracking server for the environment."""
        return self.mlflow == MANAGED

    @property
    def container_insights(self) -> bool:
        """Whether the nodes run the DaemonSets of Container Insights."""
        return self.observability.container_insights is not None

    @property
    def in_cluster(self) -> bool:
        """Whether Prometheus and Grafana run in the cluster, and exporters on its nodes."""
        return self.observability.in_cluster is not None

    @property
    def observing_add_ons(self) -> dict[str, str]:
        """The EKS add-ons that keys of `observability` install, by the key."""
        wanted = {
            "observability.container_insights": CLOUDWATCH if self.container_insights else None,
            "observability.hyperpod": HYPERPOD if self.hyperpod_observability else None,
        }
        return {key: name for key, name in wanted.items() if name}

    @property
    def node_load(self) -> NodeLoad:
        """What the optional parts take of each node beside Ray's pods."""
        daemonsets: tuple[DaemonSet, ...] = container_insights.DAEMONSETS if self.container_insights else ()
        daemonsets += in_cluster.DAEMONSETS if self.in_cluster else ()
        # The operator of Container Insights' add-on is a floating pod.
        return NodeLoad(daemonsets, int(self.container_insights), self.hyperpod.tier_percent)

    @property
    def observed_gpu_groups(self) -> tuple[InstanceGroup, ...]:
        """The groups with NVIDIA GPUs, on whose nodes `observability.in_cluster` runs an exporter."""
        return tuple(group for group in self.hyperpod.instance_groups if self.in_cluster and group.type.gpus)

    @property
    def observed_efa_groups(self) -> tuple[InstanceGroup, ...]:
        """The groups with EFA, on whose nodes `observability.in_cluster` runs an exporter."""
        return tuple(group for group in self.hyperpod.instance_groups if self.in_cluster and group.type.efa)

    @property
    def hyperpod_observability(self) -> bool:
        """Whether HyperPod's observability add-on is installed."""
        return self.observability.hyperpod is not None

    @property
    def managed_grafana(self) -> Grafana | None:
        """The workspace of Amazon Managed Grafana, if the environment makes one."""
        return self.observability.hyperpod.grafana if self.observability.hyperpod else None

    @property
    def alertmanager(self) -> bool:
        """Whether Alertmanager sends Prometheus' alerts to somebody."""
        return self.in_cluster and self.observability.alerts.has_receivers


class SlurmEnvironment(BaseEnvironment):
    """An environment whose cluster Slurm orchestrates: no Kubernetes, no Ray image, no RayClusters."""

    section: ClassVar[str] = "slurm"
    stacks: ClassVar[tuple[str, ...]] = ("network", "storage", "hyperpod")
    least_zones: ClassVar[int] = 1
    has_kubernetes: ClassVar[bool] = False
    existing_eks: ClassVar[None] = None
    kubernetes_version: ClassVar[None] = None
    access: ClassVar[Access] = Access()
    image_registry: ClassVar[None] = None
    control_plane_subnets: ClassVar[tuple[tuple[str, IPv4Network], ...]] = ()
    system_nodes: ClassVar[None] = None
    ray_clusters: ClassVar[tuple[RayCluster, ...]] = ()
    repository: ClassVar[None] = None
    managed_mlflow: ClassVar[bool] = False
    container_insights: ClassVar[bool] = False
    in_cluster: ClassVar[bool] = False
    hyperpod_observability: ClassVar[bool] = False
    managed_grafana: ClassVar[None] = None
    alertmanager: ClassVar[bool] = False

    slurm: Slurm = Field(description="Slurm instead of `eks`, `image`, `kuberay` and `ray`.")

    @property
    def mounting_groups(self) -> frozenset[str]:
        """The names of the instance groups whose nodes work with the file system: all mount it."""
        return frozenset(group.name for group in self.hyperpod.instance_groups)


Environment: TypeAlias = EksEnvironment | SlurmEnvironment
"""One environment; its type says what orchestrates the cluster."""

PARTS_OF_EKS: Final = tuple(key for key in EksEnvironment.model_fields if key not in SlurmEnvironment.model_fields)
"""Keys of the top level that only environments with EKS have."""


def model_of(values: Mapping[str, Any]) -> type[Environment]:
    """Return the model of a document: a file with `slurm` describes a cluster that Slurm orchestrates."""
    return SlurmEnvironment if SlurmEnvironment.section in values else EksEnvironment


def types_taken(function: Callable[..., Any]) -> tuple[type[BaseEnvironment], ...]:
    """Return the types of environments that the function's first parameter takes."""
    annotation = next(iter(function.__annotations__.values()), BaseEnvironment)
    # `Here[EksEnvironment]` has the environment.
    return get_args(annotation) or (annotation,)


@cache
def every_key() -> type[Model]:
    """Return a model with the keys of all environments: those of each, then EKS's, then Slurm's. No file has all."""
    fields: dict[str, Any] = {name: (field.annotation, field) for name, field in EksEnvironment.model_fields.items()}
    slurm = Field(default=None, description=SlurmEnvironment.model_fields["slurm"].description)
    fields |= {"slurm": (Slurm | None, slurm)}
    doc = "One environment: all inputs of its deployment."
    return create_model("Environment", __base__=Model, __doc__=doc, **fields)
