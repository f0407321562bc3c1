"""The model of a whole environment."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

from pydantic import Field, PositiveInt

from config.findings import ConfigError
from config.model.base import AccountId, Email, Model, Name, Region, Shape
from config.model.company import Company
from config.model.eks import Access, Eks, ExistingEks
from config.model.fsx import Fsx
from config.model.hyperpod import HyperPod, InstanceGroup
from config.model.mlflow import Mlflow
from config.model.network import Network
from config.model.observability import Grafana, Observability
from config.model.ray import AwsRay, Image, KubeRay, Ray
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


class Environment(Model):
    """One environment: all inputs of its deployment."""

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
    image_registry: Registry | None = Field(
        default=None,
        description="Registry, optionally with a path, that holds copies of all public images; see `ops images`.",
    )
    company: Company = Field(default=Company(), description="What your company demands of every resource.")
    network: Network = Field(description="The VPC.")
    access: Access = Field(default=Access(), description="Who may use the Kubernetes API.")
    eks: Eks = Field(description="The EKS cluster.")
    slurm: Slurm | None = Field(default=None, description="Slurm instead of `eks`, `image`, `kuberay` and `ray`.")
    hyperpod: HyperPod = Field(description="The HyperPod cluster.")
    fsx: Fsx = Field(default=Fsx(), description="The file system.")
    image: Image = Field(description="The Ray image.")
    kuberay: KubeRay = Field(default=KubeRay(), description="The KubeRay operator.")
    ray: Ray = Field(description="The RayClusters.")
    aws_ray: AwsRay = Field(default=AwsRay(), description="AWS features for Ray.")
    observability: Observability = Field(default=Observability(), description="Metrics, dashboards and alerts.")
    mlflow: Mlflow | None = Field(
        default=None,
        description="MLflow tracking server of the jobs: `managed`, which SageMaker runs, or the address of yours.",
    )
    notifications: Notifications | None = Field(default=None, description="Who is notified of events.")

    @property
    def has_budget(self) -> bool:
        """Whether AWS compares the costs of a month with a budget."""
        return self.notifications is not None and self.notifications.monthly_budget_usd is not None

    @property
    def existing_eks(self) -> ExistingEks | None:
        """The EKS cluster that the environment uses and does not create; a cluster of Slurm has none."""
        return None if self.slurm else self.eks.existing

    @property
    def container_insights(self) -> bool:
        """Whether the nodes run the DaemonSets of Container Insights."""
        return self.slurm is None and self.observability.container_insights is not None

    @property
    def in_cluster(self) -> bool:
        """Whether Prometheus and Grafana run in the cluster, and exporters on its nodes."""
        return self.slurm is None and self.observability.in_cluster is not None

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
        return self.slurm is None and self.observability.hyperpod is not None

    @property
    def managed_grafana(self) -> Grafana | None:
        """The workspace of Amazon Managed Grafana, if the environment makes one."""
        hyperpod = self.observability.hyperpod if self.slurm is None else None
        return hyperpod.grafana if hyperpod else None

    @property
    def alertmanager(self) -> bool:
        """Whether Alertmanager sends Prometheus' alerts to somebody."""
        wanted = self.observability
        return self.slurm is None and wanted.in_cluster is not None and wanted.alerts.has_receivers

    def instance_group(self, name: str) -> InstanceGroup:
        """Return the instance group of that name; a rule guarantees that Ray's references exist."""
        return next(group for group in self.hyperpod.instance_groups if group.name == name)


class EksEnvironment(Environment):
    """An environment whose cluster EKS orchestrates."""


class AbsentPartError(ConfigError):
    """A part of the environment was read that clusters of its orchestrator lack."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"{key} is missing: Slurm orchestrates the environment's cluster. "
            f"Allowed: environments with eks. Fix: name such an environment"
        )


class _AbsentPart:
    """Stand for a part that a Slurm environment lacks: reading any of its keys raises AbsentPartError.

    Code that knows only environments with EKS then ends in one message instead of working with invented defaults.
    """

    def __init__(self, key: str) -> None:
        self._key = key

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            # Python and pydantic look for such names themselves, as when they copy a default.
            raise AttributeError(name)
        raise AbsentPartError(self._key)

    def __deepcopy__(self, memo: object) -> "_AbsentPart":
        return self


def _absent(key: str, description: str) -> Any:
    return Field(default=cast("Any", _AbsentPart(key)), description=description)


PARTS_OF_EKS: Final = (
    *("access", "eks", "image", "kuberay", "ray", "aws_ray", "observability", "mlflow", "image_registry"),
)
"""Keys of the top level that only environments with EKS have."""


class SlurmEnvironment(Environment):
    """An environment whose cluster Slurm orchestrates: it has no EKS cluster, no Ray image and no RayClusters."""

    eks: Eks = _absent("eks", "Refused.")
    slurm: Slurm = Field(description="Slurm.")
    image: Image = _absent("image", "Refused.")
    kuberay: KubeRay = _absent("kuberay", "Refused.")
    ray: Ray = _absent("ray", "Refused.")
    aws_ray: AwsRay = _absent("aws_ray", "Refused.")
    observability: Observability = _absent("observability", "Refused.")
    mlflow: Mlflow | None = _absent("mlflow", "Refused.")


def model_of(values: Mapping[str, Any]) -> type[EksEnvironment | SlurmEnvironment]:
    """Return the model of a document: a file with `slurm` describes a cluster that Slurm orchestrates."""
    return SlurmEnvironment if "slurm" in values else EksEnvironment
