"""Name the resources of one environment as IAM policies name them: ARNs, with wildcards where AWS chooses a part."""

from dataclasses import dataclass
from typing import Final

from config import EksEnvironment, Environment, naming
from ops.policy import generated

EVERYTHING: Final = ("*",)
"""For actions without resource types only (service authorization reference)."""


@dataclass(frozen=True)
class Arns:
    """The ARNs of an environment's resources."""

    environment: Environment

    def of(self, service: str, *names: str) -> tuple[str, ...]:
        """Return ARNs of a service's resources in the environment's account and region."""
        where = f"{self.environment.region}:{self.environment.account}"
        return tuple(f"arn:aws:{service}:{where}:{name}" for name in names)

    def made(self, service: str, prefix: str, kind: generated.Kind) -> tuple[str, ...]:
        """Return ARNs of what the stacks leave to CloudFormation to name; `prefix` goes before the name."""
        return self.of(service, *(f"{prefix}{name}" for name in generated.names(self.environment, kind)))

    @property
    def stacks(self) -> tuple[str, ...]:
        """The environment's stacks; the last part of their ARNs is an id."""
        names = (naming.stack(self.environment, part) for part in self.environment.stacks)
        return self.of("cloudformation", *(f"stack/{name}/*" for name in names))

    @property
    def eks_cluster(self) -> tuple[str, ...]:
        """The EKS cluster; empty if the environment has none."""
        return ()

    def in_eks(self, *kinds: str) -> tuple[str, ...]:  # noqa: ARG002 - `EksArns` reads them
        """Return ARNs of everything of these kinds in the EKS cluster; empty if the environment has none."""
        return ()

    @property
    def node_access(self) -> tuple[str, ...]:
        """The access entries of the roles of nodes in the EKS cluster; empty if the environment has none."""
        return ()

    @property
    def group_counts(self) -> tuple[str, ...]:
        """The function that sets the counts of groups that sleep; empty if none sleeps."""
        name = naming.group_counts(self.environment)
        return self.of("lambda", f"function:{name}") if self.environment.hyperpod.sleeping_groups else ()

    @property
    def issuer(self) -> tuple[str, ...]:
        """The issuer of the EKS cluster's tokens, whose id AWS chooses; empty if the environment has none."""
        return ()

    @property
    def hyperpod_clusters(self) -> tuple[str, ...]:
        """Every HyperPod cluster of account and region: a cluster's ARN ends in an id that SageMaker chooses."""
        return self.of("sagemaker", "cluster/*")

    @property
    def training_plans(self) -> tuple[str, ...]:
        """The training plans of the instance groups."""
        groups = self.environment.hyperpod.instance_groups
        return tuple(dict.fromkeys(group.training_plan for group in groups if group.training_plan))

    @property
    def buckets(self) -> tuple[str, ...]:
        """The buckets whose names the environment fixes."""
        names = (naming.data_bucket(self.environment), naming.lifecycle_bucket(self.environment))
        return tuple(f"arn:aws:s3:::{name}" for name in names)

    @property
    def repository(self) -> tuple[str, ...]:
        """The repository of the Ray image; empty if the image comes from elsewhere."""
        name = self.environment.repository
        return self.of("ecr", f"repository/{name}") if name else ()

    @property
    def company_key(self) -> tuple[str, ...]:
        """The KMS key that the company gives; empty if it gives none."""
        key = self.environment.company.kms_key
        return (key,) if key else ()

    @property
    def node_logs(self) -> tuple[str, ...]:
        """The log groups in which HyperPod keeps its nodes' logs."""
        return self.of("logs", f"log-group:/aws/sagemaker/Clusters/{self.environment.hyperpod.cluster_name}/*")

    @property
    def nodes_role(self) -> tuple[str, ...]:
        """The role of the HyperPod cluster's nodes."""
        return tuple(map(self._role, generated.nodes_role(self.environment)))

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that the stacks make."""
        return tuple(map(self._role, generated.names(self.environment, "roles")))

    def _role(self, name: str) -> str:
        return f"arn:aws:iam::{self.environment.account}:role{self.environment.company.role_path}{name}"


@dataclass(frozen=True)
class EksArns(Arns):
    """The ARNs of the resources of an environment whose cluster EKS orchestrates."""

    environment: EksEnvironment

    @property
    def eks_cluster(self) -> tuple[str, ...]:
        """The EKS cluster."""
        return self.of("eks", f"cluster/{naming.eks_cluster(self.environment)}")

    def in_eks(self, *kinds: str) -> tuple[str, ...]:
        """Return ARNs of everything of these kinds in the EKS cluster."""
        return self.of("eks", *(f"{kind}/{naming.eks_cluster(self.environment)}/*" for kind in kinds))

    @property
    def node_access(self) -> tuple[str, ...]:
        """The access entries of the roles of nodes."""
        cluster, account = naming.eks_cluster(self.environment), self.environment.account
        return self.of("eks", f"access-entry/{cluster}/role/{account}/*")

    @property
    def issuer(self) -> tuple[str, ...]:
        """The issuer of the EKS cluster's tokens, whose id AWS chooses."""
        host = f"oidc.eks.{self.environment.region}.amazonaws.com"
        return (f"arn:aws:iam::{self.environment.account}:oidc-provider/{host}/id/*",)
