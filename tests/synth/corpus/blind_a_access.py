"""Pairs by an author who had not seen the judges, the open half: who may enter, and what reaches what."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import OBSERVED, WATCHED, in_chart
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

WIDER, LOOSER, PUBLIC = Danger.WIDER_PERMISSIONS, Danger.LOOSER_ISOLATION, Danger.PUBLIC_ENDPOINT
ENTRY = "AWS::EKS::AccessEntry"
GRAFANA = "AWS::Grafana::Workspace"


def _variable(edit: Edit, name: str, value: str) -> None:
    def changed(deployment: Any) -> None:
        env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        env[:] = [*(each for each in env if each["name"] != name), {"name": name, "value": value}]

    in_chart(edit, "Deployment", "grafana", changed)


@destructive(
    "whoever reaches Grafana in the cluster is its administrator",
    Category.PERMISSIONS,
    expect(
        "Deployment prometheus-system/grafana",
        Effect.IN_PLACE,
        dangers=(WIDER, LOOSER, Danger.RUNS_CODE),
        words=("GF_AUTH_ANONYMOUS_ORG_ROLE", "Admin"),
    ),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _variable(edit, "GF_AUTH_ANONYMOUS_ORG_ROLE", "Admin")


@destructive(
    "the whole Internet reaches Grafana's pages",
    Category.NETWORK,
    # A workspace without network access control accepts traffic from everywhere.
    expect(f"{GRAFANA} GrafanaWorkspace", Effect.IN_PLACE, dangers=PUBLIC, words=("NetworkAccessControl",)),
    environment=OBSERVED,
)
def _(edit: Edit) -> None:
    del edit.properties("ray", GRAFANA)["NetworkAccessControl"]


@destructive(
    "submitters may edit each kind in their namespace",
    Category.PERMISSIONS,
    expect(f"{ENTRY} AccessSubmitter", Effect.IN_PLACE, dangers=WIDER, words=("AmazonEKSEditPolicy",)),
)
def _(edit: Edit) -> None:
    entry = edit.properties("eks", ENTRY, "AccessSubmitterRaySubmitter")
    entry["AccessPolicies"][0]["PolicyArn"] = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSEditPolicy"


@destructive(
    "submitters may write roles that allow more than they may",
    Category.PERMISSIONS,
    expect("Role ray/submitters", Effect.IN_PLACE, dangers=WIDER, words=("escalate", "roles")),
)
def _(edit: Edit) -> None:
    rule = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "escalate"]}
    with edit.object("ray", "Role", "ray/submitters") as role:
        role["rules"].append(rule)


@destructive(
    "the reaper may act as each account",
    Category.PERMISSIONS,
    expect("ClusterRole kuberay-ray-reaper", Effect.IN_PLACE, dangers=WIDER, words=("impersonate",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ClusterRole", "kuberay-ray-reaper") as role:
        role["rules"].append({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]})


@destructive(
    "Ray's account takes another role of the account",
    Category.PERMISSIONS,
    expect("ServiceAccount ray/ray", Effect.IN_PLACE, dangers=WIDER, words=("role/Deployer",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ServiceAccount", "ray/ray") as account:
        account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] = "arn:aws:iam::111122223333:role/Deployer"


@destructive(
    "the operator's namespace is less restricted",
    Category.ISOLATION,
    expect("Namespace kuberay", Effect.IN_PLACE, dangers=LOOSER, words=("restricted", "baseline")),
)
def _(edit: Edit) -> None:
    with edit.object("platform", "Namespace", "kuberay") as namespace:
        namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "baseline"


@destructive(
    "each pod of the operator's namespace reaches the heads",
    Category.ISOLATION,
    expect("NetworkPolicy ray/allow-operator", Effect.IN_PLACE, dangers=LOOSER, words=("8265",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-operator") as policy:
        del policy["spec"]["ingress"][0]["from"][0]["podSelector"]


@harmless("fewer addresses reach Grafana's pages", Category.NETWORK, worst=Effect.IN_PLACE, environment=OBSERVED)
def _(edit: Edit) -> None:
    edit.properties("ray", "AWS::EC2::PrefixList")["Entries"][0]["Cidr"] = "203.0.113.0/25"


@harmless("the access of administrators gets a tag", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("eks", ENTRY, "AccessAdminPlatformAdmin")["Tags"] = [{"Key": "team", "Value": "platform"}]


@harmless("one address reaches the EKS endpoint", Category.NETWORK, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EKS::Cluster")["ResourcesVpcConfig"]["PublicAccessCidrs"] = ["203.0.113.7/32"]


@harmless("submitters may no longer run commands in pods", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/submitters") as role:
        [rule] = [each for each in role["rules"] if "pods/exec" in each["resources"]]
        rule["resources"].remove("pods/exec")


@harmless("the namespace of Ray names its team", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "Namespace", "ray") as namespace:
        namespace["metadata"]["labels"]["team"] = "ml"


@harmless("heads are reached by one port less", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-dashboard-charts") as policy:
        policy["spec"]["egress"][0]["ports"].pop()


@harmless("the operator's pods of one label only are reached for metrics", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("platform", "NetworkPolicy", "kuberay/allow-metrics") as policy:
        policy["spec"]["podSelector"] = {"matchLabels": {"app.kubernetes.io/name": "kuberay-operator"}}


@harmless("Ray's pods reach HTTPS of the network only", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-https") as policy:
        policy["spec"]["egress"][0]["to"][0]["ipBlock"] = {"cidr": "10.192.0.0/16"}
