"""Ray: operator, image and RayClusters."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from config.facts import versions
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
        what="the name of an ECR repository: small letters, digits, and single inner dots, slashes and hyphens",
        like="aws-ray-custom",
        fix="leave out registry and tag",
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
    """The Ray image: `repository`, and the cluster builds it from `ray_image/`; or `uri`, and it exists."""

    repository: RepositoryName | None = Field(
        default=None, description="ECR repository, made for it, that the cluster builds the image into."
    )
    pip: tuple[str, ...] = Field(
        default=(),
        description="Further Python packages of the built image, each pinned: `name==version`. They cannot change "
        "the version of one that `ray_image/requirements.txt` locks.",
    )
    uri: ImageUri | None = Field(
        default=None,
        description="An image that exists, with tag or digest: nothing is built. The nodes' own role pulls it, from "
        "any ECR registry that lets it.",
    )

    @property
    def built(self) -> bool:
        """Whether the cluster builds it."""
        return self.uri is None


class KubeRay(Model):
    """The KubeRay operator."""

    version: str = Field(
        default=versions.KUBERAY, description="Its version.", json_schema_extra={"enum": [*versions.KUBERAY_VERSIONS]}
    )
    namespace: Name = Field(default="kuberay", description="Its namespace.")


class RayHead(Model):
    """The head pod: on a group without accelerators, where their faults cannot reach it."""

    instance_group: HyperPodName = Field(description="Instance group that it runs on.")
    cpu: int = Field(default=2, description="CPUs, at least 2.")
    memory_gib: int = Field(default=8, description="Memory in GiB, at least 8.")
    node_selector: dict[LabelKey, LabelValue] = Field(default={}, description="Further labels that its node must have.")


class RayWorkers(Model):
    """One worker group: one pod per node of an instance group, with all that the node can give unless stated."""

    name: Name = Field(description="Its name.")
    instance_group: HyperPodName = Field(description="Instance group that it runs on.")
    replicas: Annotated[int, Field(ge=0)] = Field(description="Number of pods.")
    min_replicas: Annotated[int, Field(ge=0)] = Field(description="Fewest pods under autoscaling.")
    max_replicas: PositiveInt = Field(description="Most pods under autoscaling.")
    cpu: PositiveInt | None = Field(default=None, description="CPUs of a pod. Absent: what the node can give.")
    memory_gib: PositiveInt | None = Field(
        default=None, description="Memory of a pod in GiB. Absent: what the node can give."
    )
    accelerators: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="GPUs or Neuron devices of a pod. Absent: all of the node."
    )
    efa: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="EFA interfaces of a pod. Absent: all of the node."
    )
    node_selector: dict[LabelKey, LabelValue] = Field(
        default={}, description="Further labels that its nodes must have."
    )


class SecretVariable(Model):
    """An environment variable from a Kubernetes secret of Ray's namespace; the secret itself is never in a template."""

    env: VariableName = Field(description="Name of the variable.")
    secret: ObjectName = Field(description="Name of the secret.")
    key: SecretKey = Field(description="Key in the secret.")


class ClaimVolume(Model):
    """A further PersistentVolumeClaim of Ray's namespace, made by others."""

    claim: ObjectName = Field(description="Name of the claim.")
    mount_path: AbsolutePath = Field(description="Where the pods mount it.")
    read_only: bool = Field(default=False, description="Mount it for reading only.")


class Autoscaling(Model):
    """Ray's autoscaler beside the head: worker pods by demand, between their group's bounds."""

    idle_timeout_seconds: PositiveInt = Field(default=300, description="How long a worker is idle before it goes.")
    upscaling: Literal["Default", "Aggressive", "Conservative"] = Field(
        default="Default", description="How fast it adds workers (KubeRay's `upscalingMode`)."
    )


class RayCluster(Model):
    """One RayCluster."""

    name: Name = Field(description="Its name.")
    head: RayHead = Field(description="The head pod.")
    workers: tuple[RayWorkers, ...] = Field(min_length=1, description="The worker groups.")
    autoscaling: Autoscaling | None = Field(default=None, description="Worker pods by demand. Absent: `replicas`.")
    env: dict[VariableName, str] = Field(default={}, description="Environment variables of all its pods. No secrets.")
    secrets: tuple[SecretVariable, ...] = Field(default=(), description="Environment variables from secrets.")
    volumes: tuple[ClaimVolume, ...] = Field(default=(), description="Further volumes of all its pods.")
    priority: Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)] | None = Field(
        default=None,
        description="Scheduling priority of its pods; makes a PriorityClass. Absent: the cluster's default.",
    )


class AwsRay(Model):
    """AWS's own features for Ray. Each key lets the connections of one through the network policies."""

    hang_detection: bool = Field(
        default=False, description="Ray's pods may reach HyperPod's job monitoring agent on the nodes, TCP 8889."
    )
    tiered_checkpoints: bool = Field(
        default=False,
        description="Ray's pods may reach HyperPod's checkpoint daemons in the namespace `aws-hyperpod`, TCP 9200.",
    )
    metrics: bool = Field(
        default=False,
        description="The collector of the add-on amazon-sagemaker-hyperpod-observability (namespace "
        "`hyperpod-observability`) may scrape Ray's pods and the operator, TCP 8080.",
    )


class Ray(Model):
    """Ray itself."""

    version: str = Field(
        default=versions.RAY, description="Its version, that of the image.", json_schema_extra={"enum": [versions.RAY]}
    )
    namespace: Name = Field(default="ray", description="Namespace of the RayClusters.")
    clusters: tuple[RayCluster, ...] = Field(min_length=1, description="The RayClusters.")
