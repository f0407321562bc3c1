"""A budget of a month, which AWS compares with the costs of the resources that carry the environment's tag."""

from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_iam as iam
from constructs import Construct

from config import naming
from stacks.hyperpod.notifications import ClusterNotifications

_THRESHOLDS = (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
"""Percent of the budget at which AWS Budgets notifies: of what was spent, and of its forecast for the month."""


class MonthlyBudget(Construct):
    """A budget that notifies a topic, and that topic's permission for AWS Budgets.

    `filtered_by` is the value of the tag whose costs count; `tags` are those of the budget itself. CloudFormation
    names the budget, because a name is unique in an account over all regions.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        usd: int,
        filtered_by: str,
        tags: Mapping[str, str],
        receiver: ClusterNotifications,
    ) -> None:
        super().__init__(scope, id)
        self._admit(receiver)
        of_topic = budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=receiver.topic.topic_arn)
        budget = budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=usd, unit="USD"),
                # AWS Cost Management API reference, Budget: `user:` marks tags of users, `$` separates key and value.
                cost_filters={"TagKeyValue": [f"user:{naming.BUDGET_TAG}${filtered_by}"]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[of_topic],
                )
                for kind, percent in _THRESHOLDS
            ],
            # CDK does not tag this type by itself.
            resource_tags=[budgets.CfnBudget.ResourceTagProperty(key=k, value=v) for k, v in tags.items()],
        )
        budget.node.add_dependency(receiver.topic)

    def _admit(self, receiver: ClusterNotifications) -> None:
        """Let AWS Budgets publish for this account only (AWS Cost Management user guide, budgets-sns-policy)."""
        receiver.topic.add_to_resource_policy(self._allow(["sns:Publish"], receiver.topic.topic_arn))
        receiver.key.add_to_resource_policy(self._allow(["kms:Decrypt", "kms:GenerateDataKey*"], "*"))

    def _allow(self, actions: list[str], resource: str) -> iam.PolicyStatement:
        account = Stack.of(self).account
        return iam.PolicyStatement(
            sid="Budget",
            principals=[iam.ServicePrincipal("budgets.amazonaws.com")],
            actions=actions,
            resources=[resource],
            conditions={
                "StringEquals": {"aws:SourceAccount": account},
                "ArnLike": {"aws:SourceArn": f"arn:aws:budgets::{account}:*"},
            },
        )
