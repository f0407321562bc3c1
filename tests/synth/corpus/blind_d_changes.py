"""Pairs by a fourth author who had not seen the judges: what becomes of data, clusters, groups and jobs."""

import json
from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit, reverse_keys

LOST, LOWER, ENDED, UNKNOWN = Danger.DATA_LOSS, Danger.LOWER_PROTECTION, Danger.JOBS_ENDED, Danger.UNKNOWN
Body = dict[str, Any]


def _groups(edit: Edit) -> list[Body]:
    """Return the instance groups of the HyperPod cluster."""
    groups: list[Body] = edit.properties("hyperpod", "Custom::HyperPodCluster")["InstanceGroups"]
    return groups


def _rules(edit: Edit) -> list[Body]:
    """Return the lifecycle rules of the data bucket."""
    rules: list[Body] = edit.properties("storage", "AWS::S3::Bucket", "Data")["LifecycleConfiguration"]["Rules"]
    return rules


@destructive(
    "the file system gets a key of its own",
    Category.DATA,
    expect("AWS::FSx::FileSystem", Effect.DATA_LOST, dangers=LOST, words=("kmskeyid",)),
)
def _(edit: Edit) -> None:
    key = "arn:aws:kms:us-west-2:111122223333:key/1b2c3d4e-5f60-4718-9a2b-3c4d5e6f7081"
    edit.properties("storage", "AWS::FSx::FileSystem")["KmsKeyId"] = key


@destructive(
    "the file system gets one more security group",
    Category.DATA,
    expect("AWS::FSx::FileSystem", Effect.DATA_LOST, dangers=LOST),
    environment="small",
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["SecurityGroupIds"].append("sg-0a1b2c3d4e5f60718")


@destructive(
    "all of Ray's results expire, not only its packages",
    Category.DATA,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE, Effect.DATA_LOST, dangers=(LOST, LOWER)),
)
def _(edit: Edit) -> None:
    [rule] = [each for each in _rules(edit) if "ExpirationInDays" in each]
    assert rule["Prefix"] == "ray/packages/"
    rule["Prefix"] = "ray/"


def _sleeping(edit: Edit) -> None:
    _rules(edit).append({"Id": "clean-up", "ExpirationInDays": 30, "Status": "Disabled"})


@destructive(
    "a sleeping rule that expires the whole bucket is switched on",
    Category.DATA,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE, Effect.DATA_LOST, dangers=(LOST, LOWER)),
    environment="prod",
    prepare=_sleeping,
)
def _(edit: Edit) -> None:
    _rules(edit)[-1]["Status"] = "Enabled"


@destructive(
    "the image repository expires images with tags",
    Category.DATA,
    expect("AWS::ECR::Repository", Effect.IN_PLACE, Effect.DATA_LOST, dangers=(LOST, LOWER)),
    environment="prod",
)
def _(edit: Edit) -> None:
    policy = edit.properties("storage", "AWS::ECR::Repository")["LifecyclePolicy"]
    assert '"tagStatus":"untagged"' in policy["LifecyclePolicyText"]
    policy["LifecyclePolicyText"] = policy["LifecyclePolicyText"].replace('"untagged"', '"any"')


@destructive(
    "the control plane's log group gets another name",
    Category.DATA,
    expect("AWS::Logs::LogGroup ClusterLog", Effect.DATA_LOST, Effect.REPLACED, dangers=(LOST, LOWER)),
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::Logs::LogGroup", "ClusterLog")["LogGroupName"] = "/ml-platform/eks/control-plane"


@destructive(
    "the Prometheus workspace gets a key of its own",
    Category.DATA,
    expect("AWS::APS::Workspace", Effect.DATA_LOST, Effect.REPLACED, Effect.UNKNOWN, dangers=(LOST, LOWER, UNKNOWN)),
    environment="observed",
)
def _(edit: Edit) -> None:
    key = "arn:aws:kms:us-west-2:111122223333:key/2c3d4e5f-6071-4829-8b3c-4d5e6f708192"
    edit.properties("ray", "AWS::APS::Workspace")["KmsKeyArn"] = key


@destructive(
    "a replaced file system of production is deleted",
    Category.PROTECTION,
    expect("AWS::FSx::FileSystem", Effect.IN_PLACE, Effect.NOTHING, dangers=(LOWER, LOST)),
    environment="prod",
)
def _(edit: Edit) -> None:
    del edit.find("storage", "AWS::FSx::FileSystem")[1]["UpdateReplacePolicy"]


@destructive(
    "the assembly no longer states that a stack of production is protected",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.NOTHING, dangers=LOWER),
    environment="prod",
)
def _(edit: Edit) -> None:
    parts = [part for part in edit.templates if edit.settings(part)["terminationProtection"]]
    del edit.settings(parts[0])["terminationProtection"]


