"""Pairs that were kept aside until the rules were complete: data, clusters, instance groups."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import CASES, Case, Category, Document, Expected, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

EKS = "AWS::EKS::Cluster"
HYPERPOD = "Custom::HyperPodCluster"


# Data


def _throughput(document: Document) -> None:
    document["fsx"]["throughput_mbps_per_tib"] = 500


def _fewer_nodes(document: Document) -> None:
    document["hyperpod"]["instance_groups"][1]["count"] = 3
    document["ray"]["clusters"][0]["workers"][0]["replicas"] = 3


def _more_nodes(document: Document) -> None:
    document["hyperpod"]["instance_groups"][1]["count"] = 6
    document["ray"]["clusters"][0]["workers"][0]["replicas"] = 6


def _more_heads(document: Document) -> None:
    document["hyperpod"]["instance_groups"][0]["count"] += 1


def _other_instances(document: Document) -> None:
    document["hyperpod"]["instance_groups"][0]["instance_type"] = "ml.m5.4xlarge"


CASES.extend(
    (
        Case(
            "the environment's file asks for another throughput of the file system",
            Category.DATA,
            True,
            # CloudFormation's reference: PerUnitStorageThroughput requires replacement; the new file system is empty.
            (
                Expected(
                    "AWS::FSx::FileSystem FileSystem",
                    frozenset({Effect.DATA_LOST}),
                    frozenset({Danger.DATA_LOSS}),
                    ("empty",),
                ),
            ),
            Effect.DATA_LOST,
            file=_throughput,
        ),
        Case(
            "the environment's file has one node less in a group",
            Category.GROUPS,
            True,
            (
                Expected(
                    "InstanceGroup worker-group-1",
                    frozenset({Effect.NODES_REMOVED}),
                    frozenset({Danger.JOBS_ENDED}),
                    words=("4", "3", "ops scale worker-group-1"),
                ),
            ),
            # The workers of a RayCluster go down with the nodes.
            Effect.ENDS_JOBS,
            file=_fewer_nodes,
        ),
        Case(
            "the environment's file has two nodes more in a group",
            Category.GROUPS,
            False,
            (Expected("InstanceGroup worker-group-1", frozenset({Effect.IN_PLACE}), words=("4", "6", "us$")),),
            Effect.IN_PLACE,
            file=_more_nodes,
        ),
        Case(
            "the environment's file has one node more in the heads' group",
            Category.GROUPS,
            False,
            (Expected("InstanceGroup head-group", frozenset({Effect.IN_PLACE}), words=("us$",)),),
            Effect.IN_PLACE,
            file=_more_heads,
        ),
        Case(
            "the environment's file gives a group another instance type",
            Category.GROUPS,
            False,
            # The handler refuses it before it changes anything; no danger has it.
            (Expected("InstanceGroup head-group", frozenset({Effect.REFUSED}), words=("name",)),),
            Effect.REFUSED,
            file=_other_instances,
        ),
    )
)


@destructive(
    "the image repository takes its name from a parameter",
    Category.DATA,
    expect("AWS::ECR::Repository Image", Effect.DATA_LOST, dangers=Danger.DATA_LOSS, words=("repositor",)),
)
def _(edit: Edit) -> None:
    edit.templates["storage"]["Parameters"]["Name"] = {"Type": "String", "Default": "aws-ray-custom"}
    edit.properties("storage", "AWS::ECR::Repository")["RepositoryName"] = {"Ref": "Name"}


@destructive(
    "the key of the notifications is deleted, and the topic goes without encryption",
    Category.DATA,
    expect("AWS::KMS::Key NotificationsKey", Effect.DATA_LOST, dangers=Danger.DATA_LOSS, words=("key",)),
)
def _(edit: Edit) -> None:
    edit.delete("hyperpod", "AWS::KMS::Key", "NotificationsKey")
    del edit.properties("hyperpod", "AWS::SNS::Topic")["KmsMasterKeyId"]


@destructive(
    "the lifecycle bucket becomes a directory bucket under the same logical id",
    Category.DATA,
    # A changed type is a replacement.
    expect("AWS::S3", Effect.DATA_LOST, Effect.REPLACED, dangers=Danger.DATA_LOSS, words=("bucket",)),
)
def _(edit: Edit) -> None:
    _, bucket = edit.find("storage", "AWS::S3::Bucket", "Lifecycle")
    bucket["Type"] = "AWS::S3Express::DirectoryBucket"
    bucket["Properties"] = {"DataRedundancy": "SingleAvailabilityZone", "LocationName": "usw2-az1"}


@harmless(
    "the capacity of the file system is raised",
    Category.DATA,
    expect("AWS::FSx::FileSystem FileSystem", Effect.IN_PLACE, words=("1200", "2400")),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    assert edit.properties("storage", "AWS::FSx::FileSystem")["StorageCapacity"] == 1200
    edit.properties("storage", "AWS::FSx::FileSystem")["StorageCapacity"] = 2400


@harmless(
    "the tags of a bucket are written in another order",
    Category.DATA,
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    bucket = edit.properties("storage", "AWS::S3::Bucket", "Lifecycle")
    assert len(bucket["Tags"]) > 1
    bucket["Tags"].reverse()


# Clusters


@destructive(
    "Kubernetes goes down, by one minor version",
    Category.CLUSTERS,
    expect(
        "AWS::EKS::Cluster Cluster",
        Effect.IN_PLACE,
        Effect.REFUSED,
        Effect.REPLACED,
        Effect.DATA_LOST,
        dangers=Danger.VERSION_SKIP,
        words=("1.34",),
    ),
)
def _(edit: Edit) -> None:
    edit.properties("eks", EKS)["Version"] = "1.34"


@destructive(
    "the stack of the HyperPod cluster is gone",
    Category.CLUSTERS,
    expect("", Effect.KEPT, Effect.DELETED, Effect.DATA_LOST, dangers=Danger.CLUSTER_LOSS, words=("stack",)),
)
def _(edit: Edit) -> None:
    edit.remove_stack("hyperpod")


@destructive(
    "the VPC has another range",
    Category.CLUSTERS,
    expect("AWS::EC2::VPC Vpc", Effect.REPLACED, Effect.DATA_LOST, dangers=Danger.CLUSTER_LOSS),
)
def _(edit: Edit) -> None:
    edit.properties("network", "AWS::EC2::VPC")["CidrBlock"] = "10.200.0.0/16"


@harmless("the VPC and its subnets have other tags", Category.CLUSTERS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    for kind, construct in (("AWS::EC2::VPC", ""), ("AWS::EC2::Subnet", "VpcNodes0")):
        edit.properties("network", kind, construct)["Tags"].append({"Key": "owner", "Value": "platform"})


@harmless("a stack has another description", Category.CLUSTERS, worst=Effect.NOTHING)
def _(edit: Edit) -> None:
    edit.templates["eks"]["Description"] = "The control plane"


# Groups


@destructive(
    "an instance group is removed, and its name is that of a tag now",
    Category.GROUPS,
    expect(
        "InstanceGroup worker-group-1",
        Effect.NODES_REMOVED,
        Effect.REFUSED,
        dangers=Danger.GROUP_REMOVED,
        words=("confirm_group_removal",),
    ),
)
def _(edit: Edit) -> None:
    cluster = edit.properties("hyperpod", HYPERPOD)
    groups = cluster["InstanceGroups"]
    cluster["InstanceGroups"] = [each for each in groups if each["InstanceGroupName"] != "worker-group-1"]
    assert len(cluster["InstanceGroups"]) == len(groups) - 1
    cluster["Tags"].append({"Key": "InstanceGroupName", "Value": "worker-group-1"})


@destructive(
    "a group is renamed and the confirmation names another",
    Category.GROUPS,
    expect(
        "InstanceGroup head-group",
        Effect.NODES_REPLACED,
        Effect.NODES_REMOVED,
        Effect.REFUSED,
        dangers=Danger.GROUP_REMOVED,
    ),
)
def _(edit: Edit) -> None:
    cluster = edit.properties("hyperpod", HYPERPOD)
    [group] = [each for each in cluster["InstanceGroups"] if each["InstanceGroupName"] == "head-group"]
    group["InstanceGroupName"] = "Head-group"
    cluster["ConfirmGroupRemoval"] = ["worker-group-1"]


@harmless("the instance groups are in another order", Category.GROUPS, worst=Effect.NOTHING)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", HYPERPOD)["InstanceGroups"].reverse()
