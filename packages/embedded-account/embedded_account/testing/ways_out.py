"""Create a NAT gateway for the networks of tests: without one, nodes and functions in a VPC reach no service."""

from typing import Any


def give_way_out(ec2: Any, vpc: str, block: str = "10.0.255.0/24") -> None:
    """Add a default route to the VPC's main route table, through a NAT gateway in a new public subnet.

    Args:
        ec2: boto3's EC2 client.
        vpc: Id of the VPC.
        block: CIDR block of the public subnet.
    """
    internet = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=internet, VpcId=vpc)
    public = ec2.create_subnet(VpcId=vpc, CidrBlock=block)["Subnet"]["SubnetId"]
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    gateway = ec2.create_nat_gateway(SubnetId=public, AllocationId=address)["NatGateway"]["NatGatewayId"]
    mine = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "association.main", "Values": ["true"]}]
    [main] = ec2.describe_route_tables(Filters=mine)["RouteTables"]
    ec2.create_route(RouteTableId=main["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", NatGatewayId=gateway)
