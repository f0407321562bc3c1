"""Promises of the network stack."""

import json
import re
from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from config import available, load
from stacks.network.endpoints import INTERFACE_ENDPOINTS, SIGNED_BY_OWN_ROLES
from tests.synth.support.synthesis import Assemblies, Assembly, Template, synthesise

ANYWHERE = "0.0.0.0/0"
SUBNET_OWNER = re.compile(r"arn:aws:ec2:[a-z0-9-]+:(\w+):subnet/")
NEW = [name for name in available() if load(name).network.existing is None]


@pytest.fixture
def closed(assembly: Assemblies) -> Assembly:
    return assembly("closed")


def _private_tables(network: Template) -> dict[str, str]:
    """Return the NAT gateway of each private route table, both as logical ids."""
    return {
        route["RouteTableId"]["Fn::GetAtt"][0]: route["NatGatewayId"]["Fn::GetAtt"][0]
        for route in network.properties("AWS::EC2::Route")
        if "NatGatewayId" in route
    }


def _table_of(network: Template, subnet: str) -> str:
    [table] = [
        association["RouteTableId"]["Fn::GetAtt"][0]
        for association in network.properties("AWS::EC2::SubnetRouteTableAssociation")
        if association["SubnetId"]["Fn::GetAtt"][0] == subnet
    ]
    return str(table)


def _subnets(network: Template, prefix: int) -> dict[str, Any]:
    subnets = network.all("AWS::EC2::Subnet")
    return {
        id: subnet["Properties"]
        for id, subnet in subnets.items()
        if IPv4Network(subnet["Properties"]["CidrBlock"]).prefixlen == prefix
    }


@pytest.mark.parametrize("name", NEW)
def test_subnets_are_bound_to_zone_ids_never_to_names(assembly: Assemblies, name: str) -> None:
    synthesised = assembly(name)
    zones = synthesised.environment.network.zones
    for prefix in (18, 28) if synthesised.environment.network.closed else (18, 24, 28):
        subnets = _subnets(synthesised.templates["network"], prefix).values()
        assert sorted(subnet["AvailabilityZoneId"] for subnet in subnets) == sorted(zones)
        assert not any("AvailabilityZone" in subnet for subnet in subnets)


@pytest.mark.parametrize("name", NEW)
def test_subnets_lie_in_the_vpc_and_do_not_overlap(assembly: Assemblies, name: str) -> None:
    network = assembly(name).templates["network"]
    vpc = IPv4Network(network.only("AWS::EC2::VPC")["CidrBlock"])
    blocks = [IPv4Network(subnet["CidrBlock"]) for subnet in network.properties("AWS::EC2::Subnet")]
    assert all(block.subnet_of(vpc) for block in blocks)
    assert not any(one.overlaps(other) for one, other in combinations(blocks, 2))


def test_nodes_and_control_plane_have_no_way_in_from_the_internet(dev: Assembly) -> None:
    network = dev.templates["network"]
    private = _private_tables(network)
    for prefix in (18, 28):
        for id, subnet in _subnets(network, prefix).items():
            assert subnet["MapPublicIpOnLaunch"] is False
            assert _table_of(network, id) in private


def test_one_nat_gateway_serves_all_zones_unless_each_has_its_own(dev: Assembly, prod: Assembly) -> None:
    assert len(set(_private_tables(dev.templates["network"]).values())) == 1
    network = prod.templates["network"]
    tables = _private_tables(network)
    gateways = network.all("AWS::EC2::NatGateway")
    assert sorted(tables.values()) == sorted(gateways)
    zone_of = {id: s["Properties"]["AvailabilityZoneId"] for id, s in network.all("AWS::EC2::Subnet").items()}
    for id in _subnets(network, 18):
        gateway = gateways[tables[_table_of(network, id)]]["Properties"]
        assert zone_of[gateway["SubnetId"]["Fn::GetAtt"][0]] == zone_of[id]


def test_s3_and_dynamodb_are_reached_past_the_nat_gateway(dev: Assembly) -> None:
    network = dev.templates["network"]
    endpoints = {e["ServiceName"].rsplit(".", 1)[1]: e for e in network.properties("AWS::EC2::VPCEndpoint")}
    assert sorted(endpoints) == ["dynamodb", "s3"]
    for endpoint in endpoints.values():
        assert endpoint["VpcEndpointType"] == "Gateway"
        tables = {table["Fn::GetAtt"][0] for table in endpoint["RouteTableIds"]}
        assert tables == set(_private_tables(network))


def test_shared_security_group_has_exactly_its_three_rules_and_none_inline(dev: Assembly) -> None:
    network = dev.templates["network"]
    [(group, resource)] = network.all("AWS::EC2::SecurityGroup").items()
    assert not {"SecurityGroupIngress", "SecurityGroupEgress"} & set(resource["Properties"])
    itself = {"Fn::GetAtt": [group, "GroupId"]}
    ingress = network.only("AWS::EC2::SecurityGroupIngress")
    assert (ingress["GroupId"], ingress["IpProtocol"]) == (itself, "-1")
    assert ingress["SourceSecurityGroupId"] == itself
    to_self, to_anywhere = sorted(
        network.properties("AWS::EC2::SecurityGroupEgress"), key=lambda rule: "CidrIp" in rule
    )
    assert (to_self["GroupId"], to_self["IpProtocol"], to_self["DestinationSecurityGroupId"]) == (itself, "-1", itself)
    assert (to_anywhere["GroupId"], to_anywhere["IpProtocol"], to_anywhere["CidrIp"]) == (itself, "-1", ANYWHERE)


def test_no_other_stack_adds_a_security_group_rule(dev: Assembly) -> None:
    for part, template in dev.templates.items():
        rules = template.all("AWS::EC2::SecurityGroupIngress") | template.all("AWS::EC2::SecurityGroupEgress")
        assert part == "network" or not rules


