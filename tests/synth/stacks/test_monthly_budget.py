"""`notifications.monthly_budget_usd`: the budget, whom it calls, and the tag by which AWS finds the costs."""

import json

import pytest

from config import naming
from embedded_account.cloudformation.templates.resource_types import resource_types
from rehearsal.paths import NODE_MODULES
from tests.synth.support.synthesis import Assemblies, Assembly, Template
from tests.synth.support.variants import BUDGETED

TAG = {naming.BUDGET_TAG: "slurmhp-slurm-us-west-2"}
FOR_THE_ACCOUNT = {
    "StringEquals": {"aws:SourceAccount": "111122223333"},
    "ArnLike": {"aws:SourceArn": "arn:aws:budgets::111122223333:*"},
}


@pytest.fixture(scope="module")
def slurm(assembly: Assemblies) -> Assembly:
    return assembly(BUDGETED)


@pytest.fixture(scope="module")
def hyperpod(slurm: Assembly) -> Template:
    return slurm.templates["hyperpod"]


def test_without_the_key_nothing_is_budgeted_or_tagged(assembly: Assemblies) -> None:
    for template in assembly("dev").templates.values():
        assert template.all("AWS::Budgets::Budget") == {}
        assert naming.BUDGET_TAG not in json.dumps(template.body)


def test_the_budget_counts_the_months_costs_of_what_has_the_tag(hyperpod: Template) -> None:
    assert hyperpod.only("AWS::Budgets::Budget")["Budget"] == {
        "BudgetLimit": {"Amount": 20_000, "Unit": "USD"},
        "BudgetType": "COST",
        "CostFilters": {"TagKeyValue": [f"user:{key}${value}" for key, value in TAG.items()]},
        "TimeUnit": "MONTHLY",
    }


def test_every_resource_that_can_have_tags_has_the_budgets(slurm: Assembly) -> None:
    known = resource_types(NODE_MODULES)
    for template in slurm.templates.values():
        for id, resource in template.body["Resources"].items():
            kind = known.get(resource["Type"])
            name = kind.tags.name if kind and kind.tags else "Tags"
            if (kind and kind.tags) or resource["Type"] == "Custom::HyperPodCluster":
                tags = resource["Properties"].get(name, [])
                tags = tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
                assert TAG.items() <= tags.items(), id


def test_it_notifies_the_topic_of_the_clusters_events(hyperpod: Template) -> None:
    [topic] = hyperpod.all("AWS::SNS::Topic")
    found = hyperpod.only("AWS::Budgets::Budget")["NotificationsWithSubscribers"]
    of_topic = [{"Address": {"Ref": topic}, "SubscriptionType": "SNS"}]
    assert [each["Subscribers"] for each in found] == [of_topic] * 3
    wanted = [each["Notification"] for each in found]
    at = [(each["NotificationType"], each["Threshold"]) for each in wanted]
    assert at == [("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)]
    rest = {(each["ComparisonOperator"], each["ThresholdType"]) for each in wanted}
    assert rest == {("GREATER_THAN", "PERCENTAGE")}


def test_aws_budgets_may_publish_encrypted_messages_for_this_account_only(hyperpod: Template) -> None:
    [publish] = [
        each
        for each in hyperpod.only("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
        if each.get("Principal") == {"Service": "budgets.amazonaws.com"}
    ]
    [topic] = hyperpod.all("AWS::SNS::Topic")
    assert (publish["Action"], publish["Resource"]) == ("sns:Publish", {"Ref": topic})
    [use] = [
        each
        for each in hyperpod.only("AWS::KMS::Key")["KeyPolicy"]["Statement"]
        if each["Principal"] == {"Service": "budgets.amazonaws.com"}
    ]
    assert use["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]
    assert publish["Condition"] == use["Condition"] == FOR_THE_ACCOUNT
    [budget] = hyperpod.all("AWS::Budgets::Budget")
    [policy] = hyperpod.all("AWS::SNS::TopicPolicy")
    assert policy in hyperpod.body["Resources"][budget]["DependsOn"]