@destructive(
    "the FSx volume is deleted with its claim",
    Category.DATA,
    expect("PersistentVolume", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOST, LOWER, UNKNOWN), words=("delete",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "PersistentVolume", "ray-fsx-claim") as volume:
        volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete"


@destructive(
    "the cluster's services get addresses that somebody chose",
    Category.CLUSTERS,
    expect("AWS::EKS::Cluster", Effect.REPLACED, Effect.DATA_LOST, Effect.REFUSED, dangers=(Danger.CLUSTER_LOSS, LOST)),
)
def _(edit: Edit) -> None:
    network = edit.properties("eks", "AWS::EKS::Cluster")["KubernetesNetworkConfig"]
    network["ServiceIpv4Cidr"] = "172.20.0.0/16"


@destructive(
    "who created the EKS cluster becomes its administrator",
    Category.CLUSTERS,
    expect(
        "AWS::EKS::Cluster",
        Effect.REPLACED,
        Effect.DATA_LOST,
        Effect.REFUSED,
        dangers=(Danger.CLUSTER_LOSS, Danger.WIDER_PERMISSIONS, LOST),
    ),
    environment="closed",
)
def _(edit: Edit) -> None:
    access = edit.properties("eks", "AWS::EKS::Cluster")["AccessConfig"]
    access["BootstrapClusterCreatorAdminPermissions"] = True


@destructive(
    "the HyperPod cluster leaves its template",
    Category.CLUSTERS,
    expect("", Effect.DELETED, Effect.DATA_LOST, Effect.ENDS_JOBS, Effect.NODES_REMOVED, dangers=Danger.CLUSTER_LOSS),
    environment="slurm",
)
def _(edit: Edit) -> None:
    edit.delete("hyperpod", "Custom::HyperPodCluster")


@destructive(
    "the Slurm cluster loses its login nodes",
    Category.GROUPS,
    expect(
        "InstanceGroup login-group",
        Effect.NODES_REMOVED,
        Effect.DELETED,
        Effect.REFUSED,
        dangers=(Danger.GROUP_REMOVED, ENDED),
        words=("login-group",),
    ),
    environment="slurm",
)
def _(edit: Edit) -> None:
    _groups(edit)[:] = [each for each in _groups(edit) if each["InstanceGroupName"] != "login-group"]


@destructive(
    "one Slurm worker is removed",
    Category.GROUPS,
    expect("InstanceGroup worker-group-1", Effect.NODES_REMOVED, dangers=ENDED),
    environment="budgeted",
)
def _(edit: Edit) -> None:
    [group] = [each for each in _groups(edit) if each["InstanceGroupName"] == "worker-group-1"]
    group["InstanceCount"] -= 1


@destructive(
    "the most workers of a group are fewer than run",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.ENDS_JOBS, Effect.IN_PLACE, Effect.REFUSED, dangers=ENDED),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["spec"]["workerGroupSpecs"][0]["maxReplicas"] = 2


@destructive(
    "two Ray workers are named for deletion",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.ENDS_JOBS, Effect.UNKNOWN, Effect.IN_PLACE, dangers=(ENDED, UNKNOWN)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        pods = ["rayml-gpu-group-worker-7x2kq", "rayml-gpu-group-worker-m9d4z"]
        cluster["spec"]["workerGroupSpecs"][0]["scaleStrategy"] = {"workersToDelete": pods}


@destructive(
    "the RayCluster of production is suspended",
    Category.JOBS,
    expect(
        "RayCluster ray/rayml",
        Effect.ENDS_JOBS,
        Effect.DELETED,
        Effect.UNKNOWN,
        dangers=(ENDED, Danger.JOBS_REMOVED, UNKNOWN),
        words=("suspend",),
    ),
    environment="prod",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["spec"]["suspend"] = True


@destructive(
    "new pods without a priority evict Ray's",
    Category.JOBS,
    expect(
        "PriorityClass",
        Effect.CREATED,
        Effect.UNKNOWN,
        Effect.ENDS_JOBS,
        dangers=(ENDED, Danger.LOOSER_ISOLATION, LOWER, UNKNOWN),
    ),
)
def _(edit: Edit) -> None:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "services"}}
    edit.apply("ray", "Services", kind | {"value": 1_000_000, "globalDefault": True})


def _queue(edit: Edit) -> None:
    quota = {"name": "nvidia.com/gpu", "nominalQuota": 32}
    flavor = {"name": "p5", "resources": [quota]}
    spec = {
        "cohort": "training",
        "namespaceSelector": {},
        "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
        "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [flavor]}],
    }
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "ray"}}
    edit.apply("ray", "Queue", kind | {"spec": spec})


