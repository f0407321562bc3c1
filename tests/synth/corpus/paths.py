"""Pairs about who reaches whom: routes, subnets, security groups of interfaces, network ACLs, endpoints."""

import copy
from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit
from tests.synth.corpus.references import sets

ROUTE = "AWS::EC2::Route"
ENTRY = "AWS::EC2::NetworkAclEntry"
FUNCTION = "AWS::Lambda::Function"
ENDPOINT = "AWS::EC2::VPCEndpoint"
TEMPLATE = "AWS::EC2::LaunchTemplate"
KUBECTL = "ClusterKubectlProviderHandler"
OPENED = Danger.OPENED_PORT
OUTSIDE = (OPENED, Danger.PUBLIC_ENDPOINT)


def _table(edit: Edit) -> Any:
    return {"Ref": edit.find("network", "AWS::EC2::RouteTable", "VpcPrivateRoutes0")[0]}


# Routes


@destructive(
    "the nodes' subnet gets a route to a peer's network",
    Category.NETWORK,
    expect(f"{ROUTE} Peer", Effect.CREATED, Effect.IN_PLACE, dangers=OUTSIDE, words=("172.16.0.0/12", "pcx-1")),
)
def _(edit: Edit) -> None:
    route = {"DestinationCidrBlock": "172.16.0.0/12", "VpcPeeringConnectionId": "pcx-1"}
    edit.add("network", "Peer", ROUTE, RouteTableId=_table(edit), **route)


@destructive(
    "the closed environment's nodes get a way to the Internet",
    Category.NETWORK,
    expect(f"{ROUTE} Out", Effect.CREATED, Effect.IN_PLACE, dangers=OUTSIDE, words=("0.0.0.0/0", "NAT gateway")),
    environment="closed",
)
def _(edit: Edit) -> None:
    route = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1"}
    edit.add("network", "Out", ROUTE, RouteTableId=_table(edit), **route)


@destructive(
    "a route goes through an appliance instead of the NAT gateway",
    Category.NETWORK,
    expect(f"{ROUTE} VpcPrivateDefaultRoute0", Effect.IN_PLACE, dangers=OUTSIDE, words=("eni-1",)),
)
def _(edit: Edit) -> None:
    route = edit.properties("network", ROUTE, "VpcPrivateDefaultRoute0")
    del route["NatGatewayId"]
    route["NetworkInterfaceId"] = "eni-1"


