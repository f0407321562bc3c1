"""Pairs by an author who had not seen the judges, the open half: changes in place, and ways between networks."""

import json
from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

WIDER, LOWER, LOOSER = Danger.WIDER_PERMISSIONS, Danger.LOWER_PROTECTION, Danger.LOOSER_ISOLATION
OPENED, PUBLIC, RUNS = Danger.OPENED_PORT, Danger.PUBLIC_ENDPOINT, Danger.RUNS_CODE
BUCKET = "AWS::S3::Bucket"
FUNCTION = "AWS::Lambda::Function"


@destructive(
    "the add-on of the network no longer enforces policies",
    Category.ISOLATION,
    expect("AWS::EKS::Addon AddOnvpccni", Effect.IN_PLACE, dangers=(LOOSER, LOWER), words=("enableNetworkPolicy",)),
)
def _(edit: Edit) -> None:
    addon = edit.properties("eks", "AWS::EKS::Addon", "AddOnvpccni")
    addon["ConfigurationValues"] = json.dumps({"enableNetworkPolicy": "false"})


@destructive(
    "another account starts the cluster's function",
    Category.PERMISSIONS,
    expect("AWS::Lambda::Permission ", Effect.CREATED, dangers=WIDER, words=("999999999999",)),
)
def _(edit: Edit) -> None:
    name = {"Ref": edit.find("hyperpod", FUNCTION, "ProviderOnEvent")[0]}
    given = {"Action": "lambda:InvokeFunction", "FunctionName": name, "Principal": "999999999999"}
    edit.add("hyperpod", "ProviderPermission", "AWS::Lambda::Permission", **given)


@destructive(
    "all objects of the data bucket expire after a quarter",
    Category.DATA,
    expect(
        "AWS::S3::Bucket Data",
        Effect.IN_PLACE,
        Effect.DATA_LOST,
        dangers=(Danger.DATA_LOSS, LOWER),
        words=("90",),
    ),
)
def _(edit: Edit) -> None:
    rules = edit.properties("storage", BUCKET, "Data")["LifecycleConfiguration"]["Rules"]
    [rule] = [each for each in rules if each.get("Prefix") == "ray/packages/"]
    del rule["Prefix"]


def _replicated(edit: Edit) -> None:
    role = "arn:aws:iam::111122223333:role/Replication"
    rule = {"Status": "Enabled", "Destination": {"Bucket": "arn:aws:s3:::copies"}, "Prefix": ""}
    edit.properties("storage", BUCKET, "Data")["ReplicationConfiguration"] = {"Role": role, "Rules": [rule]}


@destructive(
    "the data bucket is no longer copied",
    Category.PROTECTION,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE, dangers=LOWER, words=("replication",)),
    prepare=_replicated,
)
def _(edit: Edit) -> None:
    del edit.properties("storage", BUCKET, "Data")["ReplicationConfiguration"]


@destructive(
    "a list of somebody's networks reaches the nodes",
    Category.NETWORK,
    expect("AWS::EC2::SecurityGroupIngress ", Effect.CREATED, dangers=OPENED, words=("pl-0fedcba9876543210",)),
)
def _(edit: Edit) -> None:
    group = {"Fn::GetAtt": [edit.find("network", "AWS::EC2::SecurityGroup")[0], "GroupId"]}
    rule = {"GroupId": group, "IpProtocol": "-1", "SourcePrefixListId": "pl-0fedcba9876543210"}
    edit.add("network", "FromPartners", "AWS::EC2::SecurityGroupIngress", **rule)


