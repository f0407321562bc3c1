"""Test security groups, their rules, and what prevents the deletion of a group."""

from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from embedded_account.testing.resources import RefusedWith, ResourceModels

ANYWHERE = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0", "Description": "Allow all outbound traffic by default"}
NOWHERE = {
    "IpProtocol": "icmp",
    "CidrIp": "255.255.255.255/32",
    "Description": "Disallow all traffic",
    "FromPort": 252,
    "ToPort": 86,
}


@pytest.fixture
def resources(account: Account) -> ResourceModels:
    return ResourceModels(account)


@pytest.fixture
def ec2(clients: Clients) -> Any:
    return clients("ec2")


@pytest.fixture
def vpc(ec2: Any) -> str:
    return str(ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"])


def make_group(resources: ResourceModels, vpc: str, name: str = "shared", **properties: Any) -> Any:
    return resources.create(
        "AWS::EC2::SecurityGroup", {"GroupDescription": name, "VpcId": vpc, **properties}, name=name
    )


def rules(ec2: Any, group: Any, *, egress: bool) -> list[tuple[str, str, Any]]:
    """Return protocol, peer and first port of each of a group's rules."""
    found = ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group.physical_resource_id]}])[
        "SecurityGroupRules"
    ]
    return [
        (
            rule["IpProtocol"],
            rule.get("CidrIpv4") or rule.get("ReferencedGroupInfo", {}).get("GroupId"),
            rule["FromPort"],
        )
        for rule in found
        if rule["IsEgress"] is egress
    ]


