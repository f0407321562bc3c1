"""Pairs that were kept aside until the judges were complete: objects, jobs, texts that run, what no rule knows."""

import copy
import json
from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import CASES, Case, Category, Document, destructive, expect, harmless
from tests.synth.corpus.editing import Edit, after_line

LOOSER = Danger.LOOSER_ISOLATION
RUNS = Danger.RUNS_CODE
SCRIPT = "on_create_main.sh"
ENDED = (Effect.ENDS_JOBS, Effect.DELETED)
CRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: rayclusters.ray.io\n"


def _reaper(edit: Edit) -> Any:
    return edit.object("ray", "Deployment", "kuberay/ray-reaper")


# Isolation


@destructive(
    "a pod of the reaper mounts a directory of its node",
    Category.ISOLATION,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=LOOSER, words=("hostPath",)),
)
def _(edit: Edit) -> None:
    with _reaper(edit) as deployment:
        pod = deployment["spec"]["template"]["spec"]
        pod["volumes"] = [*pod.get("volumes", []), {"name": "node", "hostPath": {"path": "/"}}]


@destructive(
    "the Helm values of the operator let it run as root",
    Category.ISOLATION,
    expect("", Effect.IN_PLACE, dangers=LOOSER, words=("runAsNonRoot",)),
)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        assert values["podSecurityContext"].pop("runAsNonRoot") is True


