"""Opened ports and public endpoints."""

from typing import Any

import pytest

from ops.review.model import Danger
from tests.unit.ops.review.cloudformation.pairs import Pairs, dangers, of


def rule(peer: str = "10.0.0.0/16", first: object = 443, last: object = 443, protocol: str = "tcp") -> dict[str, Any]:
    return {"IpProtocol": protocol, "FromPort": first, "ToPort": last, "CidrIp": peer}


def group(*rules: dict[str, Any], out: tuple[dict[str, Any], ...] | None = ()) -> dict[str, Any]:
    more = {} if out is None else {"SecurityGroupEgress": list(out)}
    return of("AWS::EC2::SecurityGroup", GroupDescription="g", SecurityGroupIngress=list(rules), **more)


def separate(given: dict[str, Any], kind: str = "Ingress") -> dict[str, Any]:
    return of(f"AWS::EC2::SecurityGroup{kind}", GroupId={"Fn::GetAtt": ["Group", "GroupId"]}, **given)


@pytest.mark.parametrize(
    "after",
    [
        group(rule("10.0.0.0/8")),
        group(rule("0.0.0.0/0")),
        group(rule(first=22)),
        group(rule(protocol="-1")),
        group(rule(), {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "SourcePrefixListId": "pl-1"}),
        group(rule({"Ref": "Parameter"})),  # type: ignore[arg-type]
        group(rule(), out=(rule(),)),
        group(rule(), out=None),
    ],
)
def test_a_security_group_that_lets_more_through(pairs: Pairs, after: dict[str, Any]) -> None:
    assert dangers(pairs.changes({"Group": group(rule())}, {"Group": after})) == {Danger.OPENED_PORT}


@pytest.mark.parametrize(
    "after",
    [
        {"Group": group(rule("10.0.1.0/24"))},
        {"Group": group({**rule(), "Description": "TLS"})},
        {"Group": group()},
        {"Group": group(), "Rule": separate(rule())},
        {"Group": group(rule(), rule("10.0.0.0/24", 443, "443"))},
    ],
)
def test_a_security_group_that_lets_no_more_through_is_harmless(pairs: Pairs, after: dict[str, Any]) -> None:
    assert dangers(pairs.changes({"Group": group(rule())}, after)) == set()


@pytest.mark.parametrize("kind", ["Ingress", "Egress"])
def test_a_rule_of_its_own_opens_a_port(pairs: Pairs, kind: str) -> None:
    found = pairs.changes({"Group": group()}, {"Group": group(), "Rule": separate(rule("10.0.0.0/8"), kind)})
    assert dangers(found) == {Danger.OPENED_PORT}
    direction = "from" if kind == "Ingress" else "to"
    assert next(each.what for each in found if each.dangers) == f"Group: + TCP 443 {direction} 10.0.0.0/8"


def test_a_new_group_is_dangerous_only_if_the_internet_may_enter(pairs: Pairs) -> None:
    role = of("AWS::IAM::Role")
    assert dangers(pairs.changes({"R": role}, {"R": role, "Group": group(rule(), out=None)})) == set()
    assert dangers(pairs.changes({"R": role}, {"R": role, "Group": group(rule("0.0.0.0/0"))})) == {Danger.OPENED_PORT}


def test_a_resource_that_joins_another_group(pairs: Pairs) -> None:
    endpoint = of("AWS::EC2::VPCEndpoint", SecurityGroupIds=["sg-1"])
    assert dangers(pairs.edited(endpoint, SecurityGroupIds=["sg-1", "sg-2"])) == {Danger.OPENED_PORT}


def test_network_acls(pairs: Pairs) -> None:
    def entry(number: int, action: str) -> dict[str, Any]:
        return of(
            "AWS::EC2::NetworkAclEntry", NetworkAclId="acl", RuleNumber=number, RuleAction=action, CidrBlock="::/0"
        )

    denied, both = {"A": entry(1, "deny")}, {"A": entry(1, "deny"), "B": entry(2, "allow")}
    assert dangers(pairs.changes(denied, both)) == {Danger.OPENED_PORT}
    assert dangers(pairs.changes(both, {"B": both["B"]})) == {Danger.OPENED_PORT}
    assert dangers(pairs.changes(both, denied)) == set()


CLUSTER = of(
    "AWS::EKS::Cluster", ResourcesVpcConfig={"EndpointPublicAccess": True, "PublicAccessCidrs": ["203.0.113.0/24"]}
)
LIST = of("AWS::EC2::PrefixList", Entries=[{"Cidr": "203.0.113.0/24", "Description": "office"}])
GRAFANA = of("AWS::Grafana::Workspace", NetworkAccessControl={"PrefixListIds": ["pl-1"], "VpceIds": []})
BLOCKED = {"BlockPublicAcls": True, "RestrictPublicBuckets": True}


