"""Pairs by a third author who had not seen the judges: nodes and workers, and what they cost on demand."""

import copy

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import BUDGETED, HYPERPOD, group
from tests.synth.corpus.cases import Category, Costs, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

ENDED = Danger.JOBS_ENDED
WORKERS = "InstanceGroup worker-group-1"
NODES = "AWS::EKS::Nodegroup"
RAY_CLUSTER = "RayCluster ray/rayml"
SAME = Costs((-0.001, 0.001))


@destructive(
    "the group of workers has another name, and as many nodes",
    Category.GROUPS,
    expect(
        WORKERS,
        Effect.NODES_REMOVED,
        Effect.NODES_REPLACED,
        Effect.DELETED,
        Effect.REPLACED,
        dangers=(Danger.GROUP_REMOVED, ENDED),
    ),
    costs=SAME,
)
def _(edit: Edit) -> None:
    group(edit, "worker-group-1")["InstanceGroupName"] = "gpu-workers"


@destructive(
    "KubeRay's operator deletes the workers that a group names",
    Category.JOBS,
    # KubeRay deletes each pod that a group's scaleStrategy names.
    expect(RAY_CLUSTER, Effect.ENDS_JOBS, dangers=(ENDED, Danger.JOBS_REMOVED), words=("workersToDelete",)),
)
def _(edit: Edit) -> None:
    pods = [f"rayml-gpu-group-worker-{name}" for name in ("2hx7k", "8bq4z", "c5wtn", "v9dlp")]
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["spec"]["workerGroupSpecs"][0]["scaleStrategy"] = {"workersToDelete": pods}


@destructive(
    "the HyperPod cluster is in another subnet",
    Category.CLUSTERS,
    # UpdateCluster takes no VpcConfig. What fails before it changes anything is no danger by itself.
    expect("HyperPodCluster", Effect.REFUSED, words=("VpcConfig",)),
    expect("Custom::HyperPodCluster Cluster", Effect.IN_PLACE, dangers=Danger.OPENED_PORT, words=("VpcConfig",)),
)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", HYPERPOD)["VpcConfig"]["Subnets"] = ["subnet-0a1b2c3d4e5f60718"]


@destructive(
    "Slurm has no machines that compute",
    Category.GROUPS,
    expect(WORKERS, Effect.NODES_REMOVED, dangers=ENDED, words=("2", "0")),
    environment=BUDGETED,
    # ml.g5.4xlarge in HyperPod, with a volume of 500 GB.
    costs=Costs((-4.4, -4.0), -2),
)
def _(edit: Edit) -> None:
    group(edit, "worker-group-1")["InstanceCount"] = 0


@harmless(
    "the system's nodes may be as many as four",
    Category.GROUPS,
    expect(f"{NODES} SystemNodes", Effect.IN_PLACE, words=("4",)),
    worst=Effect.IN_PLACE,
    costs=SAME,
)
def _(edit: Edit) -> None:
    edit.properties("eks", NODES)["ScalingConfig"]["MaxSize"] = 4


@harmless(
    "production has a third node for heads",
    Category.GROUPS,
    expect("InstanceGroup head-group", Effect.IN_PLACE, words=("2", "3")),
    worst=Effect.IN_PLACE,
    environment="prod",
    costs=Costs((0.92, 1.1)),
)
def _(edit: Edit) -> None:
    group(edit, "head-group")["InstanceCount"] = 3


@harmless(
    "the second zone has a NAT gateway of its own",
    Category.NETWORK,
    expect("AWS::EC2::NatGateway VpcNatGateway1", Effect.CREATED),
    worst=Effect.CREATED,
    costs=Costs((0.044, 0.052)),
)
def _(edit: Edit) -> None:
    address, gateway = "AWS::EC2::EIP", "AWS::EC2::NatGateway"
    edit.add("network", "VpcNatAddress1", address, Domain="vpc")
    allocation = {"Fn::GetAtt": [edit.find("network", address, "VpcNatAddress1")[0], "AllocationId"]}
    subnet = {"Ref": edit.find("network", "AWS::EC2::Subnet", "VpcPublic1")[0]}
    edit.add("network", "VpcNatGateway1", gateway, AllocationId=allocation, SubnetId=subnet)
    target = {"Fn::GetAtt": [edit.find("network", gateway, "VpcNatGateway1")[0], "NatGatewayId"]}
    edit.properties("network", "AWS::EC2::Route", "VpcPrivateDefaultRoute1")["NatGatewayId"] = target


@harmless(
    "the system's nodes have larger disks",
    Category.GROUPS,
    # EKS starts nodes with the new version of the launch template, and drains the old ones.
    expect("AWS::E", Effect.IN_PLACE, Effect.NODES_REPLACED, words=("200",)),
    worst=Effect.NODES_REPLACED,
    costs=Costs((-0.001, 0.02)),
)
def _(edit: Edit) -> None:
    data = edit.properties("eks", "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] = 200


@harmless(
    "the RayCluster has a second group of workers",
    Category.JOBS,
    expect(RAY_CLUSTER, Effect.IN_PLACE, Effect.NEEDS_ROLLOUT, words=("cpu-group",)),
    worst=Effect.NEEDS_ROLLOUT,
    costs=SAME,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        more = copy.deepcopy(cluster["spec"]["workerGroupSpecs"][0])
        more |= {"groupName": "cpu-group", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "rayStartParams": {}}
        spec = more["template"]["spec"]
        spec["nodeSelector"] = {"sagemaker.amazonaws.com/instance-group-name": "head-group"}
        amounts = {"cpu": "2", "memory": "8Gi"}
        spec["containers"][0]["resources"] = {"requests": amounts, "limits": dict(amounts)}
        cluster["spec"]["workerGroupSpecs"].append(more)
