"""One environment, whole."""

from typing import Annotated

from pydantic import Field, StringConstraints

from config.model.base import AccountId, Model, Name, Region
from config.model.eks import Access, Eks
from config.model.fsx import Fsx
from config.model.hyperpod import HyperPod, InstanceGroup
from config.model.network import Network
from config.model.ray import Image, KubeRay, Ray


class Notifications(Model):
    """Who hears of cluster and node events."""

    email: Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")] = Field(
        description="Address that confirms the subscription once."
    )


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
    accepted_warnings: dict[
        Annotated[str, StringConstraints(pattern=r"^V[0-9]+$")], Annotated[str, StringConstraints(pattern=r"\S")]
    ] = Field(
        default={},
        description="Warnings to live with, by the rule's id, each with the reason. Errors cannot be accepted.",
    )
    image_registry: (
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]+(:[0-9]+)?(/[A-Za-z0-9_./-]*[A-Za-z0-9_])?$")] | None
    ) = Field(
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
    notifications: Notifications | None = Field(default=None, description="Who hears of events.")

    def instance_group(self, name: str) -> InstanceGroup:
        """The instance group of that name; a rule guarantees that Ray's references exist."""
        return next(group for group in self.hyperpod.instance_groups if group.name == name)
