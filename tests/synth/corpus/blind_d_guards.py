"""Pairs by a fourth author who had not seen the judges: alarms, alerts, budgets, logs, keys and backups."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit, swap

LOWER, LOST, UNKNOWN = Danger.LOWER_PROTECTION, Danger.DATA_LOSS, Danger.UNKNOWN
WATCHED, OBSERVED, BUDGETED = "watched", "observed", "budgeted"
ALARM = "AWS::CloudWatch::Alarm"
Body = dict[str, Any]


def _alarm(edit: Edit, name: str) -> Body:
    """Return the properties of an alarm."""
    return edit.properties("ray", ALARM, f"Alarms{name}")


def _objects(edit: Edit, old: str, new: str) -> None:
    """Change the objects of the observability chart."""
    edit.rewrite("files/objects.yaml", swap(old, new), holding="JobStalled")


@contextmanager
def _alertmanager(edit: Edit) -> Iterator[Body]:
    """Give the configuration of Alertmanager."""
    with edit.object("ray", "ConfigMap", "prometheus-system/alertmanager") as configuration:
        content = json.loads(configuration["data"]["alertmanager.yaml"])
        yield content
        configuration["data"]["alertmanager.yaml"] = json.dumps(content, indent=1)


def _budget(edit: Edit) -> Body:
    """Return the properties of the budget."""
    return edit.properties("hyperpod", "AWS::Budgets::Budget")


@destructive(
    "one failed node is no alarm, two are",
    Category.PROTECTION,
    expect(f"{ALARM} AlarmsNodeFailed", Effect.IN_PLACE, dangers=LOWER),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _alarm(edit, "NodeFailed")["ComparisonOperator"] = "GreaterThanThreshold"


@destructive(
    "an alarm watches another environment's cluster",
    Category.PROTECTION,
    expect(f"{ALARM} AlarmsNodeNotReplaced", Effect.IN_PLACE, dangers=LOWER, words=("rayhp-prod",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _alarm(edit, "NodeNotReplaced")["Dimensions"][0]["Value"] = "rayhp-prod"


@destructive(
    "an alarm takes the least value of each period",
    Category.PROTECTION,
    expect(f"{ALARM} AlarmsEfaDrops", Effect.IN_PLACE, dangers=LOWER, words=("minimum",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _alarm(edit, "EfaDrops")["Statistic"] = "Minimum"


@destructive(
    "an alarm of the full file system does nothing",
    Category.PROTECTION,
    expect(f"{ALARM} AlarmsFileSystemFull", Effect.IN_PLACE, dangers=LOWER),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _alarm(edit, "FileSystemFull")["ActionsEnabled"] = False


@destructive(
    "events come from a source that AWS does not use",
    Category.PROTECTION,
    expect("AWS::Events::Rule NotificationsStateAndHealth", Effect.IN_PLACE, dangers=LOWER),
)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", "AWS::Events::Rule", "NotificationsStateAndHealth")["EventPattern"]["source"] = [
        "sagemaker"
    ]


@destructive(
    "all events but errors are sent",
    Category.PROTECTION,
    expect("AWS::Events::Rule NotificationsErrors", Effect.IN_PLACE, dangers=LOWER),
    environment="prod",
)
def _(edit: Edit) -> None:
    pattern = edit.properties("hyperpod", "AWS::Events::Rule", "NotificationsErrors")["EventPattern"]
    pattern["detail"]["EventDetails"]["EventLevel"] = [{"anything-but": ["Error"]}]


@destructive(
    "a receiver of the alarms gets only some messages",
    Category.PROTECTION,
    expect("AWS::SNS::Subscription AlertsTopic", Effect.IN_PLACE, Effect.REPLACED, dangers=LOWER),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    subscription = edit.properties("ray", "AWS::SNS::Subscription", "AlertsTopicmlplatformexamplecom")
    subscription["FilterPolicy"] = {"severity": ["page"]}


@destructive(
    "the alarms' topic uses a key that alarms cannot use",
    Category.PROTECTION,
    expect("AWS::SNS::Topic AlertsTopic", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOWER, UNKNOWN)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", "AWS::SNS::Topic", "AlertsTopic")["KmsMasterKeyId"] = "alias/aws/sns"


@destructive(
    "EventBridge may no longer publish to the topic of notifications",
    Category.PROTECTION,
    expect("AWS::SNS::TopicPolicy Notifications", Effect.IN_PLACE, dangers=LOWER),
    environment="prod",
)
def _(edit: Edit) -> None:
    policy = edit.properties("hyperpod", "AWS::SNS::TopicPolicy", "NotificationsTopicPolicy")["PolicyDocument"]
    policy["Statement"] = [each for each in policy["Statement"] if each["Effect"] == "Deny"]


@destructive(
    "the key of the cluster's Secrets is disabled",
    Category.PROTECTION,
    expect("AWS::KMS::Key ClusterSecretsKey", Effect.IN_PLACE, Effect.DATA_LOST, dangers=(LOWER, LOST)),
    environment="prod",
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::KMS::Key", "ClusterSecretsKey")["Enabled"] = False


@destructive(
    "a key is not rotated any more",
    Category.PROTECTION,
    expect("AWS::KMS::Key AlertsKey", Effect.IN_PLACE, dangers=LOWER, words=("rotat",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    del edit.properties("ray", "AWS::KMS::Key", "AlertsKey")["EnableKeyRotation"]


@destructive(
    "the budget counts what has another environment's tag",
    Category.PROTECTION,
    expect("AWS::Budgets::Budget", Effect.IN_PLACE, Effect.REPLACED, dangers=LOWER),
    environment=BUDGETED,
)
def _(edit: Edit) -> None:
    filters = _budget(edit)["Budget"]["CostFilters"]
    filters["TagKeyValue"] = ["user:ray-on-hyperpod-budget$slurmhp-trial-us-west-2"]


@destructive(
    "nobody is told what the month will cost",
    Category.PROTECTION,
    expect("AWS::Budgets::Budget", Effect.REPLACED, Effect.IN_PLACE, dangers=LOWER),
    environment=BUDGETED,
)
def _(edit: Edit) -> None:
    notifications = _budget(edit)["NotificationsWithSubscribers"]
    notifications[:] = [each for each in notifications if each["Notification"]["NotificationType"] == "ACTUAL"]


@destructive(
    "a GPU that left the bus is no alert",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOWER, UNKNOWN), words=("XidError",)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _objects(edit, "|74|79|95|", "|74|95|")


@destructive(
    "Prometheus drops critical alerts before it sends them",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOWER, UNKNOWN)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    dropped = '"alert_relabel_configs": [{"action": "drop", "source_labels": ["severity"], "regex": "critical"}],'
    _objects(edit, '"alertmanagers": [', f'{dropped} "alertmanagers": [')


@destructive(
    "the exporter of GPUs no longer counts XID errors",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOWER, UNKNOWN)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    def without(text: str) -> str:
        lines = text.splitlines(keepends=True)
        kept = [each for each in lines if not each.strip().startswith("DCGM_EXP_XID_ERRORS_COUNT,")]
        assert len(kept) == len(lines) - 1
        return "".join(kept)

    edit.rewrite("files/objects.yaml", without, holding="JobStalled")


@destructive(
    "Alertmanager sends alerts to nobody",
    Category.PROTECTION,
    expect("ConfigMap prometheus-system/alertmanager", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOWER, UNKNOWN)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    with _alertmanager(edit) as content:
        content["receivers"].append({"name": "none"})
        content["route"]["receiver"] = "none"


@destructive(
    "a warning silences all critical alerts",
    Category.PROTECTION,
    expect("ConfigMap prometheus-system/alertmanager", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOWER, UNKNOWN)),
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    with _alertmanager(edit) as content:
        matchers = {"source_matchers": ['severity="warning"'], "target_matchers": ['severity="critical"']}
        content["inhibit_rules"] = [matchers]


@destructive(
    "the control plane logs nothing",
    Category.PROTECTION,
    expect("AWS::EKS::Cluster", Effect.IN_PLACE, dangers=LOWER, words=("logging",)),
    environment="closed",
)
def _(edit: Edit) -> None:
    del edit.properties("eks", "AWS::EKS::Cluster")["Logging"]


@destructive(
    "flow logs hold rejected traffic only",
    Category.PROTECTION,
    expect("AWS::EC2::FlowLog", Effect.REPLACED, Effect.IN_PLACE, dangers=LOWER),
)
def _(edit: Edit) -> None:
    edit.properties("network", "AWS::EC2::FlowLog")["TrafficType"] = "REJECT"


def _locked(edit: Edit) -> None:
    bucket = edit.properties("storage", "AWS::S3::Bucket", "Data")
    retention = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 30}}
    bucket["ObjectLockEnabled"] = True
    bucket["ObjectLockConfiguration"] = {"ObjectLockEnabled": "Enabled", "Rule": retention}


@destructive(
    "some people may delete what the data bucket locks",
    Category.PROTECTION,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE, dangers=(LOWER, LOST)),
    environment="prod",
    prepare=_locked,
)
def _(edit: Edit) -> None:
    lock = edit.properties("storage", "AWS::S3::Bucket", "Data")["ObjectLockConfiguration"]
    lock["Rule"]["DefaultRetention"]["Mode"] = "GOVERNANCE"


def _trail(edit: Edit) -> None:
    edit.add(
        "storage",
        "Trail",
        "AWS::CloudTrail::Trail",
        IsLogging=True,
        S3BucketName="rayhp-audit-111122223333",
        EnableLogFileValidation=True,
    )


@destructive(
    "a trail of all calls stops logging",
    Category.PROTECTION,
    expect("AWS::CloudTrail::Trail", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOWER, UNKNOWN)),
    prepare=_trail,
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::CloudTrail::Trail")["IsLogging"] = False


def _backed_up(edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["LustreConfiguration"]["AutomaticBackupRetentionDays"] = 30


@destructive(
    "the automatic backups of the Slurm file system are switched off",
    Category.PROTECTION,
    expect("AWS::FSx::FileSystem", Effect.IN_PLACE, Effect.DATA_LOST, dangers=(LOWER, LOST), words=("backup",)),
    environment="slurm",
    prepare=_backed_up,
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["LustreConfiguration"]["AutomaticBackupRetentionDays"] = 0


@destructive(
    "every tag of the image repository may move",
    Category.PROTECTION,
    expect("AWS::ECR::Repository", Effect.IN_PLACE, dangers=LOWER),
)
def _(edit: Edit) -> None:
    [exclusion] = edit.properties("storage", "AWS::ECR::Repository")["ImageTagMutabilityExclusionFilters"]
    assert exclusion["ImageTagMutabilityExclusionFilterValue"] == "cache*"
    exclusion["ImageTagMutabilityExclusionFilterValue"] = "*"


@destructive(
    "system nodes answer the old metadata protocol",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.NODES_REPLACED, dangers=(LOWER, Danger.LOOSER_ISOLATION), words=("HttpTokens",)),
)
def _(edit: Edit) -> None:
    data = edit.properties("eks", "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    data["MetadataOptions"]["HttpTokens"] = "optional"


@destructive(
    "disks of system nodes follow the account's default of encryption",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.NODES_REPLACED, dangers=LOWER),
    environment="prod",
)
def _(edit: Edit) -> None:
    data = edit.properties("eks", "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    del data["BlockDeviceMappings"][0]["Ebs"]["Encrypted"]


def _remembering(edit: Edit) -> None:
    edit.properties("ray", "AWS::APS::Workspace")["WorkspaceConfiguration"] = {"RetentionPeriodInDays": 365}


@destructive(
    "metrics in the Prometheus workspace stay for a month only",
    Category.PROTECTION,
    expect("AWS::APS::Workspace", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOWER, LOST, UNKNOWN)),
    environment=OBSERVED,
    prepare=_remembering,
)
def _(edit: Edit) -> None:
    edit.properties("ray", "AWS::APS::Workspace")["WorkspaceConfiguration"]["RetentionPeriodInDays"] = 30


@destructive(
    "new GPU nodes are not stressed before they work",
    Category.PROTECTION,
    expect("InstanceGroup worker-group-1", Effect.IN_PLACE, dangers=LOWER, words=("InstanceStress",)),
    environment="prod",
)
def _(edit: Edit) -> None:
    groups = edit.properties("hyperpod", "Custom::HyperPodCluster")["InstanceGroups"]
    [group] = [each for each in groups if "OnStartDeepHealthChecks" in each]
    group["OnStartDeepHealthChecks"] = ["InstanceConnectivity"]


@harmless(
    "an alarm fires after a quarter of an hour",
    Category.PROTECTION,
    expect(f"{ALARM} AlarmsNodeNotReplaced", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _alarm(edit, "NodeNotReplaced")["EvaluationPeriods"] = 3


@harmless(
    "the file system counts as full earlier",
    Category.PROTECTION,
    expect(f"{ALARM} AlarmsFileSystemFull", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _alarm(edit, "FileSystemFull")["Threshold"] *= 2


@harmless(
    "an alarm fires without data",
    Category.PROTECTION,
    expect(f"{ALARM} AlarmsFileSystemFull", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    _alarm(edit, "FileSystemFull")["TreatMissingData"] = "breaching"


@harmless(
    "an alarm tells when it lacks data",
    Category.PROTECTION,
    expect(f"{ALARM} AlarmsNodeFailed", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    alarm = _alarm(edit, "NodeFailed")
    alarm["InsufficientDataActions"] = list(alarm["AlarmActions"])


@harmless(
    "an alarm states the default of its datapoints", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED
)
def _(edit: Edit) -> None:
    alarm = _alarm(edit, "NodeNotRebooted")
    alarm["DatapointsToAlarm"] = alarm["EvaluationPeriods"]


@harmless("an alarm's description says whom to call", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    _alarm(edit, "EfaDrops")["AlarmDescription"] += ". Call the network team"


@harmless(
    "an alarm watches the file system before it is half full",
    Category.PROTECTION,
    expect(ALARM, Effect.CREATED),
    worst=Effect.CREATED,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    full = _alarm(edit, "FileSystemFull")
    edit.add("ray", "AlarmsFileSystemHalfFull", ALARM, **full | {"Threshold": full["Threshold"] * 5})


@harmless(
    "warnings are sent like errors",
    Category.PROTECTION,
    expect("AWS::Events::Rule NotificationsErrors", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    pattern = edit.properties("hyperpod", "AWS::Events::Rule", "NotificationsErrors")["EventPattern"]
    pattern["detail"]["EventDetails"]["EventLevel"].append("Warn")


@harmless(
    "a rule leaves out the state that is the default", Category.PROTECTION, worst=Effect.IN_PLACE, environment="prod"
)
def _(edit: Edit) -> None:
    assert edit.properties("hyperpod", "AWS::Events::Rule", "NotificationsErrors").pop("State") == "ENABLED"


@harmless(
    "a second team gets the notifications",
    Category.PROTECTION,
    expect("AWS::SNS::Subscription", Effect.CREATED),
    worst=Effect.CREATED,
)
def _(edit: Edit) -> None:
    kind = "AWS::SNS::Subscription"
    first = edit.properties("hyperpod", kind)
    edit.add("hyperpod", "NotificationsTopicOnCall", kind, **first | {"Endpoint": "on-call@example.com"})


@harmless(
    "a topic's display name is shorter",
    Category.PROTECTION,
    expect("AWS::SNS::Topic", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="prod",
)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", "AWS::SNS::Topic")["DisplayName"] = "HyperPod"


@harmless(
    "a key is rotated four times a year",
    Category.PROTECTION,
    expect("AWS::KMS::Key ClusterSecretsKey", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::KMS::Key", "ClusterSecretsKey")["RotationPeriodInDays"] = 90


@harmless(
    "a deleted key can be saved for a month",
    Category.PROTECTION,
    expect("AWS::KMS::Key ClusterSecretsKey", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="closed",
)
def _(edit: Edit) -> None:
    key = edit.properties("eks", "AWS::KMS::Key", "ClusterSecretsKey")
    assert key["PendingWindowInDays"] == 7
    key["PendingWindowInDays"] = 30


@harmless(
    "the budget is smaller",
    Category.PROTECTION,
    expect("AWS::Budgets::Budget", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=BUDGETED,
)
def _(edit: Edit) -> None:
    _budget(edit)["Budget"]["BudgetLimit"]["Amount"] = 15_000


@harmless(
    "the budget tells of its half too",
    Category.PROTECTION,
    expect("AWS::Budgets::Budget", Effect.REPLACED, Effect.IN_PLACE),
    worst=Effect.REPLACED,
    environment=BUDGETED,
)
def _(edit: Edit) -> None:
    notifications = _budget(edit)["NotificationsWithSubscribers"]
    notifications.append(notifications[0] | {"Notification": notifications[0]["Notification"] | {"Threshold": 50}})


@harmless("a checkpoint is too old after an hour", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    _objects(edit, "ray_run_checkpoint_timestamp_seconds) > 7200", "ray_run_checkpoint_timestamp_seconds) > 3600")


@harmless("the summary of an alert says what to do", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    _objects(edit, "failed its deep health check.", "failed its deep health check: replace it.")


@harmless(
    "alerts are repeated every four hours",
    Category.PROTECTION,
    expect("ConfigMap prometheus-system/alertmanager", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    with _alertmanager(edit) as content:
        content["route"]["repeat_interval"] = "4h"


@harmless("the messages of alerts end with a greeting", Category.PROTECTION, worst=Effect.IN_PLACE, environment=WATCHED)
def _(edit: Edit) -> None:
    with _alertmanager(edit) as content:
        content["receivers"][0]["sns_configs"][0]["message"] += "Your platform team\n"


@harmless(
    "the control plane's log never expires",
    Category.PROTECTION,
    expect("AWS::Logs::LogGroup ClusterLog", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    del edit.properties("eks", "AWS::Logs::LogGroup", "ClusterLog")["RetentionInDays"]


@harmless(
    "logs of containers stay for a year",
    Category.PROTECTION,
    expect("AWS::Logs::LogGroup ContainerInsights", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=WATCHED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", "AWS::Logs::LogGroup", "ContainerInsightsLogapplication")["RetentionInDays"] = 365


@harmless(
    "the data bucket's lock holds longer",
    Category.PROTECTION,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="prod",
    prepare=_locked,
)
def _(edit: Edit) -> None:
    lock = edit.properties("storage", "AWS::S3::Bucket", "Data")["ObjectLockConfiguration"]
    lock["Rule"]["DefaultRetention"]["Days"] = 90


@harmless(
    "the file system's backups stay longer",
    Category.PROTECTION,
    expect("AWS::FSx::FileSystem", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="slurm",
    prepare=_backed_up,
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["LustreConfiguration"]["AutomaticBackupRetentionDays"] = 60


@harmless(
    "no tag of the image repository may move",
    Category.PROTECTION,
    expect("AWS::ECR::Repository", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="small",
)
def _(edit: Edit) -> None:
    repository = edit.properties("storage", "AWS::ECR::Repository")
    repository["ImageTagMutability"] = "IMMUTABLE"
    del repository["ImageTagMutabilityExclusionFilters"]


@harmless(
    "HyperPod's observability sends logs too",
    Category.PROTECTION,
    expect("AWS::EKS::Addon HyperPodObservability", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=OBSERVED,
)
def _(edit: Edit) -> None:
    add_on = edit.properties("ray", "AWS::EKS::Addon", "HyperPodObservabilityAddOnamazonsagemakerhyperpodobservability")
    pieces = add_on["ConfigurationValues"]["Fn::Join"][1]
    pieces[-1] = swap('"logging":{"enabled":false}', '"logging":{"enabled":true}')(pieces[-1])


@harmless(
    "the Prometheus workspace has a clearer alias",
    Category.DATA,
    expect("AWS::APS::Workspace", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=OBSERVED,
)
def _(edit: Edit) -> None:
    edit.properties("ray", "AWS::APS::Workspace")["Alias"] += "-of-hyperpod"