def test_group_without_egress_keeps_the_default_rule(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    group = make_group(resources, vpc)
    assert rules(ec2, group, egress=True) == [("-1", "0.0.0.0/0", -1)]
    assert group.attributes()["GroupId"] == group.physical_resource_id


def test_given_egress_replaces_the_default_rule(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    group = make_group(resources, vpc, SecurityGroupEgress=[NOWHERE])
    assert rules(ec2, group, egress=True) == [("icmp", "255.255.255.255/32", 252)]
    resources.update(group, {"GroupDescription": "shared", "VpcId": vpc, "SecurityGroupEgress": [ANYWHERE]})
    assert rules(ec2, group, egress=True) == [("-1", "0.0.0.0/0", -1)]
    resources.update(group, {"GroupDescription": "shared", "VpcId": vpc})
    assert rules(ec2, group, egress=True) == [("-1", "0.0.0.0/0", -1)]


def test_inline_ingress_changes_in_place(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    https = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "10.0.0.0/16"}
    lustre = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "CidrIp": "10.0.0.0/16"}
    group = make_group(resources, vpc, SecurityGroupIngress=[https])
    resources.update(group, {"GroupDescription": "shared", "VpcId": vpc, "SecurityGroupIngress": [lustre]})
    assert rules(ec2, group, egress=False) == [("tcp", "10.0.0.0/16", 988)]
    with RefusedWith(None, "cannot update GroupDescription of AWS::EC2::SecurityGroup:"):
        resources.update(group, {"GroupDescription": "other", "VpcId": vpc})


def test_separate_egress_rules_remove_the_default_rule(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    group = make_group(resources, vpc)
    group_id = group.physical_resource_id
    to_self = {"GroupId": group_id, "IpProtocol": "-1", "DestinationSecurityGroupId": group_id}
    anywhere = {"GroupId": group_id, "IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}
    rule = resources.create("AWS::EC2::SecurityGroupEgress", to_self)
    resources.create("AWS::EC2::SecurityGroupEgress", anywhere)
    assert rules(ec2, group, egress=True) == [("-1", group_id, -1), ("-1", "0.0.0.0/0", -1)]
    assert rule.physical_resource_id.startswith("sgr-")
    resources.delete(rule)
    assert rules(ec2, group, egress=True) == [("-1", "0.0.0.0/0", -1)]
    resources.delete(rule)


def test_separate_ingress_rule_changes_its_description_in_place(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    group_id = make_group(resources, vpc).physical_resource_id
    properties = {"GroupId": group_id, "IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "10.0.0.0/8"}
    rule = resources.create("AWS::EC2::SecurityGroupIngress", {**properties, "Description": "old"})
    resources.update(rule, {**properties, "Description": "new"})
    shown = ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"][0]["IpPermissions"]
    assert shown[0]["IpRanges"] == [{"CidrIp": "10.0.0.0/8", "Description": "new"}]
    with RefusedWith(None, "cannot update FromPort of AWS::EC2::SecurityGroupIngress:"):
        resources.update(rule, {**properties, "FromPort": 444})


def test_rule_naming_an_unknown_group_is_refused(resources: ResourceModels, vpc: str) -> None:
    group_id = make_group(resources, vpc).physical_resource_id
    with RefusedWith("InvalidGroup.NotFound", "sg-0"):
        resources.create(
            "AWS::EC2::SecurityGroupIngress",
            {"GroupId": group_id, "IpProtocol": "-1", "SourceSecurityGroupId": "sg-0"},
        )


def test_same_rule_twice_is_refused(resources: ResourceModels, vpc: str) -> None:
    group_id = make_group(resources, vpc).physical_resource_id
    properties = {"GroupId": group_id, "IpProtocol": "-1", "SourceSecurityGroupId": group_id}
    resources.create("AWS::EC2::SecurityGroupIngress", properties)
    with RefusedWith("InvalidPermission.Duplicate", "already exists"):
        resources.create("AWS::EC2::SecurityGroupIngress", properties)


def test_failed_rule_leaves_no_group_behind(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    wrong = {"IpProtocol": "tcp", "FromPort": 1, "ToPort": 1, "CidrIp": "10.0.0.0/99"}
    with RefusedWith("InvalidParameterValue", "10.0.0.0/99"):
        make_group(resources, vpc, SecurityGroupIngress=[wrong])
    assert [group["GroupName"] for group in ec2.describe_security_groups()["SecurityGroups"]] == ["default"]


def test_group_referring_to_itself_can_be_deleted(resources: ResourceModels, ec2: Any, vpc: str) -> None:
    group = make_group(resources, vpc)
    group_id = group.physical_resource_id
    resources.create(
        "AWS::EC2::SecurityGroupIngress",
        {"GroupId": group_id, "IpProtocol": "-1", "SourceSecurityGroupId": group_id},
    )
    resources.delete(group)
    ec2.delete_vpc(VpcId=vpc)


def test_group_referenced_by_another_cannot_be_deleted(resources: ResourceModels, vpc: str) -> None:
    group, other = make_group(resources, vpc), make_group(resources, vpc, "other")
    rule = resources.create(
        "AWS::EC2::SecurityGroupIngress",
        {
            "GroupId": other.physical_resource_id,
            "IpProtocol": "-1",
            "SourceSecurityGroupId": group.physical_resource_id,
        },
    )
    with RefusedWith("DependencyViolation", f"resource {group.physical_resource_id} has a dependent object"):
        resources.delete(group)
    resources.delete(rule)
    resources.delete(group)


def test_group_held_by_an_interface_cannot_be_deleted(
    account: Account, resources: ResourceModels, ec2: Any, vpc: str
) -> None:
    group = make_group(resources, vpc)
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    account.background.network_interface(
        maker_arn="arn:aws:eks:::cluster/c",
        description="Amazon EKS c",
        subnet_id=subnet,
        security_group_ids=[group.physical_resource_id],
    )
    with RefusedWith("DependencyViolation", "has a dependent object"):
        resources.delete(group)
    account.background.drop_all("arn:aws:eks:::cluster/c")
    resources.delete(group)


def test_default_group_cannot_be_deleted(ec2: Any, vpc: str) -> None:
    default = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
    assert vpc
    with RefusedWith("CannotDelete", "cannot be deleted by a user"):
        ec2.delete_security_group(GroupId=default)


def test_default_group_can_be_closed_as_cdk_does_it(ec2: Any, vpc: str) -> None:
    group = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
    assert vpc
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"UserId": "111122223333", "GroupId": group}]}]
    anywhere = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=itself)
    ec2.revoke_security_group_egress(GroupId=group, IpPermissions=anywhere)
    shown = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]
    assert (shown["IpPermissions"], shown["IpPermissionsEgress"]) == ([], [])


def test_background_refuses_a_group_of_another_network(account: Account, ec2: Any, vpc: str) -> None:
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    other = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    group = ec2.create_security_group(GroupName="g", Description="g", VpcId=other)["GroupId"]
    with pytest.raises(Exception, match="belong to different networks"):
        account.background.network_interface(
            maker_arn="arn:aws:eks:::cluster/c", description="", subnet_id=subnet, security_group_ids=[group]
        )


def test_background_refuses_a_full_subnet(account: Account, ec2: Any, vpc: str) -> None:
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/28")["Subnet"]["SubnetId"]
    with pytest.raises(Exception, match="does not have enough free addresses"):
        account.background.network_interface(
            maker_arn="arn:aws:eks:::cluster/c", description="", subnet_id=subnet, security_group_ids=[], addresses=12
        )
