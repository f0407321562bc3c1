"""Pairs by which somebody tries to pass a review: code, places of code, roles, duplicates, guards that stand still."""

import copy
import json

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

FUNCTION = "AWS::Lambda::Function"
UPLOAD = "Custom::CDKBucketDeployment"
ELSEWHERE = "somebody-elses-bucket"
ON_EVENT = "ProviderOnEvent"
HANDLER = "hyperpod_cluster/index.py"
ASSUMED = {
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}]
}


def _role(edit: Edit, action: str, resource: object) -> None:
    statement = {"Effect": "Allow", "Action": action, "Resource": resource}
    policies = [{"PolicyName": "own", "PolicyDocument": {"Statement": [statement]}}]
    edit.add("storage", "Helper", "AWS::IAM::Role", AssumeRolePolicyDocument=ASSUMED, Policies=policies)


# Functions


@destructive(
    "the code of the cluster's function deletes file systems",
    Category.SCRIPTS,
    expect(f"{FUNCTION} {ON_EVENT}", Effect.IN_PLACE, dangers=Danger.RUNS_CODE, words=("delete_file_system",)),
)
def _(edit: Edit) -> None:
    edit.rewrite(HANDLER, lambda text: f"{text}\nboto3.client('fsx').delete_file_system(FileSystemId='fs-1')\n")


