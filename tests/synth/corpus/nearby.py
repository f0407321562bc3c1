"""Harmless pairs beside dangerous ones: the same fields, in the direction that keeps or adds protection."""

from collections.abc import Callable
from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_d_guards import _alertmanager as alertmanager
from tests.synth.corpus.blind_d_guards import _budget as budget
from tests.synth.corpus.blind_d_guards import _remembering as remembering
from tests.synth.corpus.blind_edits import BUDGETED, OBSERVED, WATCHED, in_chart, in_prometheus, in_rules
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

ALERTMANAGER = "ConfigMap prometheus-system/alertmanager"
TOPIC_POLICY = "AWS::SNS::TopicPolicy"
Prepare = Callable[[Edit], None]


def _pair(
    name: str, category: Category, resource: str, environment: str = "dev", prepare: Prepare | None = None
) -> Callable[[Prepare], Prepare]:
    """Add a pair that changes one thing in place; a budget is replaced."""
    worst = Effect.REPLACED if resource.startswith("AWS::Budgets") else Effect.IN_PLACE
    return harmless(name, category, expect(resource, worst), worst=worst, environment=environment, prepare=prepare)


def _notifications(edit: Edit) -> list[Any]:
    found: list[Any] = budget(edit)["NotificationsWithSubscribers"]
    return found


@_pair("the budget tells ten percent earlier", Category.PROTECTION, "AWS::Budgets::Budget", BUDGETED)
def _(edit: Edit) -> None:
    for each in _notifications(edit):
        each["Notification"]["Threshold"] -= 10


@_pair("the budget tells a second address", Category.PROTECTION, "AWS::Budgets::Budget", BUDGETED)
def _(edit: Edit) -> None:
    for each in _notifications(edit):
        each["Subscribers"].append({"SubscriptionType": "EMAIL", "Address": "costs@example.com"})


@_pair(
    "metrics in the Prometheus workspace stay for three years",
    Category.PROTECTION,
    "AWS::APS::Wo",
    OBSERVED,
    remembering,
)
def _(edit: Edit) -> None:
    edit.properties("ray", "AWS::APS::Workspace")["WorkspaceConfiguration"]["RetentionPeriodInDays"] = 1095


def _silencing(edit: Edit) -> None:
    with alertmanager(edit) as content:
        matchers = {"source_matchers": ['severity="critical"'], "target_matchers": ['severity="warning"']}
        content["inhibit_rules"] = [matchers]


@_pair("no alert silences another one any more", Category.PROTECTION, ALERTMANAGER, WATCHED, _silencing)
def _(edit: Edit) -> None:
    with alertmanager(edit) as content:
        content["inhibit_rules"] = []


@_pair("alerts wait for each other for ten seconds only", Category.PROTECTION, ALERTMANAGER, WATCHED)
def _(edit: Edit) -> None:
    with alertmanager(edit) as content:
        content["route"]["group_wait"] = "10s"


@_pair("alerts go to a second receiver's address too", Category.PROTECTION, ALERTMANAGER, WATCHED)
def _(edit: Edit) -> None:
    with alertmanager(edit) as content:
        content["receivers"][0]["webhook_configs"] = [{"url": "http://pager.prometheus-system.svc:9000/alerts"}]


@_pair("rules are evaluated twice as often", Category.PROTECTION, "ConfigMap prometheus-system/prometheus", WATCHED)
def _(edit: Edit) -> None:
    in_prometheus(edit, lambda content: content["global"].update(evaluation_interval="5s"))


@_pair("a run that uses two thirds of its time is an alert", Category.PROTECTION, "ConfigMap prometheus-", WATCHED)
def _(edit: Edit) -> None:
    def changed(rules: list[Any]) -> None:
        [found] = [each for each in rules if each["alert"] == "GoodputLow"]
        assert "< 0.5" in found["expr"]
        found["expr"] = found["expr"].replace("< 0.5", "< 0.66")

    in_rules(edit, changed)


@_pair("GPUs' power is counted too", Category.PROTECTION, "ConfigMap gpu-metrics/dcgm-exporter", WATCHED)
def _(edit: Edit) -> None:
    def changed(configuration: Any) -> None:
        configuration["data"]["counters.csv"] += "DCGM_FI_DEV_ENFORCED_POWER_LIMIT, gauge, Limit of power (in W).\n"

    in_chart(edit, "ConfigMap", "dcgm-exporter", changed)


