"""The model of a whole environment."""

from typing import Annotated

from pydantic import Field

from config.model.base import AccountId, Model, Name, Region, Shape
from config.model.company import Company
from config.model.eks import Access, Eks
from config.model.fsx import Fsx
from config.model.hyperpod import HyperPod, InstanceGroup
from config.model.network import Network
from config.model.observability import Observability
from config.model.ray import AwsRay, Image, KubeRay, Ray

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
Email = Annotated[
    str,
    Shape(
        pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
        what="one e-mail address",
        like="ml-platform@example.com",
        fix="write one address without spaces",
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
    hyperpod: HyperPod = Field(description="The HyperPod cluster.")
    fsx: Fsx = Field(default=Fsx(), description="The file system.")
    image: Image = Field(description="The Ray image.")
    kuberay: KubeRay = Field(default=KubeRay(), description="The KubeRay operator.")
    ray: Ray = Field(description="The RayClusters.")
    aws_ray: AwsRay = Field(default=AwsRay(), description="AWS features for Ray.")
    observability: Observability = Field(default=Observability(), description="Metrics, dashboards and alerts.")
    notifications: Notifications | None = Field(default=None, description="Who is notified of events.")

    def instance_group(self, name: str) -> InstanceGroup:
        """Return the instance group of that name; a rule guarantees that Ray's references exist."""
        return next(group for group in self.hyperpod.instance_groups if group.name == name)
