"""AWS Budgets: the calls on budgets of costs, and CloudFormation's model of one. Nothing costs anything here.

Simulated: budgets of costs per month in US$, filtered by tags. No notification is ever sent.
Refused although AWS accepts it: a topic that does not exist, whose policy does not admit AWS Budgets, or whose key it
cannot use: AWS would stay silent. Refused because it is not simulated: calls on single notifications, and actions.
Sources: AWS Cost Management API reference, CreateBudget, Budget, Notification and Spend; its user guide,
budgets-sns-policy; CloudFormation's schema of AWS::Budgets::Budget.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from moto.budgets.models import budgets_backends
from moto.budgets.responses import BudgetsResponse
from moto.sns.models import sns_backends

from embedded_account.context import Account
from embedded_account.services.iam.policies import UnsupportedPolicyError, admits
from embedded_account.services.keys import unusable
from embedded_account.services.shared.api_model import ApiModel, Properties
from embedded_account.services.shared.refusal import Refusal
from embedded_account.services.shared.resource_model import cloudformation_model, serve
from embedded_account.tags import tag_list, tag_map

PRINCIPAL: Final = "budgets.amazonaws.com"
_NAME: Final = re.compile(r"(?!.*/action/)[^:\\]{1,100}")
_AMOUNT: Final = re.compile(r"([0-9]*\.)?[0-9]+")
_TAG: Final = re.compile(r"(user|aws):[^$]+\$.+")
_MOST_NOTIFICATIONS: Final = 10
_MOST_EMAILS: Final = 10
_SIMULATED: Final = frozenset({"BudgetLimit", "BudgetName", "BudgetType", "CostFilters", "TimeUnit"})
_OPERATORS: Final = frozenset({"EQUAL_TO", "GREATER_THAN", "LESS_THAN"})
_NOT_SIMULATED: Final = ("create_notification", "delete_notification", "describe_notifications_for_budget")

Request = Mapping[str, Any]


def install(account: Account) -> None:
    """Answer the calls on budgets with AWS's checks, and serve the model."""
    serve(account)
    budgets = Budgets(account)
    for operation in ("create_budget", "update_budget", "tag_resource", "untag_resource", "list_tags_for_resource"):
        setattr(BudgetsResponse, operation, _route(getattr(budgets, operation)))
    for operation in _NOT_SIMULATED:
        setattr(BudgetsResponse, operation, _route(_refuse))


def _route(answer: Callable[[Request], Mapping[str, Any]]) -> Callable[[Any], str]:
    return lambda response: json.dumps(answer(json.loads(response.body)))


def _refuse(_request: Request) -> Mapping[str, Any]:
    raise _invalid("The account does not simulate calls on single notifications.")


def arn_of(account_id: str, name: str) -> str:
    """Return the ARN of a budget, which has no region."""
    return f"arn:aws:budgets::{account_id}:budget/{name}"


