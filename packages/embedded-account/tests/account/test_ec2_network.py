"""Test that EC2's network resources behave like AWS's: placement, changes in place, refused deletion while in use."""

from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from embedded_account.testing.resources import STACK_ID, RefusedWith, ResourceModels


@pytest.fixture
def resources(account: Account) -> ResourceModels:
    return ResourceModels(account)


@pytest.fixture
def ec2(clients: Clients) -> Any:
    return clients("ec2")


@pytest.fixture
def vpc(resources: ResourceModels) -> str:
    made = resources.create("AWS::EC2::VPC", {"CidrBlock": "10.0.0.0/16"})
    return str(made.physical_resource_id)


def make_subnet(resources: ResourceModels, vpc: str, **properties: Any) -> Any:
    defaults = {"VpcId": vpc, "CidrBlock": "10.0.0.0/24", "AvailabilityZoneId": "usw2-az2"}
    return resources.create("AWS::EC2::Subnet", {**defaults, **properties})


def make_public_subnet(resources: ResourceModels, vpc: str) -> tuple[Any, Any, Any]:
    """Create a subnet and an internet gateway; return the subnet, the gateway and the gateway's attachment."""
    gateway = resources.create("AWS::EC2::InternetGateway")
    attachment = resources.create(
        "AWS::EC2::VPCGatewayAttachment", {"VpcId": vpc, "InternetGatewayId": gateway.physical_resource_id}
    )
    return make_subnet(resources, vpc), gateway, attachment


def test_account_has_no_default_vpc(ec2: Any) -> None:
    assert ec2.describe_vpcs()["Vpcs"] == []
    assert ec2.describe_subnets()["Subnets"] == []
    assert ec2.describe_security_groups()["SecurityGroups"] == []
    with RefusedWith("VPCIdNotSpecified", "No default VPC"):
        ec2.create_security_group(GroupName="x", Description="x")


def test_vpc_settings_change_in_place(resources: ResourceModels, ec2: Any) -> None:
    properties = {"CidrBlock": "10.0.0.0/16", "EnableDnsHostnames": True, "Tags": [{"Key": "a", "Value": "1"}]}
    vpc = resources.create("AWS::EC2::VPC", properties)
    vpc_id = vpc.physical_resource_id

    def attribute(name: str) -> bool:
        return bool(ec2.describe_vpc_attribute(VpcId=vpc_id, Attribute=name)[name[0].upper() + name[1:]]["Value"])

    assert attribute("enableDnsHostnames")
    resources.update(vpc, {"CidrBlock": "10.0.0.0/16", "EnableDnsSupport": False, "Tags": []})
    assert not attribute("enableDnsHostnames")
    assert not attribute("enableDnsSupport")
    tags = {tag["Key"]: tag["Value"] for tag in ec2.describe_vpcs(VpcIds=[vpc_id])["Vpcs"][0]["Tags"]}
    assert tags == {
        "aws:cloudformation:stack-name": "network",
        "aws:cloudformation:stack-id": STACK_ID,
        "aws:cloudformation:logical-id": "Logical",
    }
    with RefusedWith(None, "cannot update CidrBlock of AWS::EC2::VPC:"):
        resources.update(vpc, {"CidrBlock": "10.1.0.0/16"})


def test_vpc_names_its_default_security_group_and_acl(resources: ResourceModels, ec2: Any) -> None:
    attributes = resources.create("AWS::EC2::VPC", {"CidrBlock": "10.0.0.0/16"}).attributes()
    group = ec2.describe_security_groups(GroupIds=[attributes["DefaultSecurityGroup"]])["SecurityGroups"][0]
    assert group["IpPermissions"][0]["UserIdGroupPairs"][0]["GroupId"] == group["GroupId"]
    assert attributes["CidrBlock"] == "10.0.0.0/16"
    assert attributes["DefaultNetworkAcl"].startswith("acl-")


def test_unknown_property_is_refused(resources: ResourceModels) -> None:
    with RefusedWith(None, "AWS::EC2::VPC: the embedded account does not implement Ipv4IpamPoolId"):
        resources.create("AWS::EC2::VPC", {"Ipv4IpamPoolId": "ipam-pool-1"})