@destructive(
    "a queue may end the jobs of its cohort",
    Category.UNKNOWN,
    expect("ClusterQueue", Effect.UNKNOWN, Effect.ENDS_JOBS, Effect.IN_PLACE, dangers=(ENDED, UNKNOWN)),
    prepare=_queue,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ClusterQueue", "ray") as queue:
        queue["spec"]["preemption"]["reclaimWithinCohort"] = "Any"


@harmless(
    "Ray's packages expire after a year",
    Category.DATA,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    [rule] = [each for each in _rules(edit) if "ExpirationInDays" in each]
    rule["ExpirationInDays"] = 365


@harmless(
    "old versions of the data bucket's objects stay longer",
    Category.DATA,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="prod",
)
def _(edit: Edit) -> None:
    for rule in _rules(edit):
        if "NoncurrentVersionExpiration" in rule:
            rule["NoncurrentVersionExpiration"]["NoncurrentDays"] += 30


@harmless(
    "a rule that expires packages is switched off",
    Category.DATA,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="closed",
)
def _(edit: Edit) -> None:
    [rule] = [each for each in _rules(edit) if "ExpirationInDays" in each]
    rule["Status"] = "Disabled"


@harmless(
    "layers without a tag stay a month",
    Category.DATA,
    expect("AWS::ECR::Repository", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    policy = edit.properties("storage", "AWS::ECR::Repository")["LifecyclePolicy"]
    assert '"countNumber":14' in policy["LifecyclePolicyText"]
    policy["LifecyclePolicyText"] = policy["LifecyclePolicyText"].replace('"countNumber":14', '"countNumber":30')


@harmless(
    "the text of the images' lifecycle policy is indented", Category.DATA, worst=Effect.IN_PLACE, environment="prod"
)
def _(edit: Edit) -> None:
    policy = edit.properties("storage", "AWS::ECR::Repository")["LifecyclePolicy"]
    policy["LifecyclePolicyText"] = json.dumps(json.loads(policy["LifecyclePolicyText"]), indent=2)


@harmless(
    "the file system gets a tag of its owner",
    Category.DATA,
    expect("AWS::FSx::FileSystem", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["Tags"] = [{"Key": "owner", "Value": "ml-platform"}]


@harmless(
    "the file system is backed up every day",
    Category.DATA,
    expect("AWS::FSx::FileSystem", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="small",
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["LustreConfiguration"]["AutomaticBackupRetentionDays"] = 14


@harmless(
    "a development bucket outlives its stack",
    Category.PROTECTION,
    expect("AWS::S3::Bucket Lifecycle", Effect.IN_PLACE, Effect.NOTHING),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    body = edit.find("storage", "AWS::S3::Bucket", "Lifecycle")[1]
    body["DeletionPolicy"] = body["UpdateReplacePolicy"] = "Retain"


@harmless("a stack of development gets termination protection", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.settings("storage")["terminationProtection"] = True


@harmless(
    "the EKS cluster cannot be deleted by mistake",
    Category.CLUSTERS,
    expect("AWS::EKS::Cluster", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="prod",
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EKS::Cluster")["DeletionProtection"] = True


@harmless("the HyperPod cluster gets a tag of its owner", Category.CLUSTERS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    tags = edit.properties("hyperpod", "Custom::HyperPodCluster")["Tags"]
    tags.append({"Key": "owner", "Value": "ml-platform"})


@harmless("the kinds of the control plane's logs are in another order", Category.CLUSTERS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EKS::Cluster")["Logging"]["ClusterLogging"]["EnabledTypes"].reverse()


@harmless("instance groups are in another order", Category.GROUPS, worst=Effect.IN_PLACE, environment="prod")
def _(edit: Edit) -> None:
    _groups(edit).reverse()


@harmless("deep health checks are in another order", Category.GROUPS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    _groups(edit)[1]["OnStartDeepHealthChecks"].reverse()


@harmless(
    "a group of workers may grow further",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["spec"]["workerGroupSpecs"][0]["maxReplicas"] = 12


@harmless(
    "a group keeps two workers at least",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="prod",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["spec"]["workerGroupSpecs"][0]["minReplicas"] = 2


@harmless("the keys of Ray's objects are in another order", Category.JOBS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.objects("ray", "RayCluster", "ray/rayml") as objects:
        objects[:] = [reverse_keys(each) for each in objects]


@harmless("the RayCluster's objects get a label of the team", Category.JOBS, worst=Effect.IN_PLACE, environment="small")
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["metadata"]["labels"]["team"] = "ml-platform"


@harmless(
    "the next pods of Ray's workers log more of NCCL",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.NEEDS_ROLLOUT, Effect.IN_PLACE),
    worst=Effect.NEEDS_ROLLOUT,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        [container] = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
        container["env"].append({"name": "NCCL_DEBUG", "value": "INFO"})


@harmless("a parameter of SSM has metadata for people", Category.UNKNOWN, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    body = edit.find("eks", "AWS::SSM::Parameter")[1]
    body["Metadata"] = body.get("Metadata", {}) | {"owner": "ml-platform"}


@harmless("a template says what it is for", Category.UNKNOWN, worst=Effect.IN_PLACE, environment="closed")
def _(edit: Edit) -> None:
    edit.templates["storage"]["Description"] = "File system, buckets and images of the platform"
