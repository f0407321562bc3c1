"""A new VPC, with subnets bound to availability zones by *id*.

HyperPod's capacity is bound to a zone id, while a zone name means a different zone in each account. CDK's own `ec2.Vpc`
supports names only (and looks them up), so this VPC consists of CloudFormation (L1) resources.
"""

from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Final, NamedTuple

from aws_cdk import CfnTag
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from config.model import Network
from stacks.network.endpoints import VpcEndpoints
from stacks.network.vpc import EnvironmentVpc

ANYWHERE: Final = "0.0.0.0/0"


class _Subnet(NamedTuple):
    """A subnet. What Node would be asked for more than once is here."""

    name: str
    id: str
    resource: ec2.CfnSubnet


class NewVpc(EnvironmentVpc):
    """A VPC that has in each zone: a public /24 for a NAT gateway, a private /18 for nodes, a private /28 for EKS.

    EKS's network interfaces are in the /28. The subnets are in the order of the environment's zones. A closed network
    has no public subnets, and no gateways except the endpoints of S3 and DynamoDB; it reaches other AWS APIs through
    interface endpoints. A VPC of Slurm nodes (not `for_eks`) has neither the /28 nor the tags of EKS's controllers.
    With `tracking`, jobs of a closed network log to SageMaker's MLflow.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        network: Network,
        region: str,
        for_eks: bool = True,
        further_endpoints: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, id)
        self._for_eks = for_eks
        self._path = self.node.path
        resource = ec2.CfnVPC(
            self,
            "Resource",
            cidr_block=str(network.vpc_cidr),
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=self._named(),
        )
        self._vpc_id = resource.attr_vpc_id
        self._network = network

        gateways = [] if network.closed else self._nat_gateways()
        nodes = [
            self._subnet(f"Nodes{n}", network.node_subnet(n), zone, role="internal-elb")
            for n, zone in enumerate(network.zones)
        ]
        control_plane = [
            self._subnet(f"ControlPlane{n}", network.control_plane_subnet(n), zone, role=None)
            for n, zone in enumerate(network.zones if for_eks else ())
        ]
        private_routes = self._private_route_tables(gateways)
        self._gateway_endpoints(region, private_routes)

        self.vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=self._vpc_id,
            vpc_cidr_block=str(network.vpc_cidr),
            availability_zones=[subnet.resource.attr_availability_zone for subnet in nodes],
        )
        self.node_subnets = list(map(self._private, nodes, private_routes))
        self.control_plane_subnets = [
            self._private(subnet, routes) for subnet, routes in zip(control_plane, private_routes, strict=False)
        ]
        if network.closed:
            VpcEndpoints(
                self,
                "Endpoints",
                vpc=self.vpc,
                vpc_cidr=str(network.vpc_cidr),
                subnets=self.node_subnets,
                region=region,
                further=further_endpoints,
            )

    def _subnet(self, name: str, block: IPv4Network, zone_id: str, *, role: str | None) -> _Subnet:
        """Return a subnet; `role` tells EKS's controllers, by a tag, which load balancers may be placed in it."""
        balancers = {f"kubernetes.io/role/{role}": "1"} if role and self._for_eks else {}
        subnet = ec2.CfnSubnet(
            self,
            name,
            vpc_id=self._vpc_id,
            cidr_block=str(block),
            availability_zone_id=zone_id,
            map_public_ip_on_launch=False,
            tags=[*self._named(name), *(CfnTag(key=key, value=value) for key, value in balancers.items())],
        )
        return _Subnet(name, subnet.attr_subnet_id, subnet)

    def _route_to_internet(self, public: list[_Subnet]) -> ec2.CfnRoute:
        gateway = ec2.CfnInternetGateway(self, "InternetGateway")
        attachment = ec2.CfnVPCGatewayAttachment(
            self,
            "InternetGatewayAttachment",
            vpc_id=self._vpc_id,
            internet_gateway_id=gateway.attr_internet_gateway_id,
        )
        routes = self._route_table("PublicRoutes")
        default = ec2.CfnRoute(
            self,
            "PublicDefaultRoute",
            route_table_id=routes,
            destination_cidr_block=ANYWHERE,
            gateway_id=gateway.attr_internet_gateway_id,
        )
        default.add_resource_dependency(attachment)
        for subnet in public:
            self._associate(subnet, routes)
        return default

    def _nat_gateways(self) -> list[ec2.CfnNatGateway]:
        """Create the public half of the VPC and return its NAT gateways: one in total, or one per zone."""
        public = [
            self._subnet(f"Public{n}", self._network.public_subnet(n), zone, role="elb")
            for n, zone in enumerate(self._network.zones)
        ]
        internet = self._route_to_internet(public)
        placed = public if self._network.nat_gateways == "one-per-zone" else public[:1]
        return [self._nat_gateway(n, subnet, internet) for n, subnet in enumerate(placed)]

    def _private_route_tables(self, gateways: list[ec2.CfnNatGateway]) -> list[str]:
        """Return the ids of route tables: one per zone, so that adding NAT gateways moves no subnet."""
        tables = []
        for n in range(len(self._network.zones)):
            table = self._route_table(f"PrivateRoutes{n}")
            if gateways:
                ec2.CfnRoute(
                    self,
                    f"PrivateDefaultRoute{n}",
                    route_table_id=table,
                    destination_cidr_block=ANYWHERE,
                    nat_gateway_id=gateways[n % len(gateways)].attr_nat_gateway_id,
                )
            tables.append(table)
        return tables

    def _nat_gateway(self, n: int, subnet: _Subnet, internet: ec2.CfnRoute) -> ec2.CfnNatGateway:
        address = ec2.CfnEIP(self, f"NatAddress{n}", domain="vpc")
        gateway = ec2.CfnNatGateway(
            self,
            f"NatGateway{n}",
            subnet_id=subnet.id,
            allocation_id=address.attr_allocation_id,
            tags=self._named(f"NatGateway{n}"),
        )
        # Without this dependency the internet gateway may be deleted while the NAT gateway still has a public address.
        gateway.add_resource_dependency(internet)
        return gateway

    def _gateway_endpoints(self, region: str, tables: list[str]) -> None:
        """Add endpoints of S3 (lifecycle scripts, image layers, data) and DynamoDB: NAT gateways charge per byte."""
        for service in ("s3", "dynamodb"):
            ec2.CfnVPCEndpoint(
                self,
                f"Endpoint-{service}",
                vpc_id=self._vpc_id,
                service_name=f"com.amazonaws.{region}.{service}",
                vpc_endpoint_type="Gateway",
                route_table_ids=tables,
            )

    def _route_table(self, name: str) -> str:
        """Create a route table; return its id."""
        return ec2.CfnRouteTable(self, name, vpc_id=self._vpc_id, tags=self._named(name)).attr_route_table_id

    def _named(self, *name: str) -> list[CfnTag]:
        """Return the tag by which the console names a part of the VPC."""
        return [CfnTag(key="Name", value="/".join((self._path, *name)))]

    def _associate(self, subnet: _Subnet, table: str) -> None:
        ec2.CfnSubnetRouteTableAssociation(self, f"{subnet.name}RouteTable", subnet_id=subnet.id, route_table_id=table)

    def _private(self, subnet: _Subnet, table: str) -> ec2.ISubnet:
        self._associate(subnet, table)
        return ec2.Subnet.from_subnet_attributes(
            self,
            f"{subnet.name}Subnet",
            subnet_id=subnet.id,
            availability_zone=subnet.resource.attr_availability_zone,
            route_table_id=table,
        )