def test_an_existing_vpc_gets_the_shared_security_group_and_nothing_else(assembly: Assemblies) -> None:
    network = assembly("existing-vpc").templates["network"]
    assert {resource["Type"] for resource in network.body["Resources"].values()} == {
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::EC2::SecurityGroupIngress",
    }
    existing = load("existing-vpc").network.existing
    assert existing
    assert network.only("AWS::EC2::SecurityGroup")["VpcId"] == existing.id


def test_everything_is_placed_into_the_existing_subnets(assembly: Assemblies) -> None:
    synthesised = assembly("existing-vpc")
    existing = synthesised.environment.network.existing
    assert existing
    nodes, control_plane = (
        [s.id for s in subnets] for subnets in (existing.node_subnets, existing.control_plane_subnets)
    )
    eks = synthesised.templates["eks"]
    assert eks.only("AWS::EKS::Cluster")["ResourcesVpcConfig"]["SubnetIds"] == control_plane[:2]
    assert eks.only("AWS::EKS::Nodegroup")["Subnets"] == nodes
    cluster = synthesised.templates["hyperpod"].only("Custom::HyperPodCluster")
    assert nodes[0] in json.dumps(cluster)


def test_every_arn_of_a_shared_subnet_names_the_account_that_owns_it(tmp_path: Path) -> None:
    """IAM compares whole ARNs: a statement about a subnet of this account allows nothing in another's."""
    own = load("existing-vpc")
    assert own.network.existing
    vpc = own.network.existing.model_copy(update={"owner": "444455556666"})
    shared = own.model_copy(update={"network": own.network.model_copy(update={"existing": vpc})})
    templates = synthesise(shared, tmp_path).templates.values()
    found = [owner for each in templates for owner in SUBNET_OWNER.findall(json.dumps(each.body))]
    assert set(found) == {"444455556666"}


def test_a_closed_network_has_no_way_to_the_internet(closed: Assembly) -> None:
    network = closed.templates["network"]
    present = {resource["Type"] for resource in network.body["Resources"].values()}
    assert not present & {
        "AWS::EC2::EIP",
        "AWS::EC2::InternetGateway",
        "AWS::EC2::NatGateway",
        "AWS::EC2::Route",
        "AWS::EC2::VPCGatewayAttachment",
    }
    assert sorted({IPv4Network(s["CidrBlock"]).prefixlen for s in network.properties("AWS::EC2::Subnet")}) == [18, 28]


def test_every_private_subnet_of_a_closed_network_reaches_s3(closed: Assembly) -> None:
    network = closed.templates["network"]
    [s3] = [e for e in network.properties("AWS::EC2::VPCEndpoint") if e["ServiceName"].endswith(".s3")]
    tables = {table["Fn::GetAtt"][0] for table in s3["RouteTableIds"]}
    assert {_table_of(network, subnet) for subnet in network.all("AWS::EC2::Subnet")} == tables


def test_interface_endpoints_answer_to_the_services_own_names_in_every_zone(closed: Assembly) -> None:
    network = closed.templates["network"]
    nodes = set(_subnets(network, 18))
    endpoints = [e for e in network.properties("AWS::EC2::VPCEndpoint") if e["VpcEndpointType"] == "Interface"]
    assert {endpoint["ServiceName"] for endpoint in endpoints} == {
        f"com.amazonaws.{closed.environment.region}.{service}" for service in INTERFACE_ENDPOINTS
    }
    for endpoint in endpoints:
        assert endpoint["PrivateDnsEnabled"] is True
        assert {subnet["Fn::GetAtt"][0] for subnet in endpoint["SubnetIds"]} == nodes


def test_a_closed_network_reaches_what_the_vpc_cni_calls_on_hyperpods_nodes(closed: Assembly) -> None:
    """The CNI gets interfaces from EC2, and after 1.23.1 from SageMaker; it finds the cluster with STS (its #3874)."""
    services = {e["ServiceName"] for e in closed.templates["network"].properties("AWS::EC2::VPCEndpoint")}
    prefix = f"com.amazonaws.{closed.environment.region}"
    assert {f"{prefix}.{service}" for service in ("ec2", "sagemaker.api", "sts")} <= services


def test_interface_endpoints_take_tls_from_the_whole_vpc_and_send_nothing(closed: Assembly) -> None:
    network = closed.templates["network"]
    [group] = [g for g in network.properties("AWS::EC2::SecurityGroup") if "SecurityGroupIngress" in g]
    [rule] = group["SecurityGroupIngress"]
    block = network.only("AWS::EC2::VPC")["CidrBlock"]
    assert (rule["CidrIp"], rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == (block, "tcp", 443, 443)
    assert [rule["CidrIp"] for rule in group["SecurityGroupEgress"]] == ["255.255.255.255/32"]


def test_endpoints_that_only_own_roles_call_let_in_nobody_else(closed: Assembly) -> None:
    endpoints = closed.templates["network"].properties("AWS::EC2::VPCEndpoint")
    bound = {e["ServiceName"].split(".", 3)[3]: e["PolicyDocument"] for e in endpoints if "PolicyDocument" in e}
    assert set(bound) == SIGNED_BY_OWN_ROLES
    for policy in bound.values():
        [statement] = policy["Statement"]
        assert statement["Condition"] == {"StringEquals": {"aws:PrincipalAccount": closed.environment.account}}


def test_flow_logs_record_all_traffic_and_expire(dev: Assembly) -> None:
    network = dev.templates["network"]
    assert network.only("AWS::EC2::FlowLog")["TrafficType"] == "ALL"
    assert network.only("AWS::Logs::LogGroup")["RetentionInDays"] == 30