@harmless("a route goes through another NAT gateway", Category.NETWORK, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    gateway = copy.deepcopy(edit.properties("network", "AWS::EC2::NatGateway", "VpcNatGateway0"))
    edit.add("network", "Second", "AWS::EC2::NatGateway", **gateway)
    second, _ = edit.find("network", "AWS::EC2::NatGateway", "Second")
    edit.properties("network", ROUTE, "VpcPrivateDefaultRoute1")["NatGatewayId"] = {"Ref": second}


@harmless("a new route table, which no subnet uses, has a route", Category.NETWORK, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    vpc = edit.properties("network", "AWS::EC2::RouteTable", "VpcPrivateRoutes0")["VpcId"]
    edit.add("network", "Spare", "AWS::EC2::RouteTable", VpcId=vpc)
    spare, _ = edit.find("network", "AWS::EC2::RouteTable", "Spare")
    route = {"DestinationCidrBlock": "172.16.0.0/12", "VpcPeeringConnectionId": "pcx-1"}
    edit.add("network", "Peer", ROUTE, RouteTableId={"Ref": spare}, **route)


def _peering(edit: Edit) -> None:
    edit.add("network", "Peering", "AWS::EC2::VPCPeeringConnection", VpcId="vpc-1", PeerVpcId="vpc-2")


@harmless("a peering connection gets a tag", Category.NETWORK, worst=Effect.IN_PLACE, prepare=_peering)
def _(edit: Edit) -> None:
    peering = edit.properties("network", "AWS::EC2::VPCPeeringConnection", "Peering")
    peering["Tags"] = [{"Key": "owner", "Value": "platform"}]


# Subnets and groups


def _move(edit: Edit, construct: str) -> None:
    id, _ = edit.find("network", "AWS::EC2::Subnet", construct)
    outputs = edit.templates["network"]["Outputs"]
    name = f"{edit.stack('network')}:{construct}"
    outputs[construct] = {"Value": {"Ref": id}, "Export": {"Name": name}}
    subnets = edit.properties("eks", FUNCTION, KUBECTL)["VpcConfig"]["SubnetIds"]
    subnets[1] = {"Fn::ImportValue": name}


@destructive(
    "a function moves to a public subnet",
    Category.NETWORK,
    expect(f"{FUNCTION} {KUBECTL}", Effect.IN_PLACE, dangers=OUTSIDE, words=("SubnetIds",)),
)
def _(edit: Edit) -> None:
    _move(edit, "VpcPublic1")


@harmless("a function moves to a subnet with the same routes", Category.NETWORK, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    _move(edit, "VpcNodes1")


@destructive(
    "the interfaces of the system's nodes join another group",
    Category.NETWORK,
    expect(f"{TEMPLATE} ", Effect.IN_PLACE, Effect.NODES_REPLACED, dangers=OPENED, words=("Groups", "sg-1")),
)
def _(edit: Edit) -> None:
    data = edit.properties("eks", TEMPLATE)["LaunchTemplateData"]
    data["NetworkInterfaces"] = [{"DeviceIndex": 0, "Groups": [*data.pop("SecurityGroupIds"), "sg-1"]}]


@harmless("the volumes of the system's nodes get a tag", Category.NETWORK, worst=Effect.NODES_REPLACED)
def _(edit: Edit) -> None:
    tags = [{"Key": "owner", "Value": "platform"}]
    specification = {"ResourceType": "volume", "Tags": tags}
    edit.properties("eks", TEMPLATE)["LaunchTemplateData"]["TagSpecifications"].append(specification)


destructive(
    "the cluster trusts the network of nodes elsewhere",
    Category.NETWORK,
    expect(
        "AWS::EKS::Cluster Cluster", Effect.IN_PLACE, dangers=OPENED, words=("RemoteNetworkConfig", "192.168.0.0/16")
    ),
)(
    sets(
        "eks",
        "AWS::EKS::Cluster",
        "Cluster",
        RemoteNetworkConfig={"RemoteNodeNetworks": [{"Cidrs": ["192.168.0.0/16"]}]},
    )
)

harmless("the cluster's support ends earlier", Category.NETWORK, worst=Effect.IN_PLACE)(
    sets("eks", "AWS::EKS::Cluster", "Cluster", UpgradePolicy={"SupportType": "STANDARD"})
)

# Network ACLs


def _acl(edit: Edit) -> None:
    vpc = edit.properties("network", "AWS::EC2::RouteTable", "VpcPrivateRoutes0")["VpcId"]
    edit.add("network", "Acl", "AWS::EC2::NetworkAcl", VpcId=vpc)
    acl, _ = edit.find("network", "AWS::EC2::NetworkAcl", "Acl")
    entry = {"NetworkAclId": {"Ref": acl}, "RuleNumber": 100, "Protocol": 6, "RuleAction": "allow"}
    edit.add("network", "Web", ENTRY, **entry, CidrBlock="10.0.0.0/8", PortRange={"From": 443, "To": 443})


destructive(
    "a network ACL lets in more addresses",
    Category.NETWORK,
    expect(f"{ENTRY} Web", Effect.IN_PLACE, dangers=OPENED, words=("0.0.0.0/0",)),
    prepare=_acl,
)(sets("network", ENTRY, "Web", CidrBlock="0.0.0.0/0"))

harmless("a network ACL lets in fewer addresses", Category.NETWORK, worst=Effect.IN_PLACE, prepare=_acl)(
    sets("network", ENTRY, "Web", CidrBlock="10.192.0.0/16")
)

# Endpoints

destructive(
    "an endpoint of the closed environment loses its policy",
    Category.PERMISSIONS,
    expect(f"{ENDPOINT} VpcEndpointseks", Effect.IN_PLACE, dangers=Danger.WIDER_PERMISSIONS),
    environment="closed",
)(sets("network", ENDPOINT, "VpcEndpointseks", PolicyDocument=None))


@harmless("an endpoint allows no more than reading", Category.PERMISSIONS, worst=Effect.IN_PLACE, environment="closed")
def _(edit: Edit) -> None:
    [statement] = edit.properties("network", ENDPOINT, "VpcEndpointseks")["PolicyDocument"]["Statement"]
    statement["Action"] = "eks:Describe*"


@destructive(
    "a new endpoint leads to somebody's service",
    Category.NETWORK,
    expect(f"{ENDPOINT} Foreign", Effect.CREATED, Effect.IN_PLACE, dangers=OUTSIDE, words=("vpce-svc-1",)),
    environment="closed",
)
def _(edit: Edit) -> None:
    endpoint = copy.deepcopy(edit.properties("network", ENDPOINT, "VpcEndpointsssm"))
    endpoint["ServiceName"] = "com.amazonaws.vpce.us-west-2.vpce-svc-1"
    edit.add("network", "Foreign", ENDPOINT, **endpoint)


@harmless("a new endpoint leads to a service of AWS", Category.NETWORK, worst=Effect.CREATED, environment="closed")
def _(edit: Edit) -> None:
    endpoint = copy.deepcopy(edit.properties("network", ENDPOINT, "VpcEndpointsssm"))
    endpoint["ServiceName"] = "com.amazonaws.us-west-2.sqs"
    edit.add("network", "Queues", ENDPOINT, **endpoint)
