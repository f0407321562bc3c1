"""Pairs by an author who had not seen the judges, the held-out half: guards that are deleted or blunted."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.blind_edits import ALARM, BUDGETED, HYPERPOD, WATCHED, group, in_prometheus, in_rules
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

LOWER = Danger.LOWER_PROTECTION
BUDGET = "AWS::Budgets::Budget"


@destructive(
    "the budget tells nobody",
    Category.PROTECTION,
    expect(f"{BUDGET} Budget", Effect.IN_PLACE, Effect.REPLACED, dangers=LOWER, words=("budget",)),
    environment=BUDGETED,
)
def _(edit: Edit) -> None:
    del edit.properties("hyperpod", BUDGET)["NotificationsWithSubscribers"]


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