@destructive(
    "a NetworkPolicy selects no pod any more",
    Category.ISOLATION,
    # The pods stay, and nothing denies what they send and receive.
    expect("NetworkPolicy ray-volume/closed", Effect.IN_PLACE, dangers=LOOSER),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray-volume/closed") as policy:
        policy["spec"]["podSelector"] = {"matchLabels": {"app": "nothing"}}


@harmless("a NetworkPolicy lets in from fewer pods", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-metrics") as policy:
        [source] = policy["spec"]["ingress"][0]["from"]
        source["podSelector"] = {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}


@harmless("an object has another annotation", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "ResourceQuota", "ray/project") as quota:
        quota["metadata"]["annotations"] = {"owner": "platform"}


@harmless("a manifest's objects are in another order", Category.ISOLATION, worst=Effect.NOTHING)
def _(edit: Edit) -> None:
    with edit.objects("ray", "NetworkPolicy", "ray/allow-dns") as objects:
        objects.reverse()


@harmless("a quota is new for the pods of Ray", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "ResourceQuota", "ray/project") as quota:
        quota["spec"]["hard"]["pods"] = "200"


@harmless("the range of a NetworkPolicy is narrower", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-https") as policy:
        [egress] = policy["spec"]["egress"]
        egress["to"][0]["ipBlock"]["except"].append("10.192.0.0/24")


# Network


def _service(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "dashboard", "namespace": "ray"}
    spec = {"selector": {"ray.io/cluster": "rayml"}, "ports": [{"port": 8265}]} | spec
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


@destructive(
    "a service of the dashboard becomes a load balancer",
    Category.NETWORK,
    expect("Service ray/dashboard", Effect.IN_PLACE, dangers=Danger.PUBLIC_ENDPOINT, words=("LoadBalancer",)),
    prepare=lambda edit: edit.apply("ray", "Dashboard", _service(type="ClusterIP")),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Service", "ray/dashboard") as service:
        service["spec"]["type"] = "LoadBalancer"


@harmless(
    "a service within the cluster is new",
    Category.NETWORK,
    expect("Service ray/dashboard", Effect.CREATED),
    worst=Effect.CREATED,
)
def _(edit: Edit) -> None:
    edit.apply("ray", "Dashboard", _service(type="ClusterIP"))


# Permissions


@destructive(
    "the ClusterRole of the reaper is bound to every user",
    Category.PERMISSIONS,
    expect(
        "ClusterRoleBinding ",
        Effect.IN_PLACE,
        dangers=Danger.WIDER_PERMISSIONS,
        words=("kuberay-ray-reaper", "system:authenticated"),
    ),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ClusterRoleBinding", "kuberay-ray-reaper") as binding:
        group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
        binding["subjects"].append(group)


@harmless(
    "the viewers may no longer read logs",
    Category.PERMISSIONS,
    expect("Role ray/ray-viewers", Effect.IN_PLACE, words=("pods/log",)),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/ray-viewers") as role:
        [rule] = [each for each in role["rules"] if "pods/log" in each["resources"]]
        rule["resources"].remove("pods/log")


@harmless("the verbs of a Role are in another order", Category.PERMISSIONS, worst=Effect.NOTHING)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/submitters") as role:
        role["rules"][0]["verbs"].reverse()


# Jobs


@destructive(
    "the RayCluster is removed",
    Category.JOBS,
    expect("RayCluster ray/rayml", *ENDED, dangers=Danger.JOBS_REMOVED, words=("rayml",)),
)
def _(edit: Edit) -> None:
    edit.delete_manifest("ray", "RayCluster", "ray/rayml")


@destructive(
    "the manifest of the RayCluster gets another construct id",
    Category.JOBS,
    # CDK's handler runs `kubectl create` for a new manifest, which refuses an object that exists.
    expect("RayCluster ray/rayml", *ENDED, Effect.REFUSED, dangers=Danger.JOBS_REMOVED, words=("rayml",)),
)
def _(edit: Edit) -> None:
    id = edit.manifest_of("ray", "RayCluster", "ray/rayml")
    text = json.dumps(edit.templates["ray"])
    edit.templates["ray"] = json.loads(text.replace(f'"{id}"', '"TrainingCluster0A1B2C3D"'))


def _with_kind(edit: Edit) -> None:
    # The stand-in chart's file has no name.
    edit.rewrite("files/rayclusters.yaml", lambda _: CRD + "spec:\n  group: ray.io\n")


@destructive(
    "the release of KubeRay's kinds lacks the kind of RayClusters",
    Category.JOBS,
    expect(
        "CustomResourceDefinition ",
        *ENDED,
        Effect.DATA_LOST,
        dangers=(Danger.JOBS_REMOVED, Danger.DATA_LOSS),
        words=("rayclusters.ray.io",),
    ),
    prepare=_with_kind,
)
def _(edit: Edit) -> None:
    edit.rewrite("files/rayclusters.yaml", lambda _: "")


def _package(document: Document) -> None:
    document["image"]["pip"] = ["wandb==0.19.1"]


CASES.append(
    Case(
        "the environment's file adds a package to the image",
        Category.JOBS,
        False,
        (expect("RayCluster ray/rayml", Effect.NEEDS_ROLLOUT, words=("image", "ops rollout rayml")),),
        # The builder's role names its context and its log by their hashes: the old ones go as the new ones come, and
        # it allows no more than before. The job that builds the image has a hash in its name: the old, done one goes.
        Effect.DELETED,
        file=_package,
    )
)


@harmless(
    "the RayCluster may have more workers",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.IN_PLACE, Effect.NEEDS_ROLLOUT),
    worst=Effect.NEEDS_ROLLOUT,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        cluster["spec"]["workerGroupSpecs"][0]["maxReplicas"] += 2


@harmless(
    "there is one more group of workers in the RayCluster",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.IN_PLACE, Effect.NEEDS_ROLLOUT),
    worst=Effect.NEEDS_ROLLOUT,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        groups = cluster["spec"]["workerGroupSpecs"]
        groups.append(copy.deepcopy(groups[0]) | {"groupName": "more", "replicas": 0, "minReplicas": 0})


# Unknown


@destructive(
    "an object that was known has a field that no schema has",
    Category.UNKNOWN,
    expect("NetworkPolicy ray/default-deny", Effect.UNKNOWN, dangers=Danger.UNKNOWN, words=("bypass",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/default-deny") as policy:
        policy["spec"]["bypass"] = {"namespaces": ["kuberay"]}


@destructive(
    "a custom resource of a provider that the project lacks",
    Category.UNKNOWN,
    expect("Custom::Purge ", Effect.UNKNOWN, dangers=Danger.UNKNOWN, words=("Custom::Purge",)),
)
def _(edit: Edit) -> None:
    token = edit.properties("hyperpod", "Custom::HyperPodCluster")["ServiceToken"]
    edit.add("hyperpod", "Purge", "Custom::Purge", ServiceToken=token, Days=3)


@harmless("a topic is new, whose type the project knows", Category.UNKNOWN, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    key = edit.properties("hyperpod", "AWS::SNS::Topic")["KmsMasterKeyId"]
    edit.add("hyperpod", "Alarms", "AWS::SNS::Topic", DisplayName="Alarms", KmsMasterKeyId=key)


# Scripts


@destructive(
    "a probe of the reaper decodes what it runs",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=RUNS, words=("base64",)),
)
def _(edit: Edit) -> None:
    with _reaper(edit) as deployment:
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        run = "echo cm0gLXJmIC9mc3gK | base64 -d | sh"
        container["livenessProbe"] = {"exec": {"command": ["sh", "-c", run]}}


@destructive(
    "the script of a ConfigMap opens the node's firewall",
    Category.SCRIPTS,
    expect("ConfigMap ray/tools", Effect.IN_PLACE, dangers=RUNS, words=("iptables",)),
    prepare=lambda edit: edit.apply("ray", "Tools", _tools("echo ready\n")),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ConfigMap", "ray/tools") as tools:
        tools["data"]["start.sh"] += "iptables -P INPUT ACCEPT\n"


def _tools(script: str) -> dict[str, Any]:
    metadata = {"name": "tools", "namespace": "ray"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"start.sh": script}}


@harmless(
    "the script of a ConfigMap says more",
    Category.SCRIPTS,
    worst=Effect.IN_PLACE,
    prepare=lambda edit: edit.apply("ray", "Tools", _tools("echo ready\n")),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ConfigMap", "ray/tools") as tools:
        tools["data"]["start.sh"] += "date\n"


@harmless(
    "a lifecycle script loses a line that removes files",
    Category.SCRIPTS,
    worst=Effect.IN_PLACE,
    prepare=lambda edit: edit.rewrite(SCRIPT, after_line("set -euo pipefail", "rm -rf /opt/old")),
)
def _(edit: Edit) -> None:
    edit.rewrite(SCRIPT, lambda text: text.replace("rm -rf /opt/old\n", ""))


@harmless("another file of the HyperPod handler has other code", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.rewrite("hyperpod_cluster/failure.py", lambda text: f"{text}\n_WIDTH = 80\n")


@harmless("an alarm is new, whose type only the schemas know", Category.UNKNOWN, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    alarm = {"MetricName": "FreeDataStorageCapacity", "Namespace": "AWS/FSx", "Statistic": "Minimum"}
    limits = {"ComparisonOperator": "LessThanThreshold", "EvaluationPeriods": 1, "Period": 300, "Threshold": 1e11}
    edit.add("hyperpod", "FullDisk", "AWS::CloudWatch::Alarm", **alarm, **limits)
