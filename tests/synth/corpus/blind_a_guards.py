"""Pairs by an author who had not seen the judges, the open half: guards that are deleted or blunted."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import ALARM, WATCHED, in_rules, parsed
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

LOWER, LOOSER = Danger.LOWER_PROTECTION, Danger.LOOSER_ISOLATION
FAILED = "AlarmsNodeFailed"


@destructive(
    "the alarm of failed nodes waits for a hundred of them",
    Category.PROTECTION,
    expect("AWS::CloudWatch::Alarm AlarmsNodeFailed", Effect.IN_PLACE, dangers=LOWER, words=("Threshold", "100")),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    assert edit.properties("ray", ALARM, FAILED)["Threshold"] == 1
    edit.properties("ray", ALARM, FAILED)["Threshold"] = 100


@destructive(
    "the alarm of failed nodes tells nobody",
    Category.PROTECTION,
    expect("AWS::CloudWatch::Alarm AlarmsNodeFailed", Effect.IN_PLACE, dangers=LOWER, words=("ActionsEnabled",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", ALARM, FAILED)["ActionsEnabled"] = False


@destructive(
    "the pager no longer gets alerts",
    Category.PROTECTION,
    expect("AWS::SNS::Subscription AlertsTopic", Effect.DELETED, dangers=LOWER, words=("subscription",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    edit.delete("ray", "AWS::SNS::Subscription", "AlertsTopichttpsalertsexamplecoma")


@destructive(
    "Alertmanager sends to a receiver that tells nobody",
    Category.PROTECTION,
    expect("ConfigMap prometheus-system/alertmanager", Effect.IN_PLACE, dangers=LOWER, words=("receiver",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    with (
        edit.object("ray", "ConfigMap", "prometheus-system/alertmanager") as config,
        parsed(config["data"], "alertmanager.yaml") as content,
    ):
        content["receivers"].append({"name": "nobody"})
        content["route"]["receiver"] = "nobody"


@destructive(
    "Prometheus no longer watches whether jobs stall",
    Category.PROTECTION,
    expect("ConfigMap prometheus-system/prometheus", Effect.IN_PLACE, dangers=LOWER, words=("JobStalled",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    def changed(rules: list[Any]) -> None:
        rules[:] = [each for each in rules if each.get("alert") != "JobStalled"]

    in_rules(edit, changed)


@destructive(
    "the rule that tells of the cluster's errors is switched off",
    Category.PROTECTION,
    expect("AWS::Events::Rule NotificationsErrors", Effect.IN_PLACE, dangers=LOWER, words=("DISABLED",)),
)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", "AWS::Events::Rule", "NotificationsErrors")["State"] = "DISABLED"


@destructive(
    "the flow log records rejected traffic only",
    Category.PROTECTION,
    # CloudFormation replaces a flow log whose type of traffic differs.
    expect("AWS::EC2::FlowLog FlowLogs", Effect.REPLACED, Effect.IN_PLACE, dangers=LOWER, words=("REJECT",)),
)
def _(edit: Edit) -> None:
    edit.properties("network", "AWS::EC2::FlowLog")["TrafficType"] = "REJECT"


@destructive(
    "the image build may ask for GPUs",
    Category.ISOLATION,
    expect("ResourceQuota image-build/project", Effect.IN_PLACE, dangers=LOOSER, words=("nvidia.com/gpu",)),
)
def _(edit: Edit) -> None:
    with edit.object("platform", "ResourceQuota", "image-build/project") as quota:
        del quota["spec"]["hard"]["requests.nvidia.com/gpu"]


@destructive(
    "evictions may take the head of the RayCluster",
    Category.PROTECTION,
    # kubectl prunes no budget: the old one stays, until somebody deletes it.
    expect(
        "PodDisruptionBudget ray/rayml-head",
        Effect.KEPT,
        Effect.DELETED,
        dangers=(LOWER, LOOSER),
        words=("rayml-head",),
    ),
)
def _(edit: Edit) -> None:
    edit.remove_object("ray", "PodDisruptionBudget", "ray/rayml-head")


def _webhook(edit: Edit) -> None:
    service = {"name": "policy", "namespace": "kuberay", "path": "/validate"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "pods.policy.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service, "caBundle": "Zm9v"},
        "failurePolicy": "Fail",
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": 10,
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "policy"},
        "webhooks": [hook],
    }
    edit.apply("platform", "Webhook", configuration)


@destructive(
    "pods pass when the webhook that checks them does not answer",
    Category.ISOLATION,
    expect(
        "ValidatingWebhookConfiguration policy",
        Effect.IN_PLACE,
        dangers=(LOOSER, LOWER),
        words=("failurePolicy", "Ignore"),
    ),
    prepare=_webhook,
)
def _(edit: Edit) -> None:
    with edit.object("platform", "ValidatingWebhookConfiguration", "policy") as configuration:
        configuration["webhooks"][0]["failurePolicy"] = "Ignore"


@harmless(
    "the alarm of nodes that are not replaced fires earlier",
    Category.PROTECTION,
    expect("AWS::CloudWatch::Alarm AlarmsNodeNotReplaced", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", ALARM, "AlarmsNodeNotReplaced")["EvaluationPeriods"] = 3


@harmless("Prometheus watches one thing more", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    rule = {"alert": "ScrapeSlow", "expr": "scrape_duration_seconds > 8", "for": "600s"}
    in_rules(edit, lambda rules: rules.append(rule | {"labels": {"severity": "warning"}}))


@harmless("Alertmanager repeats its alerts more often", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    with (
        edit.object("ray", "ConfigMap", "prometheus-system/alertmanager") as config,
        parsed(config["data"], "alertmanager.yaml") as content,
    ):
        assert content["route"]["repeat_interval"] == "12h"
        content["route"]["repeat_interval"] = "4h"


@harmless("the flow logs are kept for a year", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("network", "AWS::Logs::LogGroup", "FlowLogsLog")["RetentionInDays"] = 365


@harmless("an alarm is described better", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    edit.properties("ray", ALARM, FAILED)["AlarmDescription"] = "A node has failed. Runbook: docs/operate/observe.md"


@harmless("the image build gets fewer pods", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("platform", "ResourceQuota", "image-build/project") as quota:
        quota["spec"]["hard"]["pods"] = "2"


@harmless("the quota of Ray's namespace limits its claims, too", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "ResourceQuota", "ray/project") as quota:
        quota["spec"]["hard"]["persistentvolumeclaims"] = "10"