def test_vpc_with_subnet_cannot_be_deleted(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    subnet = make_subnet(resources, vpc)
    with RefusedWith("DependencyViolation", f"The vpc '{vpc}' has dependencies and cannot be deleted."):
        ec2.delete_vpc(VpcId=vpc)
    resources.delete(subnet)
    ec2.delete_vpc(VpcId=vpc)
    assert ec2.describe_network_acls()["NetworkAcls"] == []
    assert ec2.describe_route_tables()["RouteTables"] == []
    assert ec2.describe_security_groups()["SecurityGroups"] == []


@pytest.mark.parametrize("dependent", ["gateway", "group", "endpoint"])
def test_vpc_in_use_cannot_be_deleted(resources: ResourceModels, ec2: Any, vpc: str, dependent: str) -> None:
    if dependent == "gateway":
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    elif dependent == "group":
        ec2.create_security_group(GroupName="g", Description="g", VpcId=vpc)
    else:
        ec2.create_vpc_endpoint(VpcId=vpc, ServiceName="com.amazonaws.us-west-2.s3")
    with RefusedWith("DependencyViolation", "has dependencies and cannot be deleted"):
        ec2.delete_vpc(VpcId=vpc)


def test_subnet_is_placed_by_zone_id(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    subnet = make_subnet(resources, vpc, MapPublicIpOnLaunch=True)
    found = ec2.describe_subnets()["Subnets"][0]
    zones = ec2.describe_availability_zones()["AvailabilityZones"]
    name = next(zone["ZoneName"] for zone in zones if zone["ZoneId"] == "usw2-az2")
    assert (found["AvailabilityZoneId"], found["AvailabilityZone"]) == ("usw2-az2", name)
    assert (found["MapPublicIpOnLaunch"], found["DefaultForAz"]) == (True, False)
    assert subnet.attributes()["AvailabilityZone"] == name
    assert subnet.attributes()["NetworkAclAssociationId"].startswith("aclassoc-")


@pytest.mark.parametrize(
    ("properties", "code", "text"),
    [
        ({"AvailabilityZoneId": "use1-az1"}, "InvalidParameterValue", "Value (use1-az1)"),
        ({"AvailabilityZone": "us-west-2a"}, "InvalidParameterCombination", "AvailabilityZoneId"),
        ({"CidrBlock": "10.9.0.0/24"}, "InvalidSubnet.Range", "10.9.0.0/24"),
    ],
)
def test_subnet_that_does_not_fit_is_refused(
    resources: ResourceModels, vpc: str, properties: dict[str, str], code: str, text: str
) -> None:
    with RefusedWith(code, text):
        make_subnet(resources, vpc, **properties)


def test_overlapping_subnets_are_refused(resources: ResourceModels, vpc: str) -> None:
    make_subnet(resources, vpc)
    with RefusedWith("InvalidSubnet.Conflict", "10.0.0.0/24"):
        make_subnet(resources, vpc, AvailabilityZoneId="usw2-az1")


def test_secondary_block_holds_subnets(resources: ResourceModels, vpc: str) -> None:
    block = resources.create("AWS::EC2::VPCCidrBlock", {"VpcId": vpc, "CidrBlock": "10.1.0.0/16"})
    subnet = make_subnet(resources, vpc, CidrBlock="10.1.0.0/17")
    with RefusedWith("InvalidCidrBlock.InUse", "has subnets"):
        resources.delete(block)
    resources.delete(subnet)
    resources.delete(block)


@pytest.mark.parametrize(
    ("block", "text"), [("192.168.0.0/16", "is restricted"), ("10.0.128.0/17", "overlaps"), ("10.8.0.0/15", "invalid")]
)
def test_secondary_block_of_wrong_range_is_refused(resources: ResourceModels, vpc: str, block: str, text: str) -> None:
    with RefusedWith("InvalidVpc.Range", text):
        resources.create("AWS::EC2::VPCCidrBlock", {"VpcId": vpc, "CidrBlock": block})


def test_subnet_with_interface_cannot_be_deleted(account: Account, resources: ResourceModels, vpc: str) -> None:
    subnet = make_subnet(resources, vpc)
    interface = account.background.network_interface(
        maker_arn="arn:aws:lambda:::function:f",
        description="AWS Lambda VPC ENI",
        subnet_id=subnet.physical_resource_id,
        security_group_ids=[],
    )
    text = f"The subnet '{subnet.physical_resource_id}' has dependencies and cannot be deleted."
    with RefusedWith("DependencyViolation", text):
        resources.delete(subnet)
    account.background.drop(interface.id)
    resources.delete(subnet)


def test_interface_of_a_service_cannot_be_deleted_by_others(
    account: Account, resources: ResourceModels, ec2: Any, vpc: str
) -> None:
    subnet = make_subnet(resources, vpc)
    interface = account.background.network_interface(
        maker_arn="arn:aws:fsx:::file-system/fs-1",
        description="Created by Amazon FSx",
        subnet_id=subnet.physical_resource_id,
        security_group_ids=[],
        addresses=3,
    )
    shown = ec2.describe_network_interfaces()["NetworkInterfaces"][0]
    assert (shown["RequesterManaged"], shown["Status"]) == (True, "in-use")
    assert [address["PrivateIpAddress"] for address in shown["PrivateIpAddresses"]] == [
        "10.0.0.4",
        "10.0.0.5",
        "10.0.0.6",
    ]
    assert ec2.describe_subnets()["Subnets"][0]["AvailableIpAddressCount"] == 256 - 5 - 3
    with RefusedWith("InvalidParameterValue", "is currently in use"):
        ec2.delete_network_interface(NetworkInterfaceId=interface.id)


def test_route_table_in_use_cannot_be_deleted(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    subnet = make_subnet(resources, vpc)
    table = resources.create("AWS::EC2::RouteTable", {"VpcId": vpc})
    both = {"RouteTableId": table.physical_resource_id, "SubnetId": subnet.physical_resource_id}
    association = resources.create("AWS::EC2::SubnetRouteTableAssociation", both)
    other = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    with RefusedWith("Resource.AlreadyAssociated", "conflicts with an existing association"):
        ec2.associate_route_table(**{**both, "RouteTableId": other})
    with RefusedWith("DependencyViolation", "has dependencies and cannot be deleted"):
        resources.delete(table)
    resources.delete(association)
    resources.delete(table)


def test_route_needs_an_attached_gateway(resources: ResourceModels, vpc: str) -> None:
    table = resources.create("AWS::EC2::RouteTable", {"VpcId": vpc}).physical_resource_id
    gateway = resources.create("AWS::EC2::InternetGateway").physical_resource_id
    route = {"RouteTableId": table, "DestinationCidrBlock": "0.0.0.0/0"}
    with RefusedWith("InvalidParameterValue", "belong to different networks"):
        resources.create("AWS::EC2::Route", {**route, "GatewayId": gateway})
    with RefusedWith("InvalidNatGatewayID.NotFound", "does not exist"):
        resources.create("AWS::EC2::Route", {**route, "NatGatewayId": "nat-0"})
    with RefusedWith(None, "exactly one target"):
        resources.create("AWS::EC2::Route", route)


def test_nat_gateway_needs_an_internet_gateway(resources: ResourceModels, vpc: str) -> None:
    subnet = make_subnet(resources, vpc)
    address = resources.create("AWS::EC2::EIP", {"Domain": "vpc"})
    with RefusedWith("Gateway.NotAttached", f"Network {vpc} has no Internet gateway attached"):
        resources.create(
            "AWS::EC2::NatGateway",
            {"SubnetId": subnet.physical_resource_id, "AllocationId": address.attributes()["AllocationId"]},
        )


def test_nat_gateway_holds_subnet_address_and_internet_gateway(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    subnet, gateway, attachment = make_public_subnet(resources, vpc)
    address = resources.create("AWS::EC2::EIP", {"Domain": "vpc"})
    assert address.physical_resource_id == address.attributes()["PublicIp"]
    nat_properties = {
        "SubnetId": subnet.physical_resource_id,
        "AllocationId": address.attributes()["AllocationId"],
    }
    nat = resources.create("AWS::EC2::NatGateway", nat_properties)
    with RefusedWith("Resource.AlreadyAssociated", "is already associated"):
        resources.create("AWS::EC2::NatGateway", nat_properties)
    interface = ec2.describe_network_interfaces()["NetworkInterfaces"][0]
    assert interface["InterfaceType"] == "nat_gateway"
    assert interface["PrivateIpAddress"].startswith("10.0.0.")
    with RefusedWith("AuthFailure", "You do not have permission"):
        resources.delete(address)
    with RefusedWith("DependencyViolation", "has some mapped public address(es)"):
        resources.delete(attachment)
    with RefusedWith("DependencyViolation", f"The internetGateway '{gateway.physical_resource_id}' has dependencies"):
        resources.delete(gateway)
    with RefusedWith("DependencyViolation", "has dependencies"):
        resources.delete(subnet)
    for resource in (nat, address, attachment, gateway, subnet):
        resources.delete(resource)
    assert ec2.describe_nat_gateways()["NatGateways"][0]["State"] == "deleted"
    assert ec2.describe_addresses()["Addresses"] == []


def test_route_changes_its_target_in_place(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    subnet, gateway, _ = make_public_subnet(resources, vpc)
    address = resources.create("AWS::EC2::EIP")
    nat = resources.create(
        "AWS::EC2::NatGateway",
        {"SubnetId": subnet.physical_resource_id, "AllocationId": address.attributes()["AllocationId"]},
    )
    table = resources.create("AWS::EC2::RouteTable", {"VpcId": vpc}).physical_resource_id
    fixed = {"RouteTableId": table, "DestinationCidrBlock": "0.0.0.0/0"}
    route = resources.create("AWS::EC2::Route", {**fixed, "GatewayId": gateway.physical_resource_id})
    assert route.physical_resource_id == f"{table}|0.0.0.0/0"
    resources.update(route, {**fixed, "NatGatewayId": nat.physical_resource_id})
    shown = ec2.describe_route_tables(RouteTableIds=[table])["RouteTables"][0]["Routes"]
    assert [each.get("NatGatewayId") for each in shown if each["DestinationCidrBlock"] == "0.0.0.0/0"] == [
        nat.physical_resource_id
    ]
    resources.delete(route)
    assert len(ec2.describe_route_tables(RouteTableIds=[table])["RouteTables"][0]["Routes"]) == 1


def test_resource_that_no_longer_exists_counts_as_deleted(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    subnet = make_subnet(resources, vpc)
    ec2.delete_subnet(SubnetId=subnet.physical_resource_id)
    resources.delete(subnet)


def test_flow_log_goes_to_a_log_group(resources: ResourceModels, clients: Clients, vpc: str) -> None:
    clients("logs").create_log_group(logGroupName="flows")
    properties = {
        "ResourceId": vpc,
        "ResourceType": "VPC",
        "TrafficType": "ALL",
        "LogDestinationType": "cloud-watch-logs",
        "LogGroupName": "flows",
        "DeliverLogsPermissionArn": "arn:aws:iam::111122223333:role/flows",
    }
    flow_log = resources.create("AWS::EC2::FlowLog", properties)
    assert clients("ec2").describe_flow_logs()["FlowLogs"][0]["DeliverLogsStatus"] == "SUCCESS"
    resources.delete(flow_log)
    assert clients("ec2").describe_flow_logs()["FlowLogs"] == []


def test_flow_log_goes_to_a_prefix_of_a_bucket(resources: ResourceModels, clients: Clients, vpc: str) -> None:
    properties = {
        "ResourceId": vpc,
        "ResourceType": "VPC",
        "TrafficType": "REJECT",
        "LogDestinationType": "s3",
        "LogDestination": "arn:aws:s3:::flow-bucket/flows",
    }
    with RefusedWith(None, "flow-bucket does not exist"):
        resources.create("AWS::EC2::FlowLog", properties)
    configuration = {"LocationConstraint": "us-west-2"}
    clients("s3").create_bucket(Bucket="flow-bucket", CreateBucketConfiguration=configuration)
    resources.create("AWS::EC2::FlowLog", properties)
    shown = clients("ec2").describe_flow_logs()["FlowLogs"][0]
    assert shown["LogDestination"] == "arn:aws:s3:::flow-bucket/flows"
