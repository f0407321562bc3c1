"""Pairs by a fourth author who had not seen the judges: what costs more or less. Prices: US West (Oregon), on demand.

SageMaker HyperPod: ml.p5.48xlarge 63.296 USD, ml.g5.4xlarge 2.03 USD, ml.m5.2xlarge 0.461 USD an hour, and each node's
volume. EC2: m5.xlarge 0.192 USD an hour, gp3 0.08 USD a GB and month. FSx for Lustre, SSD, a GB and month: 0.210 USD at
250, 0.340 USD at 500 and 0.600 USD at 1000 MB/s/TiB. NAT gateway 0.045 USD, public IPv4 address 0.005 USD an hour.
"""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, Costs, destructive, expect, harmless
from tests.synth.corpus.editing import Edit, instance_group

ENDED = Danger.JOBS_ENDED
Body = dict[str, Any]


@destructive(
    "two of production's eight GPU nodes are removed",
    Category.GROUPS,
    expect("InstanceGroup worker-group-1", Effect.NODES_REMOVED, dangers=ENDED, words=("worker-group-1",)),
    environment="prod",
    costs=Costs((-127.5, -126.0), gpus=-16),
)
def _(edit: Edit) -> None:
    instance_group(edit, "worker-group-1")["InstanceCount"] = 6


@destructive(
    "the GPU nodes are all removed over the holidays",
    Category.GROUPS,
    expect("InstanceGroup worker-group-1", Effect.NODES_REMOVED, dangers=(ENDED, Danger.GROUP_REMOVED)),
    costs=Costs((-254.5, -253.0), gpus=-32),
)
def _(edit: Edit) -> None:
    instance_group(edit, "worker-group-1")["InstanceCount"] = 0


@harmless(
    "one more node with eight GPUs",
    Category.GROUPS,
    expect("InstanceGroup worker-group-1", Effect.IN_PLACE, Effect.CREATED),
    worst=Effect.CREATED,
    costs=Costs((63.2, 63.6), gpus=8),
)
def _(edit: Edit) -> None:
    instance_group(edit, "worker-group-1")["InstanceCount"] = 5


@harmless(
    "one more Slurm worker",
    Category.GROUPS,
    expect("InstanceGroup worker-group-1", Effect.IN_PLACE, Effect.CREATED),
    worst=Effect.CREATED,
    environment="slurm",
    costs=Costs((2.02, 2.2), gpus=1),
)
def _(edit: Edit) -> None:
    instance_group(edit, "worker-group-1")["InstanceCount"] = 3


@harmless(
    "a second node for Ray's heads",
    Category.GROUPS,
    expect("InstanceGroup head-group", Effect.IN_PLACE, Effect.CREATED),
    worst=Effect.CREATED,
    costs=Costs((0.45, 0.6)),
)
def _(edit: Edit) -> None:
    instance_group(edit, "head-group")["InstanceCount"] = 2


@harmless(
    "the file system grows by its own size",
    Category.DATA,
    expect("AWS::FSx::FileSystem", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    costs=Costs((0.33, 0.36)),
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["StorageCapacity"] = 2400


@harmless(
    "a third system node",
    Category.CLUSTERS,
    expect("AWS::EKS::Nodegroup SystemNodes", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    costs=Costs((0.19, 0.215)),
)
def _(edit: Edit) -> None:
    scaling = edit.properties("eks", "AWS::EKS::Nodegroup")["ScalingConfig"]
    scaling.update(DesiredSize=3, MaxSize=3)


@harmless(
    "a spare NAT gateway stands in the second zone",
    Category.NETWORK,
    expect("AWS::EC2::NatGateway", Effect.CREATED),
    worst=Effect.CREATED,
    costs=Costs((0.044, 0.052)),
)
def _(edit: Edit) -> None:
    edit.add("network", "VpcNatAddress1", "AWS::EC2::EIP", Domain="vpc")
    address = {"Fn::GetAtt": [edit.find("network", "AWS::EC2::EIP", "VpcNatAddress1")[0], "AllocationId"]}
    subnet = {"Fn::GetAtt": [edit.find("network", "AWS::EC2::Subnet", "VpcPublic1")[0], "SubnetId"]}
    edit.add("network", "VpcNatGateway1", "AWS::EC2::NatGateway", AllocationId=address, SubnetId=subnet)
