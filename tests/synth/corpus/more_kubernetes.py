"""Pairs that were kept aside until the rules were complete: isolation, network, permissions, what no rule knows."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

LOOSER = Danger.LOOSER_ISOLATION


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
