"""Pairs by an author who had not seen the judges, the held-out half: guards that are deleted or blunted."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import ALARM, BUDGETED, HYPERPOD, WATCHED, group, in_prometheus, in_rules
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

LOWER = Danger.LOWER_PROTECTION
BUDGET = "AWS::Budgets::Budget"


@destructive(
    "the alarm of dropped packets looks at days instead of minutes",
    Category.PROTECTION,
    expect("AWS::CloudWatch::Alarm AlarmsEfaDrops", Effect.IN_PLACE, dangers=LOWER, words=("Period", "86400")),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", ALARM, "AlarmsEfaDrops")["Period"] = 86400


@destructive(
    "the alarm of failed nodes watches another cluster",
    Category.PROTECTION,
    expect("AWS::CloudWatch::Alarm AlarmsNodeFailed", Effect.IN_PLACE, dangers=LOWER, words=("rayhp-old",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", ALARM, "AlarmsNodeFailed")["Dimensions"][0]["Value"] = "rayhp-old"


@destructive(
    "the alarm of the full file system fires when it is empty",
    Category.PROTECTION,
    expect(
        "AWS::CloudWatch::Alarm AlarmsFileSystemFull",
        Effect.IN_PLACE,
        dangers=LOWER,
        words=("ComparisonOperator",),
    ),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", ALARM, "AlarmsFileSystemFull")["ComparisonOperator"] = "GreaterThanThreshold"


@destructive(
    "the budget tells nobody",
    Category.PROTECTION,
    expect(f"{BUDGET} Budget", Effect.IN_PLACE, Effect.REPLACED, dangers=LOWER, words=("budget",)),
    environment=BUDGETED,
)
def _(edit: Edit) -> None:
    del edit.properties("hyperpod", BUDGET)["NotificationsWithSubscribers"]


@destructive(
    "Prometheus tells of a lost reaper after a month",
    Category.PROTECTION,
    expect("ConfigMap prometheus-system/prometheus", Effect.IN_PLACE, dangers=LOWER, words=("ReaperDown",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    def changed(rules: list[Any]) -> None:
        [rule] = [each for each in rules if each.get("alert") == "ReaperDown"]
        rule["for"] = "30d"

    in_rules(edit, changed)


@destructive(
    "Prometheus sends its alerts to no Alertmanager",
    Category.PROTECTION,
    expect("ConfigMap prometheus-system/prometheus", Effect.IN_PLACE, dangers=LOWER, words=("alertmanager",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    in_prometheus(edit, lambda content: content.pop("alerting"))


def _written_elsewhere(edit: Edit) -> None:
    target = {"url": "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-1/api/v1/remote_write"}
    in_prometheus(edit, lambda content: content.update(remote_write=[target]))


@destructive(
    "Prometheus no longer writes to the workspace that keeps its series",
    Category.PROTECTION,
    expect("ConfigMap prometheus-system/prometheus", Effect.IN_PLACE, dangers=LOWER, words=("remote_write",)),
    environment=WATCHED,
    prepare=_written_elsewhere,
)
def _(edit: Edit) -> None:
    in_prometheus(edit, lambda content: content.pop("remote_write"))


@destructive(
    "the logs of containers are kept for a day",
    Category.PROTECTION,
    expect("AWS::Logs::LogGroup ContainerInsightsLog", Effect.IN_PLACE, dangers=LOWER, words=("14", "1")),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", "AWS::Logs::LogGroup", "ContainerInsightsLogapplication")["RetentionInDays"] = 1


@destructive(
    "new nodes are no longer stressed before they train",
    Category.PROTECTION,
    expect("InstanceGroup worker-group-1", Effect.IN_PLACE, dangers=LOWER, words=("InstanceStress",)),
)
def _(edit: Edit) -> None:
    group(edit, "worker-group-1")["OnStartDeepHealthChecks"] = ["InstanceConnectivity"]


@destructive(
    "HyperPod no longer replaces faulty nodes",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, dangers=LOWER, words=("recovery", "None")),
)
def _(edit: Edit) -> None:
    assert edit.properties("hyperpod", HYPERPOD)["NodeRecovery"] == "Automatic"
    edit.properties("hyperpod", HYPERPOD)["NodeRecovery"] = "None"


def _kept_for(days: int, edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["LustreConfiguration"]["AutomaticBackupRetentionDays"] = days


@destructive(
    "the file system is no longer backed up",
    Category.PROTECTION,
    expect("AWS::FSx::FileSystem FileSystem", Effect.IN_PLACE, dangers=LOWER, words=("30", "0")),
    prepare=lambda edit: _kept_for(30, edit),
)
def _(edit: Edit) -> None:
    _kept_for(0, edit)


@harmless(
    "the backups of the file system are kept for longer",
    Category.PROTECTION,
    expect("AWS::FSx::FileSystem FileSystem", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    prepare=lambda edit: _kept_for(7, edit),
)
def _(edit: Edit) -> None:
    _kept_for(30, edit)


@harmless(
    "the alarm of the full file system fires when a fifth is free",
    Category.PROTECTION,
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", ALARM, "AlarmsFileSystemFull")["Threshold"] *= 2


@harmless("the budget is lower", Category.PROTECTION, worst=Effect.IN_PLACE, environment=BUDGETED)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", BUDGET)["Budget"]["BudgetLimit"]["Amount"] = 15_000


@harmless("a rule's text says more", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    in_rules(edit, lambda rules: rules[0]["annotations"].update(summary="Run {{ $labels.run }} does not advance."))


@harmless("Prometheus looks twice as often", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    in_prometheus(edit, lambda content: content["global"].update(scrape_interval="15s"))


@harmless("the deep health checks are in another order", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    group(edit, "worker-group-1")["OnStartDeepHealthChecks"].reverse()


@harmless("an event rule is described better", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", "AWS::Events::Rule", "NotificationsErrors")["Description"] = "Errors of the cluster"


@harmless(
    "there is an alarm of a slow file system",
    Category.PROTECTION,
    expect("AWS::CloudWatch::Alarm AlarmsSlow", Effect.CREATED),
    worst=Effect.CREATED,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    other = edit.properties("ray", ALARM, "AlarmsFileSystemFull")
    edit.add("ray", "AlarmsSlow", ALARM, **other | {"MetricName": "DataReadBytes", "Threshold": 1})


@harmless("the logs of hosts are kept for a quarter", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    edit.properties("ray", "AWS::Logs::LogGroup", "ContainerInsightsLoghost")["RetentionInDays"] = 90


@harmless("a dashboard has another title", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    pieces = edit.properties("ray", "AWS::CloudWatch::Dashboard")["DashboardBody"]["Fn::Join"][1]
    pieces[:] = [
        each.replace("Nodes of the EKS cluster", "All nodes") if isinstance(each, str) else each for each in pieces
    ]


@harmless("an alarm counts missing data as bad", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    edit.properties("ray", ALARM, "AlarmsFileSystemFull")["TreatMissingData"] = "breaching"
