"""Pairs by an author who had not seen the judges, the open half: capacity, and what it costs on demand in Oregon.

A p5.48xlarge in HyperPod costs 63.296 USD an hour, and has 8 GPUs.
"""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import HYPERPOD, group
from tests.synth.corpus.cases import Category, Costs, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

ENDED = Danger.JOBS_ENDED
WORKERS = "InstanceGroup worker-group-1"
NONE = Costs((-0.001, 0.001))


@destructive(
    "a group loses one of its four nodes",
    Category.GROUPS,
    expect(WORKERS, Effect.NODES_REMOVED, dangers=ENDED, words=("4", "3")),
    costs=Costs((-63.5, -63.0), -8),
)
def _(edit: Edit) -> None:
    group(edit, "worker-group-1")["InstanceCount"] = 3


@destructive(
    "a group is emptied",
    Category.GROUPS,
    expect(WORKERS, Effect.NODES_REMOVED, dangers=ENDED, words=("4", "0")),
    costs=Costs((-254, -253), -32),
)
def _(edit: Edit) -> None:
    group(edit, "worker-group-1")["InstanceCount"] = 0


@destructive(
    "the RayCluster has half of its workers",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.ENDS_JOBS, dangers=ENDED, words=("4", "2")),
    costs=NONE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["spec"]["workerGroupSpecs"][0]["replicas"] = 2


@destructive(
    "the RayCluster is suspended",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.ENDS_JOBS, Effect.DELETED, dangers=(ENDED, Danger.JOBS_REMOVED)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["spec"]["suspend"] = True


@harmless(
    "a group has one node more",
    Category.GROUPS,
    expect(WORKERS, Effect.IN_PLACE, words=("4", "5")),
    worst=Effect.IN_PLACE,
    costs=Costs((63.2, 63.5), 8),
)
def _(edit: Edit) -> None:
    group(edit, "worker-group-1")["InstanceCount"] = 5


@harmless(
    "the file system is twice as large",
    Category.DATA,
    # 0.21 USD for a GB and month at 250 MB/s/TiB.
    expect("AWS::FSx::FileSystem FileSystem", Effect.IN_PLACE, words=("1200", "2400")),
    worst=Effect.IN_PLACE,
    costs=Costs((0.25, 0.5)),
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["StorageCapacity"] = 2400


@harmless(
    "there is a NAT gateway more",
    Category.NETWORK,
    expect("AWS::EC2::NatGateway VpcNatGateway1", Effect.CREATED),
    worst=Effect.CREATED,
    # 0.045 USD an hour, and 0.005 for its address.
    costs=Costs((0.044, 0.051)),
)
def _(edit: Edit) -> None:
    edit.add("network", "VpcNatAddress1", "AWS::EC2::EIP", Domain="vpc")
    address = {"Fn::GetAtt": [edit.find("network", "AWS::EC2::EIP", "VpcNatAddress1")[0], "AllocationId"]}
    subnet = edit.properties("network", "AWS::EC2::NatGateway", "VpcNatGateway0")["SubnetId"]
    edit.add("network", "VpcNatGateway1", "AWS::EC2::NatGateway", AllocationId=address, SubnetId=subnet)


@harmless(
    "a new group trains by a training plan",
    Category.GROUPS,
    expect("InstanceGroup planned", Effect.CREATED, Effect.IN_PLACE),
    worst=Effect.CREATED,
    # A plan is paid in advance.
    costs=Costs((-0.001, 127), 16),
)
def _(edit: Edit) -> None:
    plan = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/june"
    other: dict[str, Any] = group(edit, "worker-group-1")
    more = other | {"InstanceGroupName": "planned", "InstanceCount": 2, "TrainingPlanArn": plan}
    edit.properties("hyperpod", HYPERPOD)["InstanceGroups"].append(more)