@pytest.mark.parametrize(
    ("resource", "properties"),
    [
        (CLUSTER, {"ResourcesVpcConfig__PublicAccessCidrs": ["0.0.0.0/0"]}),
        (CLUSTER, {"ResourcesVpcConfig__PublicAccessCidrs": ["203.0.113.0/24", "198.51.100.0/24"]}),
        (CLUSTER, {"ResourcesVpcConfig__PublicAccessCidrs": None}),
        (of("AWS::EKS::Cluster", ResourcesVpcConfig={"EndpointPublicAccess": False}), {"ResourcesVpcConfig": {}}),
        (of("AWS::S3::Bucket", PublicAccessBlockConfiguration=BLOCKED), {"PublicAccessBlockConfiguration": None}),
        (
            of("AWS::S3::Bucket", PublicAccessBlockConfiguration=BLOCKED),
            {"PublicAccessBlockConfiguration__BlockPublicAcls": False},
        ),
        (of("AWS::EC2::Subnet", MapPublicIpOnLaunch=False), {"MapPublicIpOnLaunch": True}),
        (GRAFANA, {"NetworkAccessControl": None}),
    ],
)
def test_what_becomes_public(pairs: Pairs, resource: dict[str, Any], properties: dict[str, Any]) -> None:
    assert dangers(pairs.edited(resource, **properties)) == {Danger.PUBLIC_ENDPOINT}


def test_a_narrower_public_endpoint_is_harmless(pairs: Pairs) -> None:
    assert dangers(pairs.edited(CLUSTER, ResourcesVpcConfig__PublicAccessCidrs=["203.0.113.0/28"])) == set()
    assert dangers(pairs.edited(CLUSTER, ResourcesVpcConfig__EndpointPublicAccess=False)) == set()


@pytest.mark.parametrize("more", [["203.0.113.0/24", "198.51.100.0/24"], ["203.0.112.0/23"]])
def test_a_wider_list_of_networks(pairs: Pairs, more: list[str]) -> None:
    assert dangers(pairs.edited(LIST, Entries=[{"Cidr": each} for each in more])) == {Danger.OPENED_PORT}


def test_a_workspace_of_grafana_for_some_networks_only_is_harmless(pairs: Pairs) -> None:
    assert dangers(pairs.edited(LIST, Entries=[{"Cidr": "203.0.113.0/28", "Description": "one floor"}])) == set()
    assert dangers(pairs.changes({}, {"List": LIST, "Workspace": GRAFANA})) == set()


def test_a_new_workspace_of_grafana_that_everybody_reaches(pairs: Pairs) -> None:
    assert dangers(pairs.changes({}, {"Workspace": of("AWS::Grafana::Workspace")})) == {Danger.PUBLIC_ENDPOINT}


def test_a_subnet_with_a_new_route_to_an_internet_gateway(pairs: Pairs) -> None:
    before = {
        "Gateway": of("AWS::EC2::InternetGateway"),
        "Subnet": of("AWS::EC2::Subnet"),
        "Table": of("AWS::EC2::RouteTable"),
        "Association": of(
            "AWS::EC2::SubnetRouteTableAssociation", RouteTableId={"Ref": "Table"}, SubnetId={"Ref": "Subnet"}
        ),
    }
    route = of("AWS::EC2::Route", RouteTableId={"Ref": "Table"}, GatewayId={"Ref": "Gateway"})
    assert dangers(pairs.changes(before, {**before, "Route": route})) == {Danger.PUBLIC_ENDPOINT}
    assert dangers(pairs.changes({**before, "Route": route}, before)) == set()


@pytest.mark.parametrize(
    "kind", ["AWS::ElasticLoadBalancingV2::LoadBalancer", "AWS::Lambda::Url", "AWS::EC2::VPCPeeringConnection"]
)
def test_a_new_way_in(pairs: Pairs, kind: str) -> None:
    role = of("AWS::IAM::Role")
    assert Danger.PUBLIC_ENDPOINT in dangers(pairs.changes({"R": role}, {"R": role, "New": of(kind)}))


def test_an_unchanged_switch_that_nobody_can_read_opens_nothing(pairs: Pairs) -> None:
    """A deployment leaves what does not differ as it is."""
    unchanged = {
        "Bucket": of("AWS::S3::Bucket", PublicAccessBlockConfiguration={"Ref": "Block"}),
        "Subnet": of("AWS::EC2::Subnet", MapPublicIpOnLaunch={"Ref": "Map"}),
    }
    before, after = ({**unchanged, "Topic": of("AWS::SNS::Topic", DisplayName=name)} for name in "ab")
    assert Danger.PUBLIC_ENDPOINT not in dangers(pairs.changes(before, after))
