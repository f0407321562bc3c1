"""Test AWS Budgets: what a budget needs, what it refuses, and that it leaves nothing."""

import json
from typing import Any

import pytest

from embedded_account.context import Account
from embedded_account.inventory.report import collect
from embedded_account.services.budgets import PRINCIPAL, arn_of
from embedded_account.testing.clients import Clients
from embedded_account.testing.resources import RefusedWith, ResourceModels

KIND = "AWS::Budgets::Budget"
TAG = "user:ray-on-hyperpod-budget$rayhp-dev-us-west-2"


@pytest.fixture
def resources(account: Account) -> ResourceModels:
    return ResourceModels(account)


@pytest.fixture
def statement(account: Account) -> dict[str, Any]:
    """Return what lets AWS Budgets do something for this account, without action and resource."""
    owner = account.account_id
    return {
        "Effect": "Allow",
        "Principal": {"Service": PRINCIPAL},
        "Condition": {
            "StringEquals": {"aws:SourceAccount": owner},
            "ArnLike": {"aws:SourceArn": f"arn:aws:budgets::{owner}:*"},
        },
    }


@pytest.fixture
def topic(resources: ResourceModels, statement: dict[str, Any]) -> str:
    arn = str(resources.create("AWS::SNS::Topic", {}, name="money").physical_resource_id)
    admit(resources, arn, {**statement, "Action": "sns:Publish", "Resource": arn})
    return arn


def admit(resources: ResourceModels, topic: str, *statements: dict[str, Any]) -> None:
    document = {"Version": "2012-10-17", "Statement": statements}
    resources.create("AWS::SNS::TopicPolicy", {"Topics": [topic], "PolicyDocument": document})


def notification(*subscribers: tuple[str, str], **changes: Any) -> dict[str, Any]:
    wanted = {
        "NotificationType": "ACTUAL",
        "ComparisonOperator": "GREATER_THAN",
        "Threshold": 80,
        "ThresholdType": "PERCENTAGE",
    }
    listed = [{"SubscriptionType": kind, "Address": address} for kind, address in subscribers]
    return {"Notification": {**wanted, **changes}, "Subscribers": listed}


def budget(*notifications: dict[str, Any], **changes: Any) -> dict[str, Any]:
    data = {
        "BudgetLimit": {"Amount": 20000, "Unit": "USD"},
        "BudgetType": "COST",
        "CostFilters": {"TagKeyValue": [TAG]},
        "TimeUnit": "MONTHLY",
    }
    return {"Budget": {**data, **changes}, "NotificationsWithSubscribers": list(notifications)}


def test_a_budget_has_cloudformations_name_and_leaves_nothing(
    account: Account, clients: Clients, resources: ResourceModels, topic: str
) -> None:
    made = resources.create(KIND, budget(notification(("SNS", topic))), name="dev-hyperpod-Budget-1")
    [found] = clients("budgets").describe_budgets(AccountId=account.account_id)["Budgets"]
    assert (found["BudgetName"], found["BudgetLimit"]["Amount"]) == ("dev-hyperpod-Budget-1", "20000")
    arn = arn_of(account.account_id, "dev-hyperpod-Budget-1")
    assert (KIND, made.physical_resource_id, arn) in {(item.type, item.id, item.arn) for item in collect(account)}

    made.remove()
    assert KIND not in {item.type for item in collect(account)}


def test_a_name_is_unique_in_the_account(resources: ResourceModels) -> None:
    resources.create(KIND, budget(BudgetName="money"))
    with RefusedWith("DuplicateRecordException", "money"):
        resources.create(KIND, budget(BudgetName="money"))


WRONG_BUDGETS: dict[str, dict[str, Any]] = {
    "BudgetName needs 1 to 100": {"BudgetName": "a:b"},
    "and /action/": {"BudgetName": "a/action/b"},
    "COST budgets": {"BudgetType": "USAGE"},
    "MONTHLY period": {"TimeUnit": "DAILY"},
    "above 0": {"BudgetLimit": {"Amount": 0, "Unit": "USD"}},
    "in USD": {"BudgetLimit": {"Amount": 10, "Unit": "EUR"}},
    "user:KEY$VALUE": {"CostFilters": {"TagKeyValue": ["environment=dev"]}},
    "TagKeyValue only": {"CostFilters": {"Service": ["a"]}},
    "does not simulate AutoAdjustData": {"AutoAdjustData": {"AutoAdjustType": "FORECAST"}},
}
WRONG_NOTIFICATIONS = {
    "1 to 10 EMAIL subscribers": notification(*(("EMAIL", f"{n}@example.com") for n in range(11))),
    "at most one SNS": notification(("SNS", "a"), ("SNS", "b")),
    "no e-mail address": notification(("EMAIL", "nobody")),
    "Threshold must be above 0": notification(("EMAIL", "a@example.com"), Threshold=0),
    "ACTUAL or FORECASTED": notification(("EMAIL", "a@example.com"), NotificationType="PLANNED"),
    ":gone does not exist": notification(("SNS", "arn:aws:sns:us-west-2:111122223333:gone")),
}


