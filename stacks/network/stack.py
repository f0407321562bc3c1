"""The network stack: a new or existing VPC, and the security group that nodes, file system and EKS share."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct, IDependable

from config import Environment
from stacks.network.endpoints import ALERTS_ENDPOINT, PROMETHEUS_ENDPOINT, TRACKING_SERVICE
from stacks.network.existing_vpc import ImportedVpc
from stacks.network.flow_logs import FlowLogs
from stacks.network.new_vpc import NewVpc
from stacks.network.security_group import SharedSecurityGroup
from stacks.network.vpc import EnvironmentVpc
from stacks.shared.environment_stack import EnvironmentStack


class NetworkStack(EnvironmentStack):
    """The VPC with its flow log, and the shared security group; in an existing VPC the security group only.

    A resource that must not start before the group's rules exist depends on `security_group_rules`.
    """

    vpc: EnvironmentVpc
    security_group: ec2.ISecurityGroup
    security_group_rules: list[IDependable]

    def __init__(self, scope: Construct, *, environment: Environment) -> None:
        super().__init__(
            scope, environment=environment, part="network", purpose="VPC and security group", keeps_data=True
        )
        network, for_eks = environment.network, environment.has_kubernetes
        if network.existing:
            self.vpc = ImportedVpc(self, "Vpc", settings=network.existing)
        else:
            self.vpc = NewVpc(
                self,
                "Vpc",
                network=network,
                region=environment.region,
                for_eks=for_eks,
                further_endpoints=_further_endpoints(environment),
            )
            FlowLogs(self, "FlowLogs", vpc=self.vpc.vpc)
        shared = SharedSecurityGroup(self, "SharedSecurityGroup", vpc=self.vpc.vpc, for_eks=for_eks)
        self.security_group = shared.security_group
        self.security_group_rules = shared.rules


def _further_endpoints(environment: Environment) -> list[str]:
    """Return the interface endpoints that only some closed environments need."""
    needed = {
        TRACKING_SERVICE: environment.managed_mlflow,
        PROMETHEUS_ENDPOINT: bool(environment.hyperpod_observability),
        ALERTS_ENDPOINT: environment.alertmanager,
    }
    return [service for service, is_needed in needed.items() if is_needed]
