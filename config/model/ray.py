"""The models of the KubeRay operator, the Ray image and the RayClusters."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from config.facts import tokens, versions
from config.model.base import (
    AbsolutePath,
    HyperPodName,
    LabelKey,
    LabelValue,
    Model,
    Name,
    ObjectName,
    Shape,
    VariableName,
)

RepositoryName = Annotated[
    str,
    Shape(
        pattern=r"^[a-z0-9]+([._/-][a-z0-9]+)*$",
        what="the name of an ECR repository: lowercase letters, digits, and single inner dots, slashes and hyphens",
        like="aws-ray-custom",
        fix="remove the registry and the tag",
        mistakes=((r".*\.amazonaws\.com/.*", "it is an address with the registry"),),
    ),
]
ImageUri = Annotated[
    str,
    Shape(
        pattern=r"^[A-Za-z0-9_.-]+(:[0-9]+)?/[A-Za-z0-9_./-]+(:[A-Za-z0-9_.-]+)?(@sha256:[0-9a-f]{64})?$",
        what="an image with its registry",
        like="111122223333.dkr.ecr.us-west-2.amazonaws.com/ray:2.42.1",
        fix="write registry, slash, repository, colon, tag",
        mistakes=((r"[a-z]+://.*", "it has a scheme"),),
    ),
]
SecretKey = Annotated[
    str,
    Shape(
        pattern=r"^[-._a-zA-Z0-9]+$",
        what="a key of a Kubernetes secret: letters, digits, hyphens, dots and underscores",
        like="token",
        fix="`kubectl describe secret NAME` lists the keys",
    ),
]


class Image(Model):
    """The Ray image: the cluster builds it from `ray_image/` into `repository`, or `uri` names an existing image."""

    repository: RepositoryName | None = Field(
        default=None, description="ECR repository that is created for the image, and that the cluster builds it into."
    )
    pip: tuple[str, ...] = Field(
        default=(),
        description="Additional Python packages of the built image, each pinned: `name==version`. They cannot "
        "override versions that `ray_image/requirements.txt` locks.",
    )
    uri: ImageUri | None = Field(
        default=None,
        description="Existing image, with tag or digest; nothing is built. The nodes' IAM role pulls it, from any ECR "
        "registry that allows it.",
    )

    @property
    def built(self) -> bool:
        """Whether the cluster builds the image."""
        return self.uri is None


class KubeRay(Model):
    """The KubeRay operator."""

    version: str | None = Field(
        default=None,
        description="Its version. Default: that of `versions`.",
        json_schema_extra={"enum": [*versions.KUBERAY_VERSIONS]},
    )
    namespace: Name = Field(default="kuberay", description="Its namespace.")


class RayHead(Model):
    """The head pod. Choose a group without accelerators: faults of accelerators then cannot end it."""

    instance_group: HyperPodName = Field(description="Instance group that it runs on.")
    cpu: int = Field(default=2, description="CPUs, at least 2.")
    memory_gib: int = Field(default=8, description="Memory in GiB, at least 8.")
    node_selector: dict[LabelKey, LabelValue] = Field(
        default={}, description="Additional labels that its node must have."
    )


class RayWorkers(Model):
    """One worker group: one pod per node of an instance group. By default a pod takes all that the node offers."""

    name: Name = Field(description="Its name.")
    instance_group: HyperPodName = Field(description="Instance group that it runs on.")
    replicas: Annotated[int, Field(ge=0)] = Field(description="Number of pods.")
    min_replicas: Annotated[int, Field(ge=0)] = Field(description="Fewest pods under autoscaling.")
    max_replicas: PositiveInt = Field(description="Most pods under autoscaling.")
    cpu: PositiveInt | None = Field(default=None, description="CPUs of a pod. Default: all that the node offers.")
    memory_gib: PositiveInt | None = Field(
        default=None, description="Memory of a pod in GiB. Default: all that the node offers."
    )
    accelerators: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="GPUs or Neuron devices of a pod. Default: all of the node."
    )
    efa: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="EFA interfaces of a pod. Default: all of the node."
    )
    node_selector: dict[LabelKey, LabelValue] = Field(
        default={}, description="Additional labels that its nodes must have."
    )


class SecretVariable(Model):
    """An environment variable from a Kubernetes secret of Ray's namespace; no template contains the secret itself."""

    env: VariableName = Field(description="Name of the variable.")
    secret: ObjectName = Field(description="Name of the secret.")
    key: SecretKey = Field(description="Key in the secret.")


class ClaimVolume(Model):
    """An additional PersistentVolumeClaim in Ray's namespace, which somebody else creates."""

    claim: ObjectName = Field(description="Name of the claim.")
    mount_path: AbsolutePath = Field(description="Where the pods mount it.")
    read_only: bool = Field(default=False, description="Mount it read-only.")


class Autoscaling(Model):
    """Ray's autoscaler in the head pod: it scales worker pods by demand, within the bounds of their group."""

    idle_timeout_seconds: PositiveInt = Field(
        default=300, description="Seconds that a worker is idle before it is removed."
    )
    upscaling: Literal["Default", "Aggressive", "Conservative"] = Field(
        default="Default", description="How fast it adds workers (KubeRay's `upscalingMode`)."
    )


class RayCluster(Model):
    """One RayCluster."""

    name: Name = Field(description="Its name.")
    head: RayHead = Field(description="The head pod.")
    workers: tuple[RayWorkers, ...] = Field(min_length=1, description="The worker groups.")
    autoscaling: Autoscaling | None = Field(
        default=None, description="Scale worker pods by demand. Default: `replicas` pods."
    )
    env: dict[VariableName, str] = Field(default={}, description="Environment variables of all its pods. No secrets.")
    secrets: tuple[SecretVariable, ...] = Field(default=(), description="Environment variables from secrets.")
    volumes: tuple[ClaimVolume, ...] = Field(default=(), description="Additional volumes of all its pods.")
    priority: Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)] | None = Field(
        default=None,
        description="Scheduling priority of its pods; creates a PriorityClass. Default: the cluster's default.",
    )

    @property
    def wants_token(self) -> bool:
        """Whether the head refuses requests without a token."""
        return self.env.get(tokens.AUTH_MODE) == "token"

    @property
    def token(self) -> SecretVariable | None:
        """Where the token is; None unless `secrets` has one."""
        return next((each for each in self.secrets if each.env == tokens.AUTH_TOKEN), None)


class AwsRay(Model):
    """AWS features for Ray. A key lets the connections of its feature through the network policies."""

    tiered_checkpoints: bool = Field(
        default=False,
        description="Ray's pods may reach HyperPod's checkpoint daemons in the namespace `aws-hyperpod`, TCP 9200. "
        "`hyperpod.tiered_storage` lets them do so without this key.",
    )


class Ray(Model):
    """Ray: its version, its namespace and the RayClusters."""

    version: str | None = Field(
        default=None,
        description="Version of Ray in `image.uri` and the RayClusters. Default: that of `versions`.",
        json_schema_extra={"enum": [each.ray for each in versions.SETS.values()]},
    )
    namespace: Name = Field(default="ray", description="Namespace of the RayClusters.")
    clusters: tuple[RayCluster, ...] = Field(min_length=1, description="The RayClusters.")