def test_wrong_budgets_and_notifications_are_refused(
    account: Account, clients: Clients, resources: ResourceModels
) -> None:
    for text, change in WRONG_BUDGETS.items():
        with RefusedWith("InvalidParameterException", text):
            resources.create(KIND, budget(**change))
    for text, wanted in WRONG_NOTIFICATIONS.items():
        with RefusedWith("InvalidParameterException", text):
            resources.create(KIND, budget(wanted))
    twice = notification(("EMAIL", "a@example.com"), ("EMAIL", "a@example.com"))
    with RefusedWith("DuplicateRecordException", "each subscriber once"):
        resources.create(KIND, budget(twice))
    assert not clients("budgets").describe_budgets(AccountId=account.account_id)["Budgets"]


def test_calls_on_other_accounts_and_single_notifications_are_refused(account: Account, clients: Clients) -> None:
    budgets, wanted = clients("budgets"), notification(("EMAIL", "a@example.com"))
    data = {"BudgetName": "a", "BudgetType": "COST", "TimeUnit": "MONTHLY"}
    with RefusedWith("AccessDeniedException", "444455556666"):
        budgets.create_budget(AccountId="444455556666", Budget=data)
    with RefusedWith("InvalidParameterException", "single notifications"):
        budgets.create_notification(AccountId=account.account_id, BudgetName="a", **wanted)


def test_a_budget_has_at_most_ten_notifications(resources: ResourceModels) -> None:
    many = [notification(("EMAIL", "a@example.com"), Threshold=n) for n in range(1, 12)]
    with RefusedWith("CreationLimitExceededException", "at most 10"):
        resources.create(KIND, budget(*many))


def test_a_topic_must_let_budgets_of_this_account_publish(resources: ResourceModels, statement: dict[str, Any]) -> None:
    topic = str(resources.create("AWS::SNS::Topic", {}, name="closed").physical_resource_id)
    wanted = budget(notification(("SNS", topic)))
    with RefusedWith("InvalidParameterException", f"does not let {PRINCIPAL} publish"):
        resources.create(KIND, wanted)
    elsewhere = {"StringEquals": {"aws:SourceAccount": "444455556666"}}
    admit(resources, topic, {**statement, "Action": "sns:Publish", "Resource": topic, "Condition": elsewhere})
    with RefusedWith("InvalidParameterException", f"does not let {PRINCIPAL} publish"):
        resources.create(KIND, wanted)
    admit(resources, topic, {**statement, "Action": "sns:Publish", "Resource": topic})
    resources.create(KIND, wanted)


def test_budgets_must_be_able_to_use_the_topics_key(
    account: Account, clients: Clients, resources: ResourceModels, topic: str, statement: dict[str, Any]
) -> None:
    owner = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{account.account_id}:root"},
        "Action": "kms:*",
        "Resource": "*",
    }
    document: dict[str, Any] = {"Version": "2012-10-17", "Statement": [owner]}
    key = resources.create("AWS::KMS::Key", {"KeyPolicy": document}).physical_resource_id
    clients("sns").set_topic_attributes(TopicArn=topic, AttributeName="KmsMasterKeyId", AttributeValue=key)
    wanted = budget(notification(("SNS", topic)))
    with RefusedWith("InvalidParameterException", "does not allow budgets.amazonaws.com to call kms:GenerateDataKey"):
        resources.create(KIND, wanted)
    use = {**statement, "Action": ["kms:Decrypt", "kms:GenerateDataKey*"], "Resource": "*"}
    policy = json.dumps({**document, "Statement": [owner, use]})
    clients("kms").put_key_policy(KeyId=key, PolicyName="default", Policy=policy)
    resources.create(KIND, wanted)
