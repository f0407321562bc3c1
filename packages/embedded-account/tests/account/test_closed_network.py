"""Test a network without internet access: a service without an endpoint is unreachable, and the error says so."""

from dataclasses import dataclass
from typing import Any

import pytest
from moto.ec2.models import ec2_backends

from embedded_account.context import Account
from embedded_account.services.ec2.reach import NODE_SERVICES, NetworkLocation, unreachable
from embedded_account.testing.clients import REGION, Clients
from embedded_account.testing.functions import invoke, make_function, make_role
from embedded_account.testing.ways_out import give_way_out

VPC_POLICY = "service-role/AWSLambdaVPCAccessExecutionRole"
WHO_AM_I = """
import boto3
def handler(event, context):
    return boto3.client("sts").get_caller_identity()["Arn"]
"""


@dataclass
class Network:
    """A VPC without any gateway, with one subnet and one security group."""

    ec2: Any
    vpc: str
    subnet: str
    group: str

    @property
    def place(self) -> NetworkLocation:
        return NetworkLocation(self.subnet, (self.group,))

    def endpoint(self, service: str, **rule: Any) -> str:
        """Create an interface endpoint whose security group has only this ingress rule."""
        group = self.ec2.create_security_group(GroupName=service, Description=service, VpcId=self.vpc)["GroupId"]
        self.ec2.authorize_security_group_ingress(
            GroupId=group, IpPermissions=[{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, **rule}]
        )
        made = self.ec2.create_vpc_endpoint(
            VpcId=self.vpc,
            ServiceName=f"com.amazonaws.{REGION}.{service}",
            VpcEndpointType="Interface",
            SubnetIds=[self.subnet],
            SecurityGroupIds=[group],
            PrivateDnsEnabled=True,
        )
        return str(made["VpcEndpoint"]["VpcEndpointId"])

    def gateway(self, service: str) -> None:
        mine = [{"Name": "vpc-id", "Values": [self.vpc]}]
        tables = [table["RouteTableId"] for table in self.ec2.describe_route_tables(Filters=mine)["RouteTables"]]
        self.ec2.create_vpc_endpoint(
            VpcId=self.vpc, ServiceName=f"com.amazonaws.{REGION}.{service}", RouteTableIds=tables
        )


FROM_VPC = {"IpRanges": [{"CidrIp": "10.0.0.0/16"}]}


@pytest.fixture
def network(clients: Clients) -> Network:
    ec2 = clients("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="callers", Description="callers", VpcId=vpc)["GroupId"]
    return Network(ec2, vpc, subnet, group)


def why(account: Account, network: Network, *services: str) -> str:
    return unreachable(ec2_backends[account.account_id][account.region], network.place, services)


def test_without_endpoint_and_nat_gateway_nothing_is_reached(account: Account, network: Network) -> None:
    assert why(account, network, "sts").startswith(f"subnet {network.subnet} has no route to sts: neither")


def test_interface_and_gateway_endpoints_lead_to_their_service_only(account: Account, network: Network) -> None:
    network.endpoint("sts", **FROM_VPC)
    network.gateway("s3")
    assert why(account, network, "sts", "s3") == ""
    assert "no route to logs" in why(account, network, "sts", "s3", "logs")


def test_a_nat_gateway_leads_to_every_service(account: Account, network: Network) -> None:
    give_way_out(network.ec2, network.vpc)
    assert why(account, network, "sts", "iam", *NODE_SERVICES) == ""


def test_an_endpoint_whose_group_refuses_the_caller_is_no_way_even_beside_a_nat_gateway(
    account: Account, network: Network
) -> None:
    give_way_out(network.ec2, network.vpc)
    endpoint = network.endpoint("sts", IpRanges=[{"CidrIp": "10.0.99.0/24"}])
    assert f"of {endpoint} refuse" in why(account, network, "sts")


def test_an_endpoint_may_name_the_callers_security_group(account: Account, network: Network) -> None:
    network.endpoint("sts", UserIdGroupPairs=[{"GroupId": network.group}])
    assert why(account, network, "sts") == ""


def make_caller(account: Account, network: Network) -> Any:
    role = make_role(account, "caller", "lambda.amazonaws.com", VPC_POLICY)
    vpc = {"SubnetIds": [network.subnet], "SecurityGroupIds": [network.group]}
    return make_function(account, {"main.py": WHO_AM_I}, Timeout=20, VpcConfig=vpc, Role=role.attributes()["Arn"])


def test_function_in_a_vpc_is_refused_a_service_that_its_subnet_does_not_reach(
    account: Account, network: Network
) -> None:
    function = make_caller(account, network)
    payload, is_error, _ = invoke(account, function)
    assert is_error
    assert f"subnet {network.subnet} has no route to sts" in payload["errorMessage"]
    network.endpoint("sts", **FROM_VPC)
    payload, is_error, _ = invoke(account, function)
    assert not is_error, payload


def test_function_in_a_vpc_answers_cloudformation_through_s3(account: Account, network: Network) -> None:
    network.endpoint("sts", **FROM_VPC)
    function = make_caller(account, network)
    payload, is_error, _ = invoke(account, function, {"ResponseURL": "https://answer.invalid/"})
    assert is_error
    assert "has no route to s3" in payload["errorMessage"]
    network.gateway("s3")
    assert not invoke(account, function, {"ResponseURL": "https://answer.invalid/"})[1]
