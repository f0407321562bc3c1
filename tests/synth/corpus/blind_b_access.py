"""Pairs by an author who had not seen the judges, the held-out half: who may enter, and what reaches what."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import OBSERVED, WATCHED
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

WIDER, LOOSER, PUBLIC = Danger.WIDER_PERMISSIONS, Danger.LOOSER_ISOLATION, Danger.PUBLIC_ENDPOINT
ENTRY = "AWS::EKS::AccessEntry"
GRAFANA = "AWS::Grafana::Workspace"


@destructive(
    "all addresses are in the list of Grafana's networks",
    Category.NETWORK,
    expect(
        "AWS::EC2::PrefixList GrafanaNetworks",
        Effect.IN_PLACE,
        dangers=(PUBLIC, Danger.OPENED_PORT),
        words=("0.0.0.0/1",),
    ),
    environment=OBSERVED,
)
def _(edit: Edit) -> None:
    entries = edit.properties("ray", "AWS::EC2::PrefixList")["Entries"]
    entries.extend({"Cidr": each, "Description": "people"} for each in ("0.0.0.0/1", "128.0.0.0/1"))


@destructive(
    "another role administers the cluster",
    Category.PERMISSIONS,
    # An access entry with another principal is another entry.
    expect(f"{ENTRY} AccessAdmin", Effect.REPLACED, words=("role/PlatformAdmin",)),
    expect(f"{ENTRY} AccessAdmin", Effect.REPLACED, Effect.IN_PLACE, dangers=WIDER, words=("role/Everybody",)),
)
def _(edit: Edit) -> None:
    entry = edit.properties("eks", ENTRY, "AccessAdminPlatformAdmin")
    entry["PrincipalArn"] = "arn:aws:iam::111122223333:role/Everybody"


@destructive(
    "a ConfigMap says who administers the cluster, too",
    Category.PERMISSIONS,
    expect(
        "AWS::EKS::Cluster Cluster",
        Effect.IN_PLACE,
        Effect.REFUSED,
        dangers=(WIDER, LOOSER),
        words=("API_AND_CONFIG_MAP",),
    ),
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EKS::Cluster")["AccessConfig"]["AuthenticationMode"] = "API_AND_CONFIG_MAP"


@destructive(
    "each account of Kubernetes may submit jobs",
    Category.PERMISSIONS,
    expect("RoleBinding ray/submitters", Effect.IN_PLACE, dangers=WIDER, words=("system:serviceaccounts",)),
)
def _(edit: Edit) -> None:
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts"}
    with edit.object("ray", "RoleBinding", "ray/submitters") as binding:
        binding["subjects"].append(group)


@destructive(
    "the reaper may do all with nodes",
    Category.PERMISSIONS,
    expect("ClusterRole kuberay-ray-reaper", Effect.IN_PLACE, dangers=WIDER, words=("everything", "nodes")),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ClusterRole", "kuberay-ray-reaper") as role:
        [rule] = [each for each in role["rules"] if "nodes" in each["resources"]]
        rule["verbs"] = ["*"]


@destructive(
    "the reaper reads what each kubelet answers",
    Category.PERMISSIONS,
    # nodes/proxy reaches the kubelet's API, which runs commands in pods.
    expect("ClusterRole kuberay-ray-reaper", Effect.IN_PLACE, dangers=WIDER, words=("nodes/proxy",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ClusterRole", "kuberay-ray-reaper") as role:
        [rule] = [each for each in role["rules"] if "nodes" in each["resources"]]
        rule["resources"].append("nodes/proxy")


@destructive(
    "the namespace of Ray no longer says how pods are restricted",
    Category.ISOLATION,
    expect("Namespace ray", Effect.IN_PLACE, dangers=LOOSER, words=("pod security", "restricted", "privileged")),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Namespace", "ray") as namespace:
        labels = namespace["metadata"]["labels"]
        namespace["metadata"]["labels"] = {
            name: value for name, value in labels.items() if not name.startswith("pod-security.kubernetes.io/enforce")
        }


@destructive(
    "pods of each namespace reach the metrics of Ray",
    Category.ISOLATION,
    expect("NetworkPolicy ray/allow-metrics", Effect.IN_PLACE, dangers=LOOSER, words=("8080",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-metrics") as policy:
        policy["spec"]["ingress"][0]["from"] = [{"namespaceSelector": {}}]


@destructive(
    "the containers of Ray get a token of the cluster",
    Category.ISOLATION,
    expect("ServiceAccount ray/ray", Effect.IN_PLACE, dangers=(LOOSER, WIDER), words=("automountServiceAccountToken",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ServiceAccount", "ray/ray") as account:
        account["automountServiceAccountToken"] = True


@destructive(
    "Alertmanager is reached at a port of each node",
    Category.NETWORK,
    expect("Service prometheus-system/alertmanager", Effect.IN_PLACE, dangers=(LOOSER, PUBLIC), words=("NodePort",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Service", "prometheus-system/alertmanager") as service:
        service["spec"]["type"] = "NodePort"


@harmless("Grafana's workspace has a description", Category.PERMISSIONS, worst=Effect.IN_PLACE, environment=OBSERVED)
def _(edit: Edit) -> None:
    edit.properties("ray", GRAFANA)["Description"] = "Metrics of the training cluster"


@harmless("an entry of Grafana's networks is described", Category.NETWORK, worst=Effect.IN_PLACE, environment=OBSERVED)
def _(edit: Edit) -> None:
    edit.properties("ray", "AWS::EC2::PrefixList")["Entries"][0]["Description"] = "the office"


@harmless("submitters lose a policy of EKS", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("eks", ENTRY, "AccessSubmitterRaySubmitter")["AccessPolicies"] = []


@harmless("the reaper may no longer watch nodes", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "ClusterRole", "kuberay-ray-reaper") as role:
        [rule] = [each for each in role["rules"] if "nodes" in each["resources"]]
        rule["verbs"].remove("watch")


@harmless("the rules of submitters are in another order", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/submitters") as role:
        role["rules"].reverse()


@harmless("the namespace of the volume is restricted more", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "Namespace", "ray-volume") as namespace:
        namespace["metadata"]["labels"]["pod-security.kubernetes.io/warn"] = "restricted"


@harmless(
    "a policy denies all traffic of a new label",
    Category.ISOLATION,
    expect("NetworkPolicy ray/closed", Effect.CREATED),
    worst=Effect.CREATED,
)
def _(edit: Edit) -> None:
    spec = {"podSelector": {"matchLabels": {"closed": "true"}}, "policyTypes": ["Ingress", "Egress"]}
    metadata = {"name": "closed", "namespace": "ray"}
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}
    edit.apply("ray", "ClosedPolicy", policy)


@harmless("the port of Alertmanager has another name", Category.NETWORK, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    with edit.object("ray", "Service", "prometheus-system/alertmanager") as service:
        service["spec"]["ports"][0]["name"] = "web"


@harmless("one peer less reaches the heads", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-operator") as policy:
        policy["spec"]["ingress"] = []


@harmless("the image build reaches the network by HTTPS only", Category.ISOLATION, worst=Effect.DELETED)
def _(edit: Edit) -> None:
    edit.remove_object("platform", "NetworkPolicy", "image-build/allow-http")


@harmless("the operator is reached for metrics by pods of one label", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("platform", "NetworkPolicy", "kuberay/allow-metrics") as policy:
        source = policy["spec"]["ingress"][0]["from"][0]
        source["podSelector"] = {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}


@harmless("the access of submitters gets a tag", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("eks", ENTRY, "AccessSubmitterRaySubmitter")["Tags"] = [{"Key": "group", "Value": "ray-submitters"}]
