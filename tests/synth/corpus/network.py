"""Ports of security groups, and what the Internet reaches."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

SHARED = "AWS::EC2::SecurityGroup"


@destructive(
    "a rule of its own opens SSH to all of IPv6",
    Category.NETWORK,
    expect("AWS::EC2::SecurityGroupIngress ", Effect.CREATED, dangers=Danger.OPENED_PORT, words=("22", "::/0")),
)
def _(edit: Edit) -> None:
    group = {"Fn::GetAtt": [edit.find("network", SHARED)[0], "GroupId"]}
    rule = {"GroupId": group, "IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIpv6": "::/0"}
    edit.add("network", "SharedSecurityGroupFromOperators", "AWS::EC2::SecurityGroupIngress", **rule)


@destructive(
    "the security group lets in a prefix list, inline",
    Category.NETWORK,
    expect("AWS::EC2::SecurityGroup SharedSecurityGroup", Effect.IN_PLACE, dangers=Danger.OPENED_PORT, words=("8265",)),
)
def _(edit: Edit) -> None:
    rule = {"IpProtocol": "tcp", "FromPort": 8265, "ToPort": 8265, "SourcePrefixListId": "pl-0123456789abcdef0"}
    edit.properties("network", SHARED)["SecurityGroupIngress"] = [rule]


@destructive(
    "the EKS endpoint answers the whole Internet",
    Category.NETWORK,
    expect("AWS::EKS::Cluster Cluster", Effect.IN_PLACE, dangers=Danger.PUBLIC_ENDPOINT, words=("0.0.0.0/0",)),
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EKS::Cluster")["ResourcesVpcConfig"]["PublicAccessCidrs"].append("0.0.0.0/0")


@destructive(
    "the list of ranges that reach the EKS endpoint is gone",
    Category.NETWORK,
    # Without the list, EKS lets in 0.0.0.0/0.
    expect("AWS::EKS::Cluster Cluster", Effect.IN_PLACE, dangers=Danger.PUBLIC_ENDPOINT),
)
def _(edit: Edit) -> None:
    del edit.properties("eks", "AWS::EKS::Cluster")["ResourcesVpcConfig"]["PublicAccessCidrs"]


@harmless(
    "fewer addresses reach the EKS endpoint",
    Category.NETWORK,
    expect("AWS::EKS::Cluster Cluster", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EKS::Cluster")["ResourcesVpcConfig"]["PublicAccessCidrs"] = ["203.0.113.16/28"]


@harmless(
    "the security group no longer lets out to everywhere",
    Category.NETWORK,
    expect("AWS::EC2::SecurityGroupEgress SharedSecurityGroup/ToAnywhere", Effect.DELETED),
    worst=Effect.DELETED,
)
def _(edit: Edit) -> None:
    edit.delete("network", "AWS::EC2::SecurityGroupEgress", "SharedSecurityGroupToAnywhere")


@harmless(
    "the security group's rule has another description",
    Category.NETWORK,
    expect("AWS::EC2::SecurityGroupIngress SharedSecurityGroup/FromSelf", Effect.IN_PLACE, Effect.NOTHING),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("network", "AWS::EC2::SecurityGroupIngress", "SharedSecurityGroupFromSelf")["Description"] = (
        "All within the group"
    )
