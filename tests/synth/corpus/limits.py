"""Pairs of limits: of the system's nodes, of what is kept, of timeouts, of conditions, of sign-in."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_a_guards import _webhook as webhook
from tests.synth.corpus.blind_edits import BUDGETED, OBSERVED, WATCHED, in_chart
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

NODES = "AWS::EKS::Nodegroup"


def _sizes(edit: Edit, least: int, wanted: int, most: int) -> None:
    edit.properties("eks", NODES)["ScalingConfig"] = {"MinSize": least, "DesiredSize": wanted, "MaxSize": most}


@destructive(
    "the system has a node less",
    Category.GROUPS,
    expect(
        f"{NODES} SystemNodes",
        Effect.NODES_REMOVED,
        dangers=Danger.JOBS_ENDED,
        words=("DesiredSize 2 → 1",),
    ),
)
def _(edit: Edit) -> None:
    _sizes(edit, 1, 1, 1)


@destructive(
    "nobody knows how many nodes the system has",
    Category.GROUPS,
    expect(f"{NODES} SystemNodes", Effect.NODES_REMOVED, dangers=Danger.JOBS_ENDED, words=("DesiredSize",)),
)
def _(edit: Edit) -> None:
    template: dict[str, Any] = edit.templates["eks"]
    template.setdefault("Parameters", {})["Nodes"] = {"Type": "Number"}
    edit.properties("eks", NODES)["ScalingConfig"]["DesiredSize"] = {"Ref": "Nodes"}


@harmless(
    "the system may have a node more",
    Category.GROUPS,
    expect(f"{NODES} SystemNodes", Effect.IN_PLACE, words=("MaxSize 2 → 3",)),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    _sizes(edit, 2, 2, 3)


@harmless(
    "the system may have a node less, and keeps what it has",
    Category.GROUPS,
    expect(f"{NODES} SystemNodes", Effect.IN_PLACE, words=("MinSize 2 → 1",)),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    _sizes(edit, 1, 2, 2)


def _argument(edit: Edit, before: str, after: str) -> None:
    def changed(deployment: Any) -> None:
        prometheus = deployment["spec"]["template"]["spec"]["containers"][0]
        assert any(before in each for each in prometheus["args"])
        prometheus["args"] = [each.replace(before, after) for each in prometheus["args"]]

    in_chart(edit, "Deployment", "prometheus", changed)


@destructive(
    "Prometheus keeps an hour",
    Category.PROTECTION,
    expect(
        "Deployment prometheus-system/prometheus",
        Effect.IN_PLACE,
        dangers=Danger.LOWER_PROTECTION,
        words=("retention.time", "90d", "1h"),
    ),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _argument(edit, "time=90d", "time=1h")


@harmless(
    "Prometheus keeps as long in other words",
    Category.PROTECTION,
    expect("Deployment prometheus-system/prometheus", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    # A week has seven days (Prometheus, configuration: <duration>).
    _argument(edit, "time=90d", "time=13w")


@harmless(
    "Grafana writes its log as JSON",
    Category.SCRIPTS,
    expect("Deployment prometheus-system/grafana", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    def changed(deployment: Any) -> None:
        [grafana] = deployment["spec"]["template"]["spec"]["containers"]
        grafana["env"].append({"name": "GF_LOG_CONSOLE_FORMAT", "value": "json"})

    in_chart(edit, "Deployment", "grafana", changed)


@destructive(
    "Grafana's log goes to another address",
    Category.SCRIPTS,
    expect("Deployment prometheus-system/grafana", Effect.IN_PLACE, dangers=Danger.RUNS_CODE, words=("GF_LOG_SYSLOG",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    def changed(deployment: Any) -> None:
        [grafana] = deployment["spec"]["template"]["spec"]["containers"]
        grafana["env"].append({"name": "GF_LOG_SYSLOG_ADDRESS", "value": "logs.example.com:514"})

    in_chart(edit, "Deployment", "grafana", changed)


@harmless(
    "a webhook that refuses in doubt has less time",
    Category.ISOLATION,
    expect("ValidatingWebhookConfiguration policy", Effect.IN_PLACE, words=("timeoutSeconds 10 → 5",)),
    worst=Effect.IN_PLACE,
    prepare=webhook,
)
def _(edit: Edit) -> None:
    _wait(edit, 5)


def _lenient(edit: Edit) -> None:
    webhook(edit)
    with edit.object("platform", "ValidatingWebhookConfiguration", "policy") as configuration:
        configuration["webhooks"][0]["failurePolicy"] = "Ignore"


@destructive(
    "a webhook that admits in doubt has less time",
    Category.ISOLATION,
    expect("ValidatingWebhookConfiguration policy", Effect.IN_PLACE, dangers=Danger.LOOSER_ISOLATION),
    prepare=_lenient,
)
def _(edit: Edit) -> None:
    _wait(edit, 1)


def _wait(edit: Edit, seconds: int) -> None:
    with edit.object("platform", "ValidatingWebhookConfiguration", "policy") as configuration:
        configuration["webhooks"][0]["timeoutSeconds"] = seconds


def _budgets(edit: Edit) -> Any:
    """Return the statement that lets AWS Budgets publish."""
    all = edit.properties("hyperpod", "AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    [found] = [each for each in all if each.get("Sid") == "Budget"]
    return found


@harmless(
    "one budget of the account may publish",
    Category.PERMISSIONS,
    expect("AWS::SNS::TopicPolicy", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=BUDGETED,
)
def _(edit: Edit) -> None:
    _budgets(edit)["Condition"]["ArnLike"]["aws:SourceArn"] = "arn:aws:budgets::111122223333:budget/training"


@harmless(
    "a name in full stands for the pattern that matched it",
    Category.PERMISSIONS,
    expect("AWS::SNS::TopicPolicy", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=BUDGETED,
)
def _(edit: Edit) -> None:
    condition = _budgets(edit)["Condition"]
    condition["ArnEquals"] = {"aws:SourceArn": "arn:aws:budgets::111122223333:budget/training"}
    del condition["ArnLike"]


@destructive(
    "budgets of any account may publish, if they say to be this one's",
    Category.PERMISSIONS,
    # The wildcard of one part of an ARN does not stand for the parts before it (IAM: ArnLike).
    expect("AWS::SNS::TopicPolicy", Effect.IN_PLACE, dangers=Danger.WIDER_PERMISSIONS, words=("aws:SourceArn", "::*:")),
    environment=BUDGETED,
)
def _(edit: Edit) -> None:
    _budgets(edit)["Condition"]["ArnLike"]["aws:SourceArn"] = "arn:aws:budgets::*:budget/training"


GRAFANA = "AWS::Grafana::Workspace"


@destructive(
    "Grafana reaches the data of the whole organization",
    Category.PERMISSIONS,
    expect(f"{GRAFANA} GrafanaWorkspace", Effect.IN_PLACE, dangers=Danger.WIDER_PERMISSIONS, words=("ORGANIZATION",)),
    environment=OBSERVED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", GRAFANA)["AccountAccessType"] = "ORGANIZATION"


@destructive(
    "Grafana signs people in by another provider",
    Category.PERMISSIONS,
    expect(f"{GRAFANA} GrafanaWorkspace", Effect.IN_PLACE, dangers=Danger.WIDER_PERMISSIONS, words=("SAML",)),
    environment=OBSERVED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", GRAFANA)["AuthenticationProviders"] = ["SAML"]


@harmless(
    "Grafana's workspace has a better description",
    Category.PERMISSIONS,
    expect(f"{GRAFANA} GrafanaWorkspace", Effect.IN_PLACE, Effect.NOTHING),
    worst=Effect.IN_PLACE,
    environment=OBSERVED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", GRAFANA)["Description"] = "Training's dashboards, for the platform team"


@harmless(
    "Prometheus keeps two years",
    Category.PROTECTION,
    expect("Deployment prometheus-system/prometheus", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _argument(edit, "time=90d", "time=2y")


@harmless(
    "the flow log writes twice as often",
    Category.PROTECTION,
    expect("AWS::EC2::FlowLog FlowLogs", Effect.REPLACED),
    worst=Effect.REPLACED,
)
def _(edit: Edit) -> None:
    edit.properties("network", "AWS::EC2::FlowLog")["MaxAggregationInterval"] = 60
