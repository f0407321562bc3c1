"""The models of the EKS cluster, new or existing, and of access to it."""

from datetime import date
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from config.facts import support, versions
from config.facts.add_ons import known_add_ons
from config.model.base import Model, Name, ObjectName, RoleArn, Shape
from config.model.company import PolicyArn

SecurityGroupId = Annotated[
    str,
    Shape(
        pattern=r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$",
        what="the id of a security group",
        like="sg-0123456789abcdef0",
        fix="copy it from `aws eks describe-cluster --name NAME` (clusterSecurityGroupId)",
    ),
]
OidcProviderArn = Annotated[
    str,
    Shape(
        pattern=r"^arn:aws:iam::[0-9]{12}:oidc-provider/oidc\.eks\.[a-z0-9-]+\.amazonaws\.com/id/[A-Za-z0-9_]+$",
        what="the ARN of an EKS cluster's IAM OIDC provider",
        like="arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF",
        fix="copy it from `aws iam list-open-id-connect-providers`",
        mistakes=((r"https://.*", "it is the address of the issuer"),),
    ),
]
Ec2Type = Annotated[
    str,
    Shape(
        pattern=r"^[a-z]+[0-9][a-z0-9-]*\.[a-z0-9]+$",
        what="EC2's name of an instance type",
        like="m5.xlarge",
        fix="write family, dot and size",
        mistakes=((r"ml\..*", "it is a SageMaker type, and these nodes are EC2 instances"),),
    ),
]
AddOnVersion = Annotated[
    str,
    Shape(
        pattern=r"^v[0-9]+\.[0-9]+\.[0-9]+-eksbuild\.[0-9]+$",
        what="the version of an EKS add-on with its build",
        like="v1.11.4-eksbuild.2",
        fix="`aws eks describe-addon-versions --addon-name NAME` lists them",
    ),
]
# The longest names of HyperPod's add-ons have more letters than `Name` takes, and Marketplace's have underscores.
AddOnName = Annotated[
    str,
    Shape(
        pattern=r"^[a-z]([-a-z0-9_]{0,61}[a-z0-9])?$",
        what="the name of an EKS add-on: lowercase letters, digits, and inner hyphens and underscores",
        like="metrics-server",
        fix="`aws eks describe-addon-versions` lists the names",
    ),
]
ClusterName = Annotated[
    str,
    Shape(
        pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$",
        what="the name of an EKS cluster, 1 to 100 letters, digits, hyphens and underscores",
        like="platform",
        fix="`aws eks list-clusters` lists the names",
        mistakes=((r"arn:.*", "it is an ARN"),),
    ),
]


KubeflowPart = Literal["namespace", "training-operator", "mpi-operator"]


class SystemNodes(Model):
    """The EKS managed node group `system`: CoreDNS, operators, the CSI controller, the image build."""

    # An EC2 type: HyperPod does not manage these nodes.
    instance_type: Ec2Type = Field(
        default="m5.xlarge", description="EC2 type, x86-64: these nodes build the Ray image for HyperPod's nodes."
    )
    count: PositiveInt = Field(default=2, description="Number of nodes.")
    volume_gib: PositiveInt = Field(default=150, description="Root volume in GiB; the image build needs most of it.")


class AddOnRole(Model):
    """The IAM role of an add-on's pods, which only its service account can assume (IRSA)."""

    policies: tuple[PolicyArn, ...] = Field(min_length=1, description="ARNs of the managed policies that it gets.")
    service_account: ObjectName | None = Field(
        default=None, description="The service account. Default: the one that the add-on's documentation names."
    )


class AddOn(Model):
    """A managed add-on of EKS."""

    name: AddOnName = Field(description="Its name, as `aws eks describe-addon-versions` lists it.")
    version: AddOnVersion | None = Field(
        default=None,
        description="Its version. Default: the project's for vpc-cni, else EKS's default for the Kubernetes version.",
    )
    configuration: dict[str, Any] = Field(
        default={}, description="Its configuration values, as `aws eks describe-addon-configuration` describes them."
    )
    namespace: Name | None = Field(
        default=None,
        description="The namespace of its objects, which RayClusters cannot use. Default: the documented one.",
    )
    role: AddOnRole | None = Field(default=None, description="A role of its own. Default: none.")

    @property
    def namespace_used(self) -> str:
        """The namespace of its objects; empty if neither the file nor the documentation names it."""
        known = known_add_ons().get(self.name)
        return self.namespace or (known.namespace if known else "")

    @property
    def service_account(self) -> str:
        """The service account that takes its role; empty if neither the file nor the documentation names it."""
        known = known_add_ons().get(self.name)
        stated = self.role.service_account if self.role else None
        return stated or (known.service_account if known else "")


class ExistingEks(Model):
    """An existing EKS cluster in `network.existing`. It keeps what it has; a destroy leaves it as it was.

    Its authentication mode must be `API` or `API_AND_CONFIG_MAP`, and its private endpoint enabled. Its owner manages
    its add-ons (VPC CNI, CoreDNS, kube-proxy, pod identity agent).
    """

    name: ClusterName = Field(description="Its name.")
    oidc_provider_arn: OidcProviderArn = Field(description="ARN of its IAM OIDC provider.")
    security_group: SecurityGroupId = Field(description="Its cluster security group.")
    vpc_cni: AddOnVersion = Field(
        description="Version of its add-on vpc-cni: 1.18.3 or newer, and none of 1.22.0 to 1.22.3."
    )
    kubeflow: tuple[KubeflowPart, ...] = Field(
        default=(),
        description="Parts of Kubeflow that the cluster has, and that HyperPod's chart then omits: the namespace "
        "`kubeflow`, the training operator, the MPI operator with its namespace `mpi-operator`. `ops check --live` "
        "verifies the list.",
    )


class Eks(Model):
    """The EKS cluster."""

    version: str = Field(
        default=versions.KUBERNETES_DEFAULT,
        description="Kubernetes version of the cluster and its system nodes. State the version of an existing cluster.",
        json_schema_extra={"enum": [*support.offered(date.fromisoformat(support.table()["date"]))]},
    )
    endpoint_access: Literal["public-and-private", "private"] = Field(
        default="public-and-private", description="Where the Kubernetes API can be reached; inside the VPC always."
    )
    public_access_cidrs: tuple[IPv4Network, ...] = Field(
        default=(),
        description="Public addresses that may reach the public endpoint: those of your office, or of your VPN's exit.",
    )
    add_ons: tuple[AddOn, ...] = Field(
        default=(), description="Additional managed add-ons, and versions of those that every cluster gets."
    )
    system_nodes: SystemNodes = Field(default=SystemNodes(), description="The managed node group `system`.")
    existing: ExistingEks | None = Field(default=None, description="Use this cluster instead of a new one.")


class Access(Model):
    """IAM roles that may use the Kubernetes API."""

    admins: tuple[RoleArn, ...] = Field(default=(), description="Roles that may do everything everywhere.")
    submitters: tuple[RoleArn, ...] = Field(default=(), description="Roles that may run Ray jobs in Ray's namespace.")
    viewers: tuple[RoleArn, ...] = Field(
        default=(), description="Roles that may read the environment's namespaces and the nodes, but no secrets."
    )

    @property
    def lists(self) -> dict[str, tuple[RoleArn, ...]]:
        """The lists of roles by their keys."""
        return {"admins": self.admins, "submitters": self.submitters, "viewers": self.viewers}
