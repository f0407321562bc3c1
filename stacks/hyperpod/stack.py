"""The hyperpod stack: the cluster, whose nodes join EKS or run Slurm, and what its creation and deletion need."""

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from config import Environment, naming
from config.model import Notifications
from stacks.hyperpod.call_permissions import CallPermissions
from stacks.hyperpod.cluster import HyperPodCluster
from stacks.hyperpod.execution_role import ExecutionRole
from stacks.hyperpod.group_counts import GroupCounts
from stacks.hyperpod.lifecycle_scripts import LifecycleScripts
from stacks.hyperpod.monthly_budget import MonthlyBudget
from stacks.hyperpod.notifications import ClusterNotifications
from stacks.hyperpod.orchestration import Orchestration
from stacks.hyperpod.provider import ClusterProvider
from stacks.hyperpod.teardown import ClusterTeardown
from stacks.network.stack import NetworkStack
from stacks.shared.environment_stack import EnvironmentStack
from stacks.storage.stack import StorageStack


class HyperPodStack(EnvironmentStack):
    """The HyperPod cluster with its role, lifecycle scripts, provider, teardown guard and notifications.

    Order of creation (reversed for deletion): role, scripts and everything of other stacks, then the teardown guard,
    then the cluster. SageMaker refuses a cluster whose role has no policy yet or whose EKS cluster lacks the
    dependencies chart. Its network check fails without the security group's rules.
    """

    cluster_name: str
    cluster: HyperPodCluster

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        network: NetworkStack,
        storage: StorageStack,
        orchestration: Orchestration,
    ) -> None:
        super().__init__(scope, environment=environment, part="hyperpod", purpose="SageMaker HyperPod cluster")
        settings = environment.hyperpod
        self.cluster_name = settings.cluster_name
        # The subnet of the first zone, where the file system is.
        subnet, own_subnets = network.vpc.node_subnets[0], _own_subnets(environment, network.vpc.node_subnets)
        execution_role = ExecutionRole(
            self,
            "ExecutionRole",
            cluster_name=self.cluster_name,
            subnets=list(dict.fromkeys([subnet, *own_subnets.values()])),
            subnets_owner=environment.network.subnets_owner or environment.account,
            security_group=network.security_group,
            eks_cluster=orchestration.eks_cluster,
            lifecycle_bucket=storage.lifecycle_bucket,
            data_bucket=orchestration.data_bucket,
            key=self.company_key,
            managed_policy=orchestration.managed_policy,
        )
        scripts = LifecycleScripts(
            self,
            "LifecycleScripts",
            bucket=storage.lifecycle_bucket,
            folders=[group.lifecycle_scripts for group in settings.instance_groups],
            settings={"FSX_EFA": "true"} if environment.fsx.efa else None,
            generated=orchestration.generated,
        )
        permissions = CallPermissions(
            self,
            execution_role=execution_role.role,
            eks_cluster=orchestration.eks_cluster,
            training_plans=[group.training_plan for group in settings.instance_groups if group.training_plan],
            image_ids=[group.image_id for group in settings.instance_groups if group.image_id],
            key=self.company_key,
        )
        provider = ClusterProvider(self, "Provider", permissions=permissions)
        teardown = ClusterTeardown(self, "Teardown", provider=provider)
        needed = [execution_role, scripts, *orchestration.needed, *network.security_group_rules]
        teardown.node.add_dependency(*needed)
        self.cluster = HyperPodCluster(
            self,
            "Cluster",
            provider=provider,
            settings=settings,
            tags={
                **naming.tags_of_all(environment),
                "SageMaker": "true",
                "project": environment.project,
                "environment": environment.name,
            },
            execution_role=execution_role.role,
            lifecycle_scripts=scripts,
            orchestration=orchestration.of_cluster,
            slurm=orchestration.slurm,
            subnet=subnet,
            own_subnets=own_subnets,
            security_group=network.security_group,
            key=self.company_key,
        )
        self.cluster.node.add_dependency(teardown, *needed)
        if settings.sleeping_groups:
            # Updated before the cluster, so that both know the same ranges from then on.
            self.cluster.node.add_dependency(
                GroupCounts(self, "GroupCounts", environment=environment, permissions=permissions)
            )
        if environment.notifications:
            self._notify(environment, environment.notifications)

    def _notify(self, environment: Environment, wanted: Notifications) -> None:
        notifications = ClusterNotifications(
            self, "Notifications", cluster_name=self.cluster_name, email=wanted.email, key=self.company_key
        )
        if wanted.monthly_budget_usd:
            MonthlyBudget(
                self,
                "Budget",
                usd=wanted.monthly_budget_usd,
                filtered_by=naming.budget_tag(environment),
                tags=naming.tags_of_all(environment),
                receiver=notifications,
            )


def _own_subnets(environment: Environment, subnets: Sequence[ec2.ISubnet]) -> dict[str, ec2.ISubnet]:
    """Return the subnets of the groups outside the first zone, by the group's name."""
    zones = environment.network.node_zones
    return {
        group.name: subnets[zones.index(group.zone)]
        for group in environment.hyperpod.instance_groups
        if group.zone and group.zone != zones[0]
    }
