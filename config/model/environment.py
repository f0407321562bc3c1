"""One environment, whole."""

from typing import Annotated

from pydantic import Field

from config.model.base import AccountId, Model, Name, Region, Shape
from config.model.eks import Access, Eks
from config.model.fsx import Fsx
from config.model.hyperpod import HyperPod, InstanceGroup
from config.model.network import Network
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
        like="a trial does without a second head node",
        fix="say why the warning may stay",
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
        what="the host of a registry, with a path if need be",
        like="111122223333.dkr.ecr.us-west-2.amazonaws.com/mirror",
        fix="leave out the scheme and a slash at the end",
        mistakes=((r"[a-z]+://.*", "it has a scheme"),),
    ),
]


class Notifications(Model):
    """Who hears of cluster and node events."""

    email: Email = Field(description="Address that confirms the subscription once.")


class Environment(Model):
    """One environment: everything that a deployment is made from."""

    name: Name = Field(description="The file's name without `.yaml`; need not be stated.")
    project: Name = Field(description="Prefix of all names.")
    account: AccountId = Field(description="AWS account, twelve digits in quotes.")
    region: Region = Field(description="AWS region, such as `us-west-2`.")
    protect: bool = Field(
        default=False,
        description="Keeps the network and storage stacks: a destroy then ends everything but the data.",
    )
    accepted_warnings: dict[RuleId, Reason] = Field(
        default={},
        description="Warnings to live with, by the rule's id, each with the reason. Errors cannot be accepted.",
    )
    image_registry: Registry | None = Field(
        default=None,
        description="Registry, with a path if need be, that holds copies of all public images (`ops images`).",
    )
    network: Network = Field(description="The VPC.")
    access: Access = Field(default=Access(), description="Who may use the Kubernetes API.")
    eks: Eks = Field(description="The EKS cluster.")
    hyperpod: HyperPod = Field(description="The HyperPod cluster.")
    fsx: Fsx = Field(default=Fsx(), description="The file system.")
    image: Image = Field(description="The Ray image.")
    kuberay: KubeRay = Field(default=KubeRay(), description="The KubeRay operator.")
    ray: Ray = Field(description="The RayClusters.")
    aws_ray: AwsRay = Field(default=AwsRay(), description="AWS's own features for Ray.")
    notifications: Notifications | None = Field(default=None, description="Who hears of events.")

    def instance_group(self, name: str) -> InstanceGroup:
        """The instance group of that name; a rule guarantees that Ray's references exist."""
        return next(group for group in self.hyperpod.instance_groups if group.name == name)