class Budgets:
    """The budgets of one account, which all regions share."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def create_budget(self, request: Request) -> Mapping[str, Any]:
        """Create a budget. Raises the service's error for values that it refuses, or that are not simulated."""
        budget, notifications = request["Budget"], request.get("NotificationsWithSubscribers", [])
        self._require(request, budget)
        if len(notifications) > _MOST_NOTIFICATIONS:
            raise Refusal(
                "CreationLimitExceededException", f"A budget has at most {_MOST_NOTIFICATIONS} notifications."
            )
        for each in notifications:
            self._require_notification(budget["BudgetName"], each["Notification"], each["Subscribers"])
        self._backend.create_budget(self._account.account_id, dict(budget), notifications)
        self._record(budget["BudgetName"]).tags = _tags(request.get("ResourceTags", []))
        return {}

    def update_budget(self, request: Request) -> Mapping[str, Any]:
        """Replace a budget's values; its notifications stay."""
        budget = request["NewBudget"]
        self._require(request, budget)
        record = self._record(budget["BudgetName"])
        kept = {name: value for name, value in record.budget.items() if name not in _SIMULATED}
        record.budget = {**kept, **budget}
        return {}

    def tag_resource(self, request: Request) -> Mapping[str, Any]:
        """Add tags to a budget."""
        self._tags_of(request).update(_tags(request["ResourceTags"]))
        return {}

    def untag_resource(self, request: Request) -> Mapping[str, Any]:
        """Remove tags from a budget."""
        tags = self._tags_of(request)
        for key in request["ResourceTagKeys"]:
            tags.pop(key, None)
        return {}

    def list_tags_for_resource(self, request: Request) -> Mapping[str, Any]:
        """Return the tags of a budget."""
        return {"ResourceTags": tag_list(self._tags_of(request))}

    @property
    def _backend(self) -> Any:
        return budgets_backends[self._account.account_id]["aws"]

    def _record(self, name: str) -> Any:
        self._backend.describe_budget(self._account.account_id, name)
        return self._backend.budgets[self._account.account_id][name]

    def _tags_of(self, request: Request) -> dict[str, str]:
        record = self._record(request["ResourceARN"].partition(":budget/")[2])
        tags: dict[str, str] = record.__dict__.setdefault("tags", {})
        return tags

    def _require(self, request: Request, budget: Request) -> None:
        if request["AccountId"] != self._account.account_id:
            raise Refusal("AccessDeniedException", f"Account {request['AccountId']} is not the caller's.")
        if unknown := sorted(budget.keys() - _SIMULATED):
            raise _invalid(f"The account does not simulate {', '.join(unknown)}.")
        if not _NAME.fullmatch(budget["BudgetName"]):
            raise _invalid("BudgetName needs 1 to 100 characters, without :, \\ and /action/.")
        if (budget["BudgetType"], budget["TimeUnit"]) != ("COST", "MONTHLY"):
            raise _invalid("The account simulates COST budgets of a MONTHLY period only.")
        limit = budget.get("BudgetLimit", {})
        if limit.get("Unit") != "USD" or not _AMOUNT.fullmatch(limit["Amount"]) or not float(limit["Amount"]):
            raise _invalid("BudgetLimit needs an Amount above 0 in USD.")
        filters = budget.get("CostFilters", {})
        if filters.keys() - {"TagKeyValue"}:
            raise _invalid("The account simulates the filter TagKeyValue only.")
        if wrong := [each for each in filters.get("TagKeyValue", []) if not _TAG.fullmatch(each)]:
            raise _invalid(f"TagKeyValue needs user:KEY$VALUE or aws:KEY$VALUE: {wrong[0]}")

    def _require_notification(self, name: str, wanted: Request, subscribers: Sequence[Request]) -> None:
        if wanted["NotificationType"] not in ("ACTUAL", "FORECASTED") or wanted["ComparisonOperator"] not in _OPERATORS:
            raise _invalid("A notification is ACTUAL or FORECASTED, and compares by one of AWS's operators.")
        if not 0 < wanted["Threshold"] <= 1_000_000_000:
            raise _invalid("Threshold must be above 0.")
        kinds = [each["SubscriptionType"] for each in subscribers]
        if not kinds or kinds.count("SNS") > 1 or kinds.count("EMAIL") > _MOST_EMAILS:
            raise _invalid(f"A notification has 1 to {_MOST_EMAILS} EMAIL subscribers and at most one SNS.")
        if len({each["Address"] for each in subscribers}) < len(subscribers):
            raise Refusal("DuplicateRecordException", "A notification has each subscriber once.")
        for each in subscribers:
            if each["SubscriptionType"] == "SNS":
                self._require_topic(name, each["Address"])
            elif "@" not in each["Address"]:
                raise _invalid(f"{each['Address']} is no e-mail address.")

    def _require_topic(self, name: str, arn: str) -> None:
        owner, region = self._account.account_id, [*arn.split(":"), "", "", "", ""][3]
        topic = sns_backends[owner][region].topics.get(arn) if region in sns_backends[owner] else None
        if topic is None:
            raise _invalid(f"The topic {arn} does not exist in this account.")
        context = {"aws:SourceAccount": owner, "aws:SourceArn": arn_of(owner, name), "aws:SecureTransport": "true"}
        try:
            admitted = admits(json.loads(topic.policy), {PRINCIPAL}, "sns:Publish", arn, context)
        except UnsupportedPolicyError as error:
            raise _invalid(f"The policy of the topic {arn} cannot be evaluated: {error}") from error
        if not admitted:
            raise _invalid(f"The policy of the topic {arn} does not let {PRINCIPAL} publish.")
        if not topic.kms_master_key_id:
            return
        actions = ("kms:GenerateDataKey", "kms:Decrypt")
        why = unusable(owner, region, topic.kms_master_key_id, *actions, principal=PRINCIPAL, context=context)
        if why:
            raise _invalid(f"The key of the topic {arn} {why}.")


def _tags(given: Iterable[Request]) -> dict[str, str]:
    return tag_map(given)


def _invalid(message: str) -> Refusal:
    return Refusal("InvalidParameterException", message)


@cloudformation_model("AWS::Budgets::Budget")
class Budget(ApiModel):
    """A budget; `Ref` is its name. CloudFormation names it if the template does not."""

    SERVICE = "budgets"
    MUTABLE = frozenset({"Budget.BudgetLimit", "Budget.CostFilters", "ResourceTags"})
    KNOWN = frozenset({"Budget", "NotificationsWithSubscribers", "ResourceTags"})

    def make(self) -> str:
        data = self._data()
        self.api.create_budget(
            AccountId=self.account.account_id,
            Budget=data,
            NotificationsWithSubscribers=self.properties.get("NotificationsWithSubscribers", []),
            **self.only("ResourceTags"),
        )
        return str(data["BudgetName"])

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        if "Budget" in changed:
            self.api.update_budget(AccountId=self.account.account_id, NewBudget=self._data())
        if "ResourceTags" in changed:
            arn = arn_of(self.account.account_id, self.physical_resource_id)
            after = self.properties.get("ResourceTags", [])
            if gone := {tag["Key"] for tag in old.get("ResourceTags", [])} - {tag["Key"] for tag in after}:
                self.api.untag_resource(ResourceARN=arn, ResourceTagKeys=sorted(gone))
            if after:
                self.api.tag_resource(ResourceARN=arn, ResourceTags=after)

    def unmake(self) -> None:
        self.api.delete_budget(AccountId=self.account.account_id, BudgetName=self.physical_resource_id)

    def attributes(self) -> dict[str, Any]:
        return {"Id": self.physical_resource_id}

    def _data(self) -> Properties:
        """Return the budget as the service takes it: with a name, and the amount as text."""
        data = {"BudgetName": self.physical_resource_id or self.declaration.name, **self.properties["Budget"]}
        if limit := data.get("BudgetLimit"):
            data["BudgetLimit"] = {**limit, "Amount": str(limit["Amount"])}
        return data
