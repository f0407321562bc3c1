"""Test VPC endpoints (gateway and interface) and launch templates."""

from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from embedded_account.testing.resources import RefusedWith, ResourceModels

S3 = "com.amazonaws.us-west-2.s3"
STS = "com.amazonaws.us-west-2.sts"


@pytest.fixture
def resources(account: Account) -> ResourceModels:
    return ResourceModels(account)


@pytest.fixture
def ec2(clients: Clients) -> Any:
    return clients("ec2")


@pytest.fixture
def vpc(resources: ResourceModels) -> str:
    properties = {"CidrBlock": "10.0.0.0/16", "EnableDnsHostnames": True}
    return str(resources.create("AWS::EC2::VPC", properties).physical_resource_id)


def make_subnets(ec2: Any, vpc: str, *zones: str) -> list[str]:
    return [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for number, zone in enumerate(zones)
    ]


def make_table(ec2: Any, vpc: str) -> str:
    return str(ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"])


def endpoint_routes(ec2: Any, table: str) -> list[str]:
    routes = ec2.describe_route_tables(RouteTableIds=[table])["RouteTables"][0]["Routes"]
    return [route["GatewayId"] for route in routes if "DestinationPrefixListId" in route]


def test_gateway_endpoint_routes_in_its_tables_only(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    first, second = make_table(ec2, vpc), make_table(ec2, vpc)
    properties = {"VpcId": vpc, "ServiceName": S3, "VpcEndpointType": "Gateway"}
    endpoint = resources.create("AWS::EC2::VPCEndpoint", {**properties, "RouteTableIds": [first]})
    assert endpoint_routes(ec2, first) == [endpoint.physical_resource_id]
    resources.update(endpoint, {**properties, "RouteTableIds": [second]})
    assert (endpoint_routes(ec2, first), endpoint_routes(ec2, second)) == ([], [endpoint.physical_resource_id])
    resources.delete(endpoint)
    assert endpoint_routes(ec2, second) == []
    assert ec2.describe_vpc_endpoints()["VpcEndpoints"] == []


def test_second_gateway_endpoint_in_a_table_is_refused(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    properties = {"VpcId": vpc, "ServiceName": S3, "RouteTableIds": [make_table(ec2, vpc)]}
    resources.create("AWS::EC2::VPCEndpoint", properties)
    with RefusedWith("RouteAlreadyExists", "already has a route with destination-prefix-list-id pl-"):
        resources.create("AWS::EC2::VPCEndpoint", properties)


def test_policy_of_an_endpoint_changes_in_place(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    properties = {"VpcId": vpc, "ServiceName": "com.amazonaws.us-west-2.dynamodb"}
    endpoint = resources.create("AWS::EC2::VPCEndpoint", properties)
    policy = {"Version": "2012-10-17", "Statement": []}
    resources.update(endpoint, {**properties, "PolicyDocument": policy})
    assert ec2.describe_vpc_endpoints()["VpcEndpoints"][0]["PolicyDocument"] == (
        '{"Version": "2012-10-17", "Statement": []}'
    )


@pytest.mark.parametrize(
    ("service", "kind"),
    [
        ("com.amazonaws.us-west-2.no-such", "Interface"),
        ("aws.sagemaker.us-west-2.no-such", "Interface"),
        ("aws.sagemaker.us-west-2.experiments", "Gateway"),
        (STS, "Gateway"),
    ],
)
def test_unknown_service_is_refused(resources: ResourceModels, vpc: str, service: str, kind: str) -> None:
    with RefusedWith("InvalidServiceName", service):
        resources.create("AWS::EC2::VPCEndpoint", {"VpcId": vpc, "ServiceName": service, "VpcEndpointType": kind})


def test_interface_endpoint_holds_subnets_and_group(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    subnets = make_subnets(ec2, vpc, "us-west-2a", "us-west-2b")
    group = ec2.create_security_group(GroupName="e", Description="e", VpcId=vpc)["GroupId"]
    properties = {
        "VpcId": vpc,
        "ServiceName": STS,
        "VpcEndpointType": "Interface",
        "PrivateDnsEnabled": True,
        "SecurityGroupIds": [group],
    }
    endpoint = resources.create("AWS::EC2::VPCEndpoint", {**properties, "SubnetIds": subnets})
    shown = ec2.describe_network_interfaces()["NetworkInterfaces"]
    assert {each["InterfaceType"] for each in shown} == {"vpc_endpoint"}
    assert [each["Groups"][0]["GroupId"] for each in shown] == [group, group]
    assert endpoint.attributes()["NetworkInterfaceIds"] == [each["NetworkInterfaceId"] for each in shown]
    with RefusedWith("DependencyViolation", "has dependencies"):
        ec2.delete_subnet(SubnetId=subnets[0])
    with RefusedWith("DependencyViolation", "has a dependent object"):
        ec2.delete_security_group(GroupId=group)
    resources.update(endpoint, {**properties, "SubnetIds": subnets[1:]})
    ec2.delete_subnet(SubnetId=subnets[0])
    resources.delete(endpoint)
    ec2.delete_security_group(GroupId=group)
    assert ec2.describe_network_interfaces()["NetworkInterfaces"] == []


def test_two_subnets_of_one_zone_are_refused(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    subnets = make_subnets(ec2, vpc, "us-west-2a", "us-west-2a")
    with RefusedWith("DuplicateSubnetsInSameZone", subnets[1]):
        resources.create(
            "AWS::EC2::VPCEndpoint",
            {"VpcId": vpc, "ServiceName": STS, "VpcEndpointType": "Interface", "SubnetIds": subnets},
        )


def test_private_dns_needs_the_hostnames_of_the_vpc(resources: ResourceModels) -> None:
    vpc = resources.create("AWS::EC2::VPC", {"CidrBlock": "10.0.0.0/16"}).physical_resource_id
    properties = {"VpcId": vpc, "ServiceName": STS, "VpcEndpointType": "Interface", "PrivateDnsEnabled": True}
    with RefusedWith("InvalidParameter", "requires both enableDnsSupport and enableDnsHostnames"):
        resources.create("AWS::EC2::VPCEndpoint", properties)


def test_second_endpoint_with_the_same_private_dns_is_refused(resources: ResourceModels, vpc: str) -> None:
    properties = {"VpcId": vpc, "ServiceName": STS, "VpcEndpointType": "Interface", "PrivateDnsEnabled": True}
    resources.create("AWS::EC2::VPCEndpoint", properties)
    with RefusedWith("InvalidParameter", "conflicting DNS domain"):
        resources.create("AWS::EC2::VPCEndpoint", properties)


def test_launch_template_gets_a_version_per_change(resources: ResourceModels, ec2: Any) -> None:
    def properties(size: int) -> dict[str, Any]:
        disk = {"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": True, "VolumeSize": size}}
        return {
            "LaunchTemplateData": {"BlockDeviceMappings": [disk], "MetadataOptions": {"HttpTokens": "required"}},
            "TagSpecifications": [{"ResourceType": "launch-template", "Tags": [{"Key": "Name", "Value": "system"}]}],
        }

    template = resources.create("AWS::EC2::LaunchTemplate", properties(100))
    assert template.attributes()["LatestVersionNumber"] == "1"
    resources.update(template, properties(200))
    assert (template.attributes()["LatestVersionNumber"], template.attributes()["DefaultVersionNumber"]) == ("2", "1")
    versions = ec2.describe_launch_template_versions(
        LaunchTemplateId=template.physical_resource_id, Versions=["$Latest"]
    )["LaunchTemplateVersions"]
    data = versions[0]["LaunchTemplateData"]
    assert data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 200
    tags = ec2.describe_launch_templates()["LaunchTemplates"][0]["Tags"]
    assert {"Key": "Name", "Value": "system"} in tags
    resources.delete(template)
    assert ec2.describe_launch_templates()["LaunchTemplates"] == []
