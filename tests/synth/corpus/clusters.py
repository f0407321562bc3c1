"""The EKS cluster and its version, the HyperPod cluster, the VPC and its subnets, instance groups."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import CASES, Case, Category, Document, Expected, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

EKS = "AWS::EKS::Cluster"
HYPERPOD = "Custom::HyperPodCluster"
GROUP = "InstanceGroup "


@destructive(
    "Kubernetes goes up by two minor versions",
    Category.CLUSTERS,
    # EKS refuses it, too.
    expect("AWS::EKS::Cluster Cluster", Effect.IN_PLACE, Effect.REFUSED, dangers=Danger.VERSION_SKIP, words=("1.37",)),
)
def _(edit: Edit) -> None:
    for kind in (EKS, "AWS::EKS::Nodegroup"):
        edit.properties("eks", kind)["Version"] = "1.37"


@destructive(
    "the EKS cluster gets another name",
    Category.CLUSTERS,
    expect("AWS::EKS::Cluster Cluster", Effect.REPLACED, Effect.DATA_LOST, dangers=Danger.CLUSTER_LOSS),
)
def _(edit: Edit) -> None:
    edit.properties("eks", EKS)["Name"] = "rayhp-dev-2"


@destructive(
    "the subnet of the nodes takes its range from a parameter",
    Category.CLUSTERS,
    # What the parameter holds is unknown: the worst is another range, which replaces the subnet.
    expect("AWS::EC2::Subnet Vpc/Nodes0", Effect.REPLACED, Effect.DATA_LOST, dangers=Danger.CLUSTER_LOSS),
)
def _(edit: Edit) -> None:
    edit.templates["network"]["Parameters"]["NodesRange"] = {"Type": "String", "Default": "10.192.64.0/18"}
    edit.properties("network", "AWS::EC2::Subnet", "VpcNodes0")["CidrBlock"] = {"Ref": "NodesRange"}


@harmless(
    "Kubernetes goes up by one minor version",
    Category.CLUSTERS,
    expect("AWS::EKS::Cluster Cluster", Effect.IN_PLACE, words=("1.36",)),
    # EKS replaces the system nodes one by one.
    worst=Effect.NODES_REPLACED,
)
def _(edit: Edit) -> None:
    assert edit.properties("eks", EKS)["Version"] == "1.35"
    for kind in (EKS, "AWS::EKS::Nodegroup"):
        edit.properties("eks", kind)["Version"] = "1.36"


@harmless("the EKS cluster waits for another resource", Category.CLUSTERS, worst=Effect.NOTHING)
def _(edit: Edit) -> None:
    _, cluster = edit.find("eks", EKS)
    cluster["DependsOn"] = [*cluster["DependsOn"], edit.find("eks", "AWS::KMS::Key")[0]]


def _spare(**changes: Any) -> dict[str, Any]:
    return {"name": "spare-group", "instance_type": "ml.m5.2xlarge", "count": 1, "volume_gib": 100} | changes


def _with_spare(document: Document) -> None:
    document["hyperpod"]["instance_groups"].append(_spare())


def _without_spare(document: Document) -> None:
    """Change nothing: the environment's file has no spare group."""


def _confirmed(document: Document) -> None:
    document["hyperpod"]["confirm_group_removal"] = ["spare-group"]


def _one_more_node(document: Document) -> None:
    document["hyperpod"]["instance_groups"][1]["count"] += 1


_removed = frozenset({Effect.NODES_REMOVED, Effect.REFUSED})
_confirmation = "hyperpod.confirm_group_removal"
CASES.extend(
    (
        Case("an environment is new", Category.CLUSTERS, False, (), Effect.CREATED, new=True),
        Case(
            "the environment's file loses an instance group without a confirmation",
            Category.GROUPS,
            True,
            # The handler refuses the update until the removal is confirmed.
            (Expected(f"{GROUP}spare-group", _removed, frozenset({Danger.GROUP_REMOVED}), ("confirm_group_removal",)),),
            Effect.REFUSED,
            base_file=_with_spare,
            file=_without_spare,
        ),
        Case(
            "the environment's file loses an instance group and confirms it",
            Category.GROUPS,
            False,
            (
                Expected(
                    f"{GROUP}spare-group",
                    frozenset({Effect.NODES_REMOVED}),
                    frozenset({Danger.GROUP_REMOVED}),
                    confirmed_by=_confirmation,
                ),
            ),
            Effect.NODES_REMOVED,
            base_file=_with_spare,
            file=_confirmed,
        ),
        Case(
            "the environment's file has one more node in a group",
            Category.GROUPS,
            False,
            (Expected(f"{GROUP}worker-group-1", frozenset({Effect.IN_PLACE}), words=("4", "5")),),
            Effect.IN_PLACE,
            file=_one_more_node,
        ),
    )
)


@destructive(
    "an instance group is renamed",
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
    groups = edit.properties("hyperpod", HYPERPOD)["InstanceGroups"]
    [group] = [each for each in groups if each["InstanceGroupName"] == "worker-group-1"]
    group["InstanceGroupName"] = "worker-group-one"


@harmless(
    "there is one more instance group, before the others",
    Category.GROUPS,
    expect("InstanceGroup spare-group", Effect.CREATED, Effect.IN_PLACE),
    worst=Effect.CREATED,
)
def _(edit: Edit) -> None:
    cluster = edit.properties("hyperpod", HYPERPOD)
    cluster["InstanceGroups"] = [
        cluster["InstanceGroups"][0] | {"InstanceGroupName": "spare-group"},
        *cluster["InstanceGroups"],
    ]