def _variable(name: str, value: str) -> Prepare:
    def edited(edit: Edit) -> None:
        def changed(deployment: Any) -> None:
            [grafana] = deployment["spec"]["template"]["spec"]["containers"]
            grafana["env"] = [each for each in grafana["env"] if each["name"] != name]
            grafana["env"].append({"name": name, "value": value})

        in_chart(edit, "Deployment", "grafana", changed)

    return edited


GRAFANA = "Deployment prometheus-system/grafana"
_pair("nobody enters Grafana without a name", Category.ISOLATION, GRAFANA, WATCHED)(
    _variable("GF_AUTH_ANONYMOUS_ENABLED", "false")
)
_pair("Grafana's cookies need TLS", Category.ISOLATION, GRAFANA, WATCHED)(
    _variable("GF_SECURITY_COOKIE_SECURE", "true")
)
_pair("Grafana's log names one module", Category.SCRIPTS, GRAFANA, WATCHED)(
    _variable("GF_LOG_FILTERS", "rendering:debug")
)


@_pair("events may be published by this account only, said twice", Category.PERMISSIONS, TOPIC_POLICY, "prod")
def _(edit: Edit) -> None:
    policy = edit.properties("hyperpod", TOPIC_POLICY)["PolicyDocument"]
    allowed = [each for each in policy["Statement"] if each["Effect"] == "Allow"]
    for each in allowed:
        each.setdefault("Condition", {}).setdefault("StringEquals", {})["aws:PrincipalIsAWSService"] = "true"


@_pair("the operator watches all namespaces, as by default", Category.CLUSTERS, "HelmRelease kuberay/kuberay-operator")
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        values["watchNamespace"] = []


@_pair("an alarm's datapoints are all of its periods", Category.PROTECTION, "AWS::CloudWatch::Alarm", WATCHED)
def _(edit: Edit) -> None:
    alarm = edit.properties("ray", "AWS::CloudWatch::Alarm", "AlarmsFileSystemFull")
    alarm["DatapointsToAlarm"] = 1
    assert alarm["EvaluationPeriods"] >= 1


@_pair("the flow log has a tag more", Category.PROTECTION, "AWS::EC2::FlowLog")
def _(edit: Edit) -> None:
    edit.properties("network", "AWS::EC2::FlowLog")["Tags"] = [{"Key": "team", "Value": "platform"}]


def _asked_about_shells(edit: Edit) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]}
    webhook = {"name": "shells.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [rule]}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    edit.apply("platform", "Shells", kind | {"metadata": {"name": "shells"}, "webhooks": [webhook]})


def _shells(edit: Edit, resources: list[str]) -> None:
    with edit.object("platform", "ValidatingWebhookConfiguration", "shells") as configuration:
        configuration["webhooks"][0]["rules"][0]["resources"] = resources


@_pair(
    "a webhook for shells in pods is asked about each subresource",
    Category.ISOLATION,
    "ValidatingWebhookConfiguration",
    prepare=_asked_about_shells,
)
def _(edit: Edit) -> None:
    _shells(edit, ["*/*"])


@destructive(
    "a webhook for shells in pods is asked about all resources, which are no subresources",
    Category.ISOLATION,
    expect("ValidatingWebhookConfiguration", Effect.IN_PLACE, dangers=Danger.LOOSER_ISOLATION),
    prepare=_asked_about_shells,
)
def _(edit: Edit) -> None:
    _shells(edit, ["*"])


def _few_nodes(edit: Edit) -> None:
    edit.properties("ray", "AWS::CloudWatch::Alarm", "AlarmsNodeFailed").update(
        ComparisonOperator="LessThanThreshold", Threshold=1
    )


@_pair("an alarm fires at its threshold, too", Category.PROTECTION, "AWS::CloudWatch::Alarm", WATCHED, _few_nodes)
def _(edit: Edit) -> None:
    alarm = edit.properties("ray", "AWS::CloudWatch::Alarm", "AlarmsNodeFailed")
    alarm["ComparisonOperator"] = "LessThanOrEqualToThreshold"


@destructive(
    "an alarm compares with a band in place of its threshold",
    Category.PROTECTION,
    expect("AWS::CloudWatch::Alarm", Effect.IN_PLACE, dangers=Danger.LOWER_PROTECTION),
    environment=WATCHED,
    prepare=_few_nodes,
)
def _(edit: Edit) -> None:
    alarm = edit.properties("ray", "AWS::CloudWatch::Alarm", "AlarmsNodeFailed")
    alarm["ComparisonOperator"] = "LessThanLowerThreshold"