@harmless(
    "the code of the cluster's function gets a constant",
    Category.SCRIPTS,
    expect(f"{FUNCTION} {ON_EVENT}", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.rewrite(HANDLER, lambda text: f"{text}\n_UNUSED = 1\n")


@destructive(
    "a function's code of the same name comes from another bucket",
    Category.SCRIPTS,
    expect(f"{FUNCTION} {ON_EVENT}", Effect.IN_PLACE, dangers=Danger.RUNS_CODE),
)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", FUNCTION, ON_EVENT)["Code"]["S3Bucket"] = ELSEWHERE


@harmless("a function gets more memory", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", FUNCTION, ON_EVENT)["MemorySize"] = 512


@destructive(
    "a function acts with another function's role",
    Category.PERMISSIONS,
    expect(f"{FUNCTION} {ON_EVENT}", Effect.IN_PLACE, dangers=Danger.WIDER_PERMISSIONS),
)
def _(edit: Edit) -> None:
    other = edit.properties("hyperpod", FUNCTION, "ProviderIsComplete")
    edit.properties("hyperpod", FUNCTION, ON_EVENT)["Role"] = other["Role"]


@harmless("a function gets more time", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", FUNCTION, ON_EVENT)["Timeout"] = 170


# Places of charts and scripts


@destructive(
    "the lifecycle scripts of the same name come from another bucket",
    Category.SCRIPTS,
    expect("LifecycleScripts", Effect.UNKNOWN, dangers=Danger.RUNS_CODE),
)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", UPLOAD)["SourceBucketNames"] = [ELSEWHERE]


@harmless("the upload of lifecycle scripts answers less", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", UPLOAD)["OutputObjectKeys"] = False


@destructive(
    "a new upload deletes all other files of the bucket of lifecycle scripts",
    Category.DATA,
    expect("LifecycleScripts", Effect.DATA_LOST, dangers=Danger.DATA_LOSS),
)
def _(edit: Edit) -> None:
    upload = copy.deepcopy(edit.properties("hyperpod", UPLOAD))
    del upload["DestinationBucketKeyPrefix"]
    edit.add("hyperpod", "Second", UPLOAD, **upload | {"Prune": True})


@harmless("a new upload keeps all other files", Category.DATA, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    upload = copy.deepcopy(edit.properties("hyperpod", UPLOAD))
    edit.add("hyperpod", "Second", UPLOAD, **upload | {"DestinationBucketKeyPrefix": "second"})


@destructive(
    "a chart of the same name comes from another bucket",
    Category.UNKNOWN,
    expect("HelmRelease kuberay/controller-code", Effect.UNKNOWN, dangers=Danger.UNKNOWN),
)
def _(edit: Edit) -> None:
    release = edit.release("ray", "controller-code")
    release["ChartAssetURL"] = f"s3://{ELSEWHERE}/{release['ChartAssetURL'].rpartition('/')[2]}"


@harmless("a release gets more time", Category.UNKNOWN, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.release("ray", "controller-code")["Timeout"] = "900s"


# New things that act on what is there


@destructive(
    "a schedule of a type without a row is new",
    Category.UNKNOWN,
    expect("AWS::Scheduler::Schedule Nightly", Effect.UNKNOWN, dangers=Danger.UNKNOWN),
)
def _(edit: Edit) -> None:
    target = {"Arn": "arn:aws:scheduler:::aws-sdk:fsx:deleteFileSystem", "RoleArn": "arn:aws:iam::111122223333:role/a"}
    edit.add("storage", "Nightly", "AWS::Scheduler::Schedule", ScheduleExpression="rate(1 day)", Target=target)


@harmless("an alarm is new", Category.UNKNOWN, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    edit.add("storage", "Full", "AWS::CloudWatch::Alarm", Threshold=1, EvaluationPeriods=1)


@destructive(
    "a new role may delete the file system",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role Helper", Effect.CREATED, dangers=Danger.WIDER_PERMISSIONS, words=("deletefilesystem",)),
)
def _(edit: Edit) -> None:
    id, _ = edit.find("storage", "AWS::FSx::FileSystem")
    _role(edit, "fsx:DeleteFileSystem", {"Fn::GetAtt": [id, "ResourceARN"]})


@harmless("a new role may write objects", Category.PERMISSIONS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    id, _ = edit.find("storage", "AWS::S3::Bucket", "Lifecycle")
    _role(edit, "s3:PutObject", {"Fn::Join": ["", [{"Fn::GetAtt": [id, "Arn"]}, "/*"]]})


# Accounts, nodes


@destructive(
    "a stack goes to another region with the same deploy role",
    Category.CLUSTERS,
    expect("Stack storage", Effect.UNKNOWN, dangers=Danger.CLUSTER_LOSS),
)
def _(edit: Edit) -> None:
    edit.manifest["artifacts"][edit.stack("storage")]["environment"] = "aws://111122223333/eu-west-1"


@harmless("a stack gets a tag", Category.CLUSTERS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.settings("storage")["tags"] = {"cost-center": "1"}


@destructive(
    "the nodes of the system get another machine image",
    Category.SCRIPTS,
    expect("AWS::EC2::LaunchTemplate", Effect.IN_PLACE, Effect.NODES_REPLACED, dangers=Danger.RUNS_CODE),
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["ImageId"] = "ami-0123456789abcdef0"


@harmless("the volumes of the system's nodes are monitored", Category.SCRIPTS, worst=Effect.NODES_REPLACED)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["Monitoring"] = {"Enabled": True}


# Kubernetes


@destructive(
    "a second text of a namespace stands in another manifest",
    Category.ISOLATION,
    expect("Namespace ray", Effect.UNKNOWN, dangers=Danger.UNKNOWN),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Namespace", "ray") as namespace:
        second = json.loads(json.dumps(namespace))
    second["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "baseline"
    with edit.objects("ray", "NetworkPolicy", "ray/default-deny") as objects:
        objects.append(second)


@harmless("a ConfigMap stands in another manifest", Category.ISOLATION, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    with edit.objects("ray", "NetworkPolicy", "ray/default-deny") as objects:
        objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ray"}})


@destructive(
    "the reaper has no replicas",
    Category.PROTECTION,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=Danger.LOWER_PROTECTION),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", "kuberay/ray-reaper") as reaper:
        reaper["spec"]["replicas"] = 0


@harmless("the reaper has one replica more", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", "kuberay/ray-reaper") as reaper:
        reaper["spec"]["replicas"] = 3


@destructive(
    "the template that copies a chart's files gets an object of its own",
    Category.PERMISSIONS,
    expect("", Effect.CREATED, Effect.UNKNOWN, dangers=(Danger.WIDER_PERMISSIONS, Danger.UNKNOWN)),
)
def _(edit: Edit) -> None:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "second"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "ray", "namespace": "ray"}],
    }
    edit.rewrite("templates/objects.yaml", lambda text: f"{text}---\n{json.dumps(binding)}\n")


@harmless("the job supervisor keeps more Jobs", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "CronJob", "ray/job-supervisor") as supervisor:
        supervisor["spec"]["failedJobsHistoryLimit"] = 5
