"""Pairs by an author who had not seen the judges, the held-out half: capacity, and what it costs on demand."""

import copy

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import HYPERPOD, group
from tests.synth.corpus.cases import Category, Costs, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

ENDED = Danger.JOBS_ENDED
WORKERS = "InstanceGroup worker-group-1"
NODES = "AWS::EKS::Nodegroup"


@destructive(
    "the heads' group has no nodes",
    Category.GROUPS,
    expect("InstanceGroup head-group", Effect.NODES_REMOVED, dangers=ENDED, words=("1", "0")),
    costs=Costs((-0.6, -0.46)),
)
def _(edit: Edit) -> None:
    group(edit, "head-group")["InstanceCount"] = 0


@destructive(
    "production loses five of its eight nodes",
    Category.GROUPS,
    expect(WORKERS, Effect.NODES_REMOVED, dangers=ENDED, words=("8", "3")),
    environment="prod",
    costs=Costs((-318, -316), -40),
)
def _(edit: Edit) -> None:
    group(edit, "worker-group-1")["InstanceCount"] = 3


@harmless(
    "the RayCluster has no group of workers",
    Category.JOBS,
    # KubeRay leaves the pods of a removed group alone: issue 1739 of ray-project/kuberay.
    expect("RayCluster ray/rayml", Effect.NEEDS_ROLLOUT, words=("gpu-group", "ops rollout rayml")),
    worst=Effect.NEEDS_ROLLOUT,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["spec"]["workerGroupSpecs"] = []


@destructive(
    "the most workers are fewer than there are",
    Category.JOBS,
    # KubeRay takes the smaller number of replicas and maxReplicas.
    expect("RayCluster ray/rayml", Effect.ENDS_JOBS, dangers=ENDED, words=("10", "2")),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["spec"]["workerGroupSpecs"][0]["maxReplicas"] = 2


@destructive(
    "one group loses two nodes, and another gets them",
    Category.GROUPS,
    expect(WORKERS, Effect.NODES_REMOVED, dangers=ENDED, words=("4", "2")),
    costs=Costs((-0.3, 0.3)),
)
def _(edit: Edit) -> None:
    more = copy.deepcopy(group(edit, "worker-group-1"))
    group(edit, "worker-group-1")["InstanceCount"] = 2
    more |= {"InstanceGroupName": "worker-group-2", "InstanceCount": 2}
    edit.properties("hyperpod", HYPERPOD)["InstanceGroups"].append(more)


@harmless(
    "the system's nodes are all replaced by others",
    Category.GROUPS,
    # CloudFormation creates the new group first, and EKS drains the old one.
    expect(f"{NODES} SystemNodes", Effect.NODES_REPLACED, words=("m5.xlarge", "m5.2xlarge")),
    worst=Effect.NODES_REPLACED,
    costs=Costs((0.35, 0.45)),
)
def _(edit: Edit) -> None:
    edit.properties("eks", NODES)["InstanceTypes"] = ["m5.2xlarge"]


@harmless(
    "production has two nodes more",
    Category.GROUPS,
    expect(WORKERS, Effect.IN_PLACE, words=("8", "10")),
    worst=Effect.IN_PLACE,
    environment="prod",
    costs=Costs((126, 127.2), 16),
)
def _(edit: Edit) -> None:
    group(edit, "worker-group-1")["InstanceCount"] = 10


@harmless(
    "the system has a node more",
    Category.GROUPS,
    expect("", Effect.IN_PLACE, words=("2", "3")),
    worst=Effect.IN_PLACE,
    costs=Costs((0.19, 0.3)),
)
def _(edit: Edit) -> None:
    edit.properties("eks", NODES)["ScalingConfig"] = {"DesiredSize": 3, "MaxSize": 3, "MinSize": 3}


@harmless(
    "there is a group with one GPU",
    Category.GROUPS,
    expect("InstanceGroup tests", Effect.CREATED, Effect.IN_PLACE),
    worst=Effect.CREATED,
    # ml.g5.xlarge in HyperPod.
    costs=Costs((1.3, 1.6), 1),
)
def _(edit: Edit) -> None:
    other = {"InstanceGroupName": "tests", "InstanceType": "ml.g5.xlarge", "InstanceCount": 1}
    more = copy.deepcopy(group(edit, "head-group")) | other
    edit.properties("hyperpod", HYPERPOD)["InstanceGroups"].append(more)


@harmless(
    "the RayCluster has two workers more",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.IN_PLACE, words=("4", "6")),
    worst=Effect.IN_PLACE,
    costs=Costs((-0.001, 0.001)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["spec"]["workerGroupSpecs"][0]["replicas"] = 6


@harmless(
    "the nodes' volumes are larger, of the heads only",
    Category.GROUPS,
    expect("InstanceGroup head-group", Effect.IN_PLACE, words=("500", "600")),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    group(edit, "head-group")["InstanceStorageConfigs"] = [{"EbsVolumeConfig": {"VolumeSizeInGB": 600}}]
