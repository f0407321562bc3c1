"""An existing VPC, used but not changed."""

from typing import Final

from aws_cdk import Acknowledgment, Validations
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from config.model import ExistingSubnet
from config.model import ExistingVpc as Settings
from stacks.network.vpc import EnvironmentVpc

_NO_ROUTE_TABLE: Final = "Annotation::@aws-cdk/aws-ec2:noSubnetRouteTableId"


class ImportedVpc(EnvironmentVpc):
    """References to the VPC and its subnets by their ids in the environment file; nothing is looked up."""

    def __init__(self, scope: Construct, id: str, *, settings: Settings) -> None:
        super().__init__(scope, id)
        Validations.of(self).acknowledge(
            Acknowledgment(id=_NO_ROUTE_TABLE, reason="The owner of an existing VPC manages its routes")
        )
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=settings.id,
            vpc_cidr_block=str(settings.cidr),
            # CDK expects zone names, which are unknown here, but uses only their number.
            availability_zones=[subnet.zone for subnet in settings.node_subnets],
        )
        self.node_subnets = self._subnets("Nodes", settings.node_subnets)
        self.control_plane_subnets = self._subnets("ControlPlane", settings.control_plane_subnets)

    def _subnets(self, name: str, subnets: tuple[ExistingSubnet, ...]) -> list[ec2.ISubnet]:
        return [
            ec2.Subnet.from_subnet_attributes(self, f"{name}{n}", subnet_id=subnet.id)
            for n, subnet in enumerate(subnets)
        ]
