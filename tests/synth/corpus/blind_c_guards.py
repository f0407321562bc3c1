"""Pairs by a third author who had not seen the judges: logs, alerts and limits that no longer hold."""

import json

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import ALARM, BUDGETED, WATCHED, group, parsed
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

LOWER, LOOSER = Danger.LOWER_PROTECTION, Danger.LOOSER_ISOLATION
RULE = "AWS::Events::Rule"
BUDGET = "AWS::Budgets::Budget"


@destructive(
    "the flow log records one public subnet instead of the VPC",
    Category.PROTECTION,
    expect("AWS::EC2::FlowLog FlowLogs", Effect.REPLACED, Effect.IN_PLACE, dangers=LOWER, words=("ResourceType",)),
)
def _(edit: Edit) -> None:
    subnet = {"Ref": edit.find("network", "AWS::EC2::Subnet", "VpcPublic0")[0]}
    edit.properties("network", "AWS::EC2::FlowLog").update(ResourceId=subnet, ResourceType="Subnet")


@destructive(
    "EKS no longer logs who did what",
    Category.PROTECTION,
    expect("AWS::EKS::Cluster Cluster", Effect.IN_PLACE, dangers=LOWER, words=("audit",)),
)
def _(edit: Edit) -> None:
    logging = edit.properties("eks", "AWS::EKS::Cluster")["Logging"]["ClusterLogging"]
    logging["EnabledTypes"].remove({"Type": "audit"})


@destructive(
    "pods get the role of the system's nodes from the metadata service",
    Category.PROTECTION,
    expect(
        "AWS::EC2::LaunchTemplate SystemNodes",
        Effect.IN_PLACE,
        Effect.NODES_REPLACED,
        dangers=(LOWER, LOOSER, Danger.WIDER_PERMISSIONS),
        words=("HttpTokens",),
    ),
)
def _(edit: Edit) -> None:
    data = edit.properties("eks", "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    data["MetadataOptions"] = {"HttpPutResponseHopLimit": 2, "HttpTokens": "optional"}


@destructive(
    "the volume of the file system is deleted with its claim",
    Category.DATA,
    expect(
        "PersistentVolume",
        Effect.IN_PLACE,
        dangers=(LOWER, Danger.DATA_LOSS),
        words=("Delete",),
    ),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "PersistentVolume", "ray-fsx-claim") as volume:
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete"


@destructive(
    "nothing enforces the NetworkPolicies",
    Category.ISOLATION,
    expect("AWS::EKS::Addon AddOn", Effect.IN_PLACE, dangers=(LOOSER, LOWER), words=("enableNetworkPolicy",)),
)
def _(edit: Edit) -> None:
    properties = edit.properties("eks", "AWS::EKS::Addon", "AddOnvpccni")
    values = json.loads(properties["ConfigurationValues"])
    properties["ConfigurationValues"] = json.dumps(values | {"enableNetworkPolicy": "false"})


@destructive(
    "Alertmanager sends alerts to a receiver that tells nobody",
    Category.PROTECTION,
    expect("ConfigMap prometheus-system/alertmanager", Effect.IN_PLACE, dangers=LOWER, words=("receiver",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    with (
        edit.object("ray", "ConfigMap", "prometheus-system/alertmanager") as config,
        parsed(config["data"], "alertmanager.yaml") as content,
    ):
        content["receivers"].append({"name": "later"})
        content["route"]["receiver"] = "later"


@destructive(
    "no message says that a node is unhealthy",
    Category.PROTECTION,
    expect(f"{RULE} Notifications", Effect.IN_PLACE, dangers=LOWER, words=("EventPattern",)),
)
def _(edit: Edit) -> None:
    kinds = edit.properties("hyperpod", RULE, "NotificationsStateAndHealth")["EventPattern"]["detail-type"]
    kinds.remove("SageMaker HyperPod Cluster Node Health Event")


def _only_stressed(edit: Edit) -> None:
    group(edit, "worker-group-1")["OnStartDeepHealthChecks"] = ["InstanceStress"]


@harmless(
    "the connections of new nodes are checked, too",
    Category.PROTECTION,
    expect("InstanceGroup worker-group-1", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    prepare=_only_stressed,
)
def _(edit: Edit) -> None:
    group(edit, "worker-group-1")["OnStartDeepHealthChecks"].append("InstanceConnectivity")


@harmless(
    "Ray's namespace may have ten CronJobs at most",
    Category.ISOLATION,
    expect("ResourceQuota ray/project", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ResourceQuota", "ray/project") as quota:
        quota["spec"]["hard"]["count/cronjobs.batch"] = "10"


@harmless(
    "a drain leaves the operator of KubeRay time to move",
    Category.PROTECTION,
    expect("PodDisruptionBudget kuberay/operator", Effect.CREATED),
    worst=Effect.CREATED,
)
def _(edit: Edit) -> None:
    selector = {"matchLabels": {"app.kubernetes.io/name": "kuberay-operator"}}
    metadata = {"name": "operator", "namespace": "kuberay"}
    spec = {"maxUnavailable": 1, "selector": selector}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    edit.apply("platform", "OperatorBudget", budget)


@harmless(
    "messages tell of warnings, too",
    Category.PROTECTION,
    expect(f"{RULE} Notifications", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    pattern = edit.properties("hyperpod", RULE, "NotificationsErrors")["EventPattern"]
    pattern["detail"]["EventDetails"]["EventLevel"].append("Warn")


@harmless(
    "the alarm of a node that is not replaced fires after a quarter of an hour",
    Category.PROTECTION,
    expect(f"{ALARM} AlarmsNodeNotReplaced", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", ALARM, "AlarmsNodeNotReplaced")["EvaluationPeriods"] = 3


@harmless(
    "the budget tells of its first half, too",
    Category.PROTECTION,
    # CloudFormation cannot change NotificationsWithSubscribers: it creates another budget, and deletes this one.
    expect(f"{BUDGET} Budget", Effect.REPLACED),
    worst=Effect.REPLACED,
    environment=BUDGETED,
)
def _(edit: Edit) -> None:
    told = edit.properties("hyperpod", BUDGET)["NotificationsWithSubscribers"]
    told.append({**told[0], "Notification": {**told[0]["Notification"], "Threshold": 50}})
