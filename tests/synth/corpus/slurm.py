"""Clusters that Slurm orchestrates: their groups, partitions, file system and the rights of their nodes."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Body, Edit

HYPERPOD = "Custom::HyperPodCluster"
CONTROLLER, LOGIN, COMPUTE = 0, 1, 2


def group(edit: Edit, index: int) -> Body:
    found: Body = edit.properties("hyperpod", HYPERPOD)["InstanceGroups"][index]
    return found


@destructive(
    "the group of Slurm's controller gets another name",
    Category.GROUPS,
    expect(
        "InstanceGroup controller-machine",
        Effect.NODES_REPLACED,
        Effect.NODES_REMOVED,
        dangers=Danger.GROUP_REMOVED,
        words=("queue", "confirm_group_removal"),
    ),
    environment="slurm",
)
def _(edit: Edit) -> None:
    group(edit, CONTROLLER)["InstanceGroupName"] = "head"


@destructive(
    "what the nodes of a group are in Slurm cannot be read",
    Category.UNKNOWN,
    expect("InstanceGroup worker-group-1", Effect.UNKNOWN),
    environment="slurm",
)
def _(edit: Edit) -> None:
    group(edit, COMPUTE)["SlurmConfig"] = {"Ref": "AWS::NoValue"}


@destructive(
    "the file system with the homes of Slurm's users moves to another subnet",
    Category.DATA,
    expect("AWS::FSx::FileSystem", Effect.DATA_LOST, dangers=Danger.DATA_LOSS),
    environment="slurm",
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["SubnetIds"] = ["subnet-0123456789abcdef0"]


@destructive(
    "the nodes of Slurm may write each bucket",
    Category.PERMISSIONS,
    expect("AWS::IAM::Policy", Effect.IN_PLACE, dangers=Danger.WIDER_PERMISSIONS),
    environment="slurm",
)
def _(edit: Edit) -> None:
    policy = edit.properties("hyperpod", "AWS::IAM::Policy", "ExecutionRoleDefaultPolicy")
    policy["PolicyDocument"]["Statement"].append({"Effect": "Allow", "Action": "s3:PutObject", "Resource": "*"})


@harmless(
    "a group's nodes move to another partition of Slurm",
    Category.GROUPS,
    expect("InstanceGroup worker-group-1", Effect.IN_PLACE, words=("partition",)),
    worst=Effect.IN_PLACE,
    environment="slurm",
)
def _(edit: Edit) -> None:
    group(edit, COMPUTE)["SlurmConfig"]["PartitionNames"] = ["vision"]


@harmless(
    "a partition of Slurm grows by a node",
    Category.GROUPS,
    expect("InstanceGroup worker-group-1", Effect.IN_PLACE, words=("2", "3")),
    worst=Effect.IN_PLACE,
    environment="slurm",
)
def _(edit: Edit) -> None:
    group(edit, COMPUTE)["InstanceCount"] = 3


@harmless(
    "compute nodes of Slurm become login nodes, which the deployment refuses",
    Category.GROUPS,
    expect("InstanceGroup worker-group-1", Effect.REFUSED, words=("another name",)),
    worst=Effect.REFUSED,
    environment="slurm",
)
def _(edit: Edit) -> None:
    group(edit, COMPUTE)["SlurmConfig"] = {"NodeType": "Login"}


@harmless(
    "Slurm gets a second partition with nodes of its own",
    Category.GROUPS,
    expect("InstanceGroup vision", Effect.CREATED, Effect.IN_PLACE),
    worst=Effect.CREATED,
    environment="slurm",
)
def _(edit: Edit) -> None:
    config = {"NodeType": "Compute", "PartitionNames": ["vision"]}
    groups = edit.properties("hyperpod", HYPERPOD)["InstanceGroups"]
    groups.append(groups[COMPUTE] | {"InstanceGroupName": "vision", "SlurmConfig": config})
