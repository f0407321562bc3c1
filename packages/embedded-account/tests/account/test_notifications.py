"""Test KMS keys, SNS topics and EventBridge rules, through which a cluster's events reach people."""

import json
from typing import Any

import pytest
from moto.events.models import events_backends
from moto.sns.models import sns_backends

from embedded_account.context import Account
from embedded_account.hyperpod import simulator_of
from embedded_account.hyperpod.model import SimulatedCluster
from embedded_account.services import events
from embedded_account.testing.clients import Clients
from embedded_account.testing.resources import RefusedWith, ResourceModels

PATTERN = {"source": ["aws.sagemaker"], "detail-type": ["SageMaker HyperPod Cluster Event"]}


@pytest.fixture
def resources(account: Account) -> ResourceModels:
    return ResourceModels(account)


@pytest.fixture
def topic(resources: ResourceModels) -> str:
    return str(resources.create("AWS::SNS::Topic", {"DisplayName": "cluster"}, name="cluster").physical_resource_id)


def policy_for(service: str, topic: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sns:Publish", "Resource": topic}
    return {"Version": "2012-10-17", "Statement": [statement]}


def make_rule(resources: ResourceModels, topic: str, detail_types: list[str] | None = None) -> Any:
    targets = [{"Arn": topic, "Id": "Target0"}]
    pattern = PATTERN | ({"detail-type": detail_types} if detail_types else {})
    properties = {"EventPattern": pattern, "State": "ENABLED", "Targets": targets}
    return resources.create("AWS::Events::Rule", properties, name="cluster-events")


def emit(account: Account, source: str = "aws.sagemaker") -> None:
    events.emit(account, source=source, detail_type=PATTERN["detail-type"][0], detail={"ClusterName": "ml"})


def received(account: Account, topic: str) -> list[dict[str, Any]]:
    sent = sns_backends[account.account_id][account.region].topics[topic].sent_notifications
    return [json.loads(message) for _, message, *_ in sent]


def test_event_that_matches_reaches_the_topic(account: Account, resources: ResourceModels, topic: str) -> None:
    resources.create(
        "AWS::SNS::TopicPolicy", {"Topics": [topic], "PolicyDocument": policy_for("events.amazonaws.com", topic)}
    )
    make_rule(resources, topic)
    emit(account, source="aws.ec2")
    emit(account)
    assert [each["detail"] for each in received(account, topic)] == [{"ClusterName": "ml"}]


def test_rule_may_be_created_while_an_event_is_delivered(
    account: Account, resources: ResourceModels, topic: str
) -> None:
    make_rule(resources, topic)
    rules = events_backends[account.account_id][account.region].event_buses["default"].rules
    for number, rule in enumerate(rules.values()):
        rules[f"of another stack {number}"] = rule
    assert len(rules) == 2


def test_topic_without_a_policy_for_eventbridge_gets_nothing(
    account: Account, resources: ResourceModels, topic: str
) -> None:
    make_rule(resources, topic)
    before = len(account.journal.entries())
    emit(account)
    assert received(account, topic) == []
    outcome = account.journal.entries(since=before, kind="event")[-1]["outcome"]
    assert outcome == "failed: the topic's policy does not allow events.amazonaws.com to publish"


def test_deleting_a_policy_restores_the_default_one(account: Account, resources: ResourceModels, topic: str) -> None:
    document = policy_for("events.amazonaws.com", topic)
    policy = resources.create("AWS::SNS::TopicPolicy", {"Topics": [topic], "PolicyDocument": document})
    resources.delete(policy)
    make_rule(resources, topic)
    emit(account)
    assert received(account, topic) == []


def test_rule_changes_in_place_and_is_deleted_with_its_targets(
    resources: ResourceModels, clients: Clients, topic: str
) -> None:
    rule, bus = make_rule(resources, topic), clients("events")
    assert rule.attributes()["Arn"].endswith(":rule/cluster-events")
    resources.update(rule, {"EventPattern": {"source": ["aws.ec2"]}, "State": "DISABLED"})
    assert json.loads(bus.describe_rule(Name="cluster-events")["EventPattern"]) == {"source": ["aws.ec2"]}
    assert bus.list_targets_by_rule(Rule="cluster-events")["Targets"] == []
    resources.delete(rule)
    assert bus.list_rules()["Rules"] == []


def test_rule_with_targets_cannot_be_deleted_by_the_api(
    resources: ResourceModels, clients: Clients, topic: str
) -> None:
    make_rule(resources, topic)
    with RefusedWith("ValidationException", "targets"):
        clients("events").delete_rule(Name="cluster-events")


def test_targets_that_are_removed_during_a_delivery_stay_removed(
    account: Account, resources: ResourceModels, clients: Clients, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_rule(resources, topic)
    bus, seen = clients("events"), []

    def deliver(*_: object) -> None:
        seen.extend(bus.list_targets_by_rule(Rule="cluster-events")["Targets"])
        bus.remove_targets(Rule="cluster-events", Ids=["Target0"])

    monkeypatch.setattr(events, "_deliver_elsewhere", deliver)
    emit(account)
    assert seen == [{"Arn": topic, "Id": "Target0"}]
    assert bus.list_targets_by_rule(Rule="cluster-events")["Targets"] == []


def test_topic_changes_in_place(resources: ResourceModels, clients: Clients) -> None:
    sns = clients("sns")
    model = resources.create("AWS::SNS::Topic", {"Tags": [{"Key": "a", "Value": "1"}]}, name="t")
    arn = model.physical_resource_id
    resources.update(model, {"DisplayName": "T", "Tags": [{"Key": "b", "Value": "2"}]})
    assert sns.get_topic_attributes(TopicArn=arn)["Attributes"]["DisplayName"] == "T"
    assert sns.list_tags_for_resource(ResourceArn=arn)["Tags"] == [{"Key": "b", "Value": "2"}]
    assert model.attributes()["TopicName"] == "t"
    resources.delete(model)
    assert sns.list_topics()["Topics"] == []


def test_subscription_by_mail(resources: ResourceModels, clients: Clients, topic: str) -> None:
    properties = {"TopicArn": topic, "Protocol": "email", "Endpoint": "team@example.org"}
    subscription = resources.create("AWS::SNS::Subscription", properties)
    found = clients("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert [each["Endpoint"] for each in found] == ["team@example.org"]
    resources.delete(subscription)
    assert clients("sns").list_subscriptions()["Subscriptions"] == []


def test_deleted_key_waits_for_its_pending_window(resources: ResourceModels, clients: Clients) -> None:
    kms = clients("kms")
    root = {"AWS": "arn:aws:iam::111122223333:root"}
    allowed = {"Effect": "Allow", "Principal": root, "Action": "kms:*", "Resource": "*"}
    policy = {"Version": "2012-10-17", "Statement": [allowed]}
    properties = {"KeyPolicy": policy, "EnableKeyRotation": True, "PendingWindowInDays": 7}
    key = resources.create("AWS::KMS::Key", properties)
    key_id = key.physical_resource_id
    assert kms.get_key_rotation_status(KeyId=key_id)["KeyRotationEnabled"] is True
    alias = resources.create("AWS::KMS::Alias", {"AliasName": "alias/data", "TargetKeyId": key_id})
    assert kms.describe_key(KeyId="alias/data")["KeyMetadata"]["KeyId"] == key_id
    resources.update(key, {**properties, "EnableKeyRotation": False, "Description": "new", "Tags": []})
    assert kms.describe_key(KeyId=key_id)["KeyMetadata"]["Description"] == "new"
    assert kms.get_key_rotation_status(KeyId=key_id)["KeyRotationEnabled"] is False
    resources.delete(alias)
    resources.delete(key)
    assert kms.describe_key(KeyId=key_id)["KeyMetadata"]["KeyState"] == "PendingDeletion"


def test_alias_moves_to_another_key_in_place(resources: ResourceModels, clients: Clients) -> None:
    first, second = (clients("kms").create_key()["KeyMetadata"]["KeyId"] for _ in range(2))
    alias = resources.create("AWS::KMS::Alias", {"AliasName": "alias/data", "TargetKeyId": first})
    resources.update(alias, {"AliasName": "alias/data", "TargetKeyId": second})
    assert clients("kms").describe_key(KeyId="alias/data")["KeyMetadata"]["KeyId"] == second
    with RefusedWith("AlreadyExistsException", "alias/data"):
        resources.create("AWS::KMS::Alias", {"AliasName": "alias/data", "TargetKeyId": first})
    with RefusedWith(None, "cannot update AliasName of AWS::KMS::Alias:"):
        resources.update(alias, {"AliasName": "alias/other", "TargetKeyId": second})


def test_what_the_account_does_not_implement_is_refused(resources: ResourceModels) -> None:
    with RefusedWith(None, "AWS::SNS::Topic: the embedded account does not implement FifoTopic"):
        resources.create("AWS::SNS::Topic", {"FifoTopic": True}, name="t.fifo")
    with RefusedWith(None, "AWS::KMS::Key: the embedded account does not implement MultiRegion"):
        resources.create("AWS::KMS::Key", {"MultiRegion": True})
    with RefusedWith(None, "AWS::Events::Rule: the embedded account does not implement RoleArn"):
        resources.create("AWS::Events::Rule", {"RoleArn": "arn"}, name="r")


def test_clusters_events_and_states_reach_eventbridge(account: Account, resources: ResourceModels, topic: str) -> None:
    resources.create(
        "AWS::SNS::TopicPolicy", {"Topics": [topic], "PolicyDocument": policy_for("events.amazonaws.com", topic)}
    )
    make_rule(resources, topic, ["SageMaker HyperPod Cluster Event", "SageMaker HyperPod Cluster State Change"])
    world = simulator_of(account).world
    cluster = SimulatedCluster(
        "ml", "arn:aws:sagemaker:us-west-2:1:cluster/abcdefghijkl", {}, {}, world.timeline.now(), "eks"
    )
    world.event(cluster, "It is made.")
    world.event(cluster, "Something failed.", level="Error", metadata={"Cluster": {"FailureMessage": "hidden"}})
    details = [message["detail"] for message in received(account, topic)]
    assert [detail.get("ClusterStatus") for detail in details] == [None, "Creating", None]
    assert [detail["EventDetails"]["EventLevel"] for detail in details if "EventDetails" in detail] == ["Info", "Error"]
    assert all(detail.get("EventDetails", detail)["ClusterName"] == "ml" for detail in details)
    assert "hidden" not in str(details)


ALARM = {
    "ComparisonOperator": "GreaterThanOrEqualToThreshold",
    "EvaluationPeriods": 1,
    "MetricName": "failed",
    "Namespace": "ContainerInsights",
    "Period": 300,
    "Statistic": "Maximum",
    "Threshold": 1.0,
}


def test_an_alarm_on_a_topic_that_does_not_exist_is_refused(
    clients: Clients, resources: ResourceModels, topic: str
) -> None:
    resources.create("AWS::CloudWatch::Alarm", {**ALARM, "AlarmActions": [topic]}, name="kept")
    with RefusedWith(None, ":gone does not exist"):
        resources.create("AWS::CloudWatch::Alarm", {**ALARM, "AlarmActions": [f"{topic}:gone"]}, name="refused")
    assert [alarm["AlarmName"] for alarm in clients("cloudwatch").describe_alarms()["MetricAlarms"]] == ["kept"]


def body(*widgets: dict[str, Any]) -> str:
    return json.dumps({"widgets": widgets})


def metric(*line: Any, **place: int) -> dict[str, Any]:
    return {"type": "metric", **place, "properties": {"region": "us-west-2", "metrics": [list(line)]}}


def test_a_dashboard_shows_alarms_and_metrics_until_it_is_deleted(clients: Clients, resources: ResourceModels) -> None:
    alarm = resources.create("AWS::CloudWatch::Alarm", ALARM, name="a").attributes()["Arn"]
    text = {"type": "text", "width": 24, "properties": {"markdown": "a"}}
    shown = {"type": "alarm", "properties": {"title": "a", "alarms": [alarm]}}
    formula = metric({"expression": "m0 / PERIOD(m0)"})
    plain = metric("AWS/FSx", "DataReadBytes", "FileSystemId", "fs-1", {"id": "m0"})
    whole = body(text, shown, formula, plain)
    made = resources.create("AWS::CloudWatch::Dashboard", {"DashboardBody": whole}, "ml_1-a")
    assert made.physical_resource_id == "ml_1-a"
    assert clients("cloudwatch").get_dashboard(DashboardName="ml_1-a")["DashboardBody"] == whole
    with RefusedWith(None, "DashboardName ml_1-a: another dashboard of the account has this name"):
        resources.create("AWS::CloudWatch::Dashboard", {"DashboardBody": whole}, "ml_1-a")
    resources.delete(made)
    assert clients("cloudwatch").list_dashboards()["DashboardEntries"] == []


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.b", body(), "DashboardName a.b: only 1 to 255 letters, digits, - and _ are allowed"),
        ("a", "{", "DashboardBody: it is not JSON"),
        ("a", "[]", "DashboardBody: it has no list `widgets`"),
        ("a", body(*[metric("n", "m")] * 501), "it has 501 widgets; 500 are allowed"),
        ("a", body({"type": "text"}), "widgets[0]: it has no `properties`"),
        ("a", body({"type": "txt", "properties": {}}), "the type txt is unknown"),
        ("a", body({"type": "text", "properties": {}}), "a text has no `markdown`"),
        ("a", body(metric("n", "m", x=24)), "x is 24"),
        ("a", body(metric("n", "m", width=25)), "width is 25"),
        ("a", body(metric("n", "m", "d")), "is no metric"),
        ("a", body(metric({"label": "a"})), "is no metric"),
        ("a", body({"type": "alarm", "properties": {"alarms": []}}), "it shows 0 alarms; 1 to 100 are allowed"),
        ("a", body({"type": "alarm", "properties": {"alarms": ["arn:a"]}}), "the alarm arn:a does not exist"),
    ],
)
def test_a_dashboard_that_cloudwatch_could_not_show_is_refused(
    clients: Clients, resources: ResourceModels, name: str, text: str, reason: str
) -> None:
    with RefusedWith(None, reason):
        resources.create("AWS::CloudWatch::Dashboard", {"DashboardBody": text}, name)
    assert clients("cloudwatch").list_dashboards()["DashboardEntries"] == []