@destructive(
    "the network is peered with another account's, and routes lead there",
    Category.NETWORK,
    expect("AWS::EC2::Route PartnerRoute", Effect.CREATED, dangers=(OPENED, LOOSER, PUBLIC), words=("172.16.0.0/12",)),
)
def _(edit: Edit) -> None:
    peer = {"PeerVpcId": "vpc-0123456789abcdef0", "PeerOwnerId": "999999999999"}
    own = {"Ref": edit.find("network", "AWS::EC2::VPC")[0]}
    edit.add("network", "Partner", "AWS::EC2::VPCPeeringConnection", VpcId=own, **peer)
    connection = {"Ref": edit.find("network", "AWS::EC2::VPCPeeringConnection")[0]}
    table = {"Ref": edit.find("network", "AWS::EC2::RouteTable", "VpcPrivateRoutes0")[0]}
    way: dict[str, Any] = {"DestinationCidrBlock": "172.16.0.0/12", "VpcPeeringConnectionId": connection}
    edit.add("network", "PartnerRoute", "AWS::EC2::Route", RouteTableId=table, **way)


@destructive(
    "nodes answer whoever asks for their credentials without a session",
    Category.ISOLATION,
    expect("AWS::EC2::LaunchTemplate SystemNodes", Effect.IN_PLACE, dangers=(LOOSER, LOWER), words=("HttpTokens",)),
)
def _(edit: Edit) -> None:
    data = edit.properties("eks", "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    data["MetadataOptions"] = {"HttpTokens": "optional", "HttpPutResponseHopLimit": 2}


@destructive(
    "tags of images may move",
    Category.PROTECTION,
    expect("AWS::ECR::Repository Image", Effect.IN_PLACE, dangers=LOWER, words=("MUTABLE",)),
)
def _(edit: Edit) -> None:
    repository = edit.properties("storage", "AWS::ECR::Repository")
    repository["ImageTagMutability"] = "MUTABLE"
    del repository["ImageTagMutabilityExclusionFilters"]


@destructive(
    "the topic of notifications takes messages of everybody",
    Category.PERMISSIONS,
    expect("AWS::SNS::TopicPolicy NotificationsTopic", Effect.IN_PLACE, dangers=WIDER, words=("sns:Publish",)),
)
def _(edit: Edit) -> None:
    for statement in edit.properties("hyperpod", "AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]:
        if statement["Effect"] == "Allow":
            statement["Principal"] = {"AWS": "*"}


@harmless("an add-on is a newer patch", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EKS::Addon", "AddOnvpccni")["AddonVersion"] = "v1.22.5-eksbuild.1"


@harmless("the name server has three replicas", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EKS::Addon", "AddOncoredns")["ConfigurationValues"] = json.dumps({"replicaCount": 3})


@harmless("packages of Ray are kept for longer", Category.DATA, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    rules = edit.properties("storage", BUCKET, "Data")["LifecycleConfiguration"]["Rules"]
    [rule] = [each for each in rules if each.get("Prefix") == "ray/packages/"]
    rule["ExpirationInDays"] = 180


@harmless("the data bucket has a tag more", Category.DATA, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("storage", BUCKET, "Data")["Tags"].append({"Key": "copied", "Value": "weekly"})


@harmless("the handler's function runs for longer", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", FUNCTION, "ProviderOnEvent")["Timeout"] = 300


@harmless("a rule of the security group is described better", Category.NETWORK, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    rule = edit.properties("network", "AWS::EC2::SecurityGroupEgress", "SharedSecurityGroupToAnywhere")
    rule["Description"] = "AWS's interfaces"


@harmless("the nodes' metadata still needs a session, of one hop", Category.ISOLATION, worst=Effect.NODES_REPLACED)
def _(edit: Edit) -> None:
    data = edit.properties("eks", "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    data["MetadataOptions"]["InstanceMetadataTags"] = "disabled"


@harmless("the topic takes events of this account only", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    for statement in edit.properties("hyperpod", "AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]:
        if statement["Effect"] == "Allow":
            statement["Condition"] = {"StringEquals": {"aws:SourceAccount": "111122223333"}}


@harmless("the bucket of scripts answers over new TLS only", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    statements = edit.properties("storage", "AWS::S3::BucketPolicy", "LifecyclePolicy")["PolicyDocument"]["Statement"]
    [denied] = [each for each in statements if each["Effect"] == "Deny"]
    statements.append(denied | {"Condition": {"NumericLessThan": {"s3:TlsVersion": "1.2"}}})
