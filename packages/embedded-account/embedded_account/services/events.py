"""EventBridge: CloudFormation's model of rules, and the delivery of AWS services' events to SNS topics.

moto delivers events only to log groups, queues and buses. This module adds SNS topics. As on AWS, the topic's policy
decides whether EventBridge can publish.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from moto.events import models as moto_events
from moto.events.models import Rule as MotoRule
from moto.events.models import events_backends
from moto.sns.models import sns_backends

from embedded_account.context import Account
from embedded_account.services.keys import unusable
from embedded_account.services.shared.api_model import ApiModel, Properties
from embedded_account.services.shared.resource_model import cloudformation_model, serve

_PRINCIPAL = "events.amazonaws.com"
_deliver_elsewhere = MotoRule.send_to_targets


class _Rules(OrderedDict[str, Any]):
    """The rules of a bus. A stack may add one while an event is delivered to those that there are."""

    def values(self) -> Any:
        return list(super().values())


def install(account: Account) -> None:
    """Let the model act on this account, and let rules deliver events to its topics."""
    serve(account)
    moto_events.OrderedDict = _Rules

    def send_to_targets(rule: Any, event: Mapping[str, Any], transform_input: bool = True) -> None:
        """Publish to the rule's SNS topics and let moto deliver to its other targets; moto raises for topics."""
        topics = [target for target in rule.targets if target["Arn"].split(":")[2] == "sns"]
        others = [target for target in rule.targets if target not in topics]
        if rule.event_pattern.matches_event(event):
            for target in topics:
                _publish(account, rule, target["Arn"], event)
        # A copy, because the caller of RemoveTargets must not wait for a delivery, nor be undone by its end.
        elsewhere = copy(rule)
        elsewhere.targets = others
        _deliver_elsewhere(elsewhere, event, transform_input)

    MotoRule.send_to_targets = send_to_targets


def emit(
    account: Account, *, source: str, detail_type: str, detail: Mapping[str, Any], resources: Sequence[str] = ()
) -> None:
    """Put an event of an AWS service, such as aws.sagemaker, on the default bus."""
    event = {
        "Source": source,
        "DetailType": detail_type,
        "Detail": json.dumps(detail, default=str),
        "Resources": list(resources),
    }
    events_backends[account.account_id][account.region].put_events([event])


def _publish(account: Account, rule: Any, topic_arn: str, event: Mapping[str, Any]) -> None:
    """Publish the event and record the outcome in the journal: EventBridge does not report a refused event."""
    topic = sns_backends[account.account_id][account.region].topics.get(topic_arn)
    outcome = "delivered"
    if topic is None:
        outcome = "failed: no such topic"
    elif not _may_publish(json.loads(topic.policy)):
        outcome = f"failed: the topic's policy does not allow {_PRINCIPAL} to publish"
    elif why := _key_refused(account, topic):
        outcome = f"failed: the topic's KMS key {why}"
    else:
        topic.publish(json.dumps(event, default=str))
    account.journal.record("event", rule=rule.name, topic=topic_arn, outcome=outcome)


def _key_refused(account: Account, topic: Any) -> str:
    """Return why EventBridge cannot encrypt for the topic; "" if it can or need not."""
    if not (key := topic.kms_master_key_id):
        return ""
    return unusable(account.account_id, account.region, key, "kms:GenerateDataKey", "kms:Decrypt", principal=_PRINCIPAL)


def _may_publish(policy: Mapping[str, Any]) -> bool:
    for statement in policy["Statement"]:
        principal = statement["Principal"]
        services = principal.get("Service", []) if isinstance(principal, dict) else []
        actions = _as_list(statement["Action"])
        named = statement["Effect"] == "Allow" and _PRINCIPAL in _as_list(services)
        if named and any(action.lower() in ("sns:publish", "sns:*") for action in actions):
            return True
    return False


def _as_list(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


@cloudformation_model("AWS::Events::Rule", name_property="Name")
class EventRule(ApiModel):
    """A rule of the default bus with its targets; `Ref` is its name."""

    SERVICE = "events"
    MUTABLE = frozenset({"Description", "EventPattern", "State", "Tags", "Targets"})
    KNOWN = MUTABLE | {"Name", "ScheduleExpression"}

    def make(self) -> str:
        self._put(**self.only("Tags"))
        return self.declaration.name

    def settle(self) -> None:
        self._put_targets(self.properties.get("Targets", []))

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        self._put()
        if "Tags" in changed:
            self._tag(old.get("Tags", []))
        after = self.properties.get("Targets", [])
        kept = {target["Id"] for target in after}
        self._remove_targets([target["Id"] for target in old.get("Targets", []) if target["Id"] not in kept])
        self._put_targets(after)

    def unmake(self) -> None:
        self._remove_targets([target["Id"] for target in self.properties.get("Targets", [])])
        self.api.delete_rule(Name=self.declaration.name)

    def attributes(self) -> dict[str, Any]:
        found = self.api.describe_rule(Name=self.declaration.name)
        return {"Arn": found["Arn"], "RuleName": self.declaration.name}

    def _tag(self, before: list[Properties]) -> None:
        arn, after = self.attributes()["Arn"], self.properties.get("Tags", [])
        if gone := {tag["Key"] for tag in before} - {tag["Key"] for tag in after}:
            self.api.untag_resource(ResourceARN=arn, TagKeys=sorted(gone))
        if after:
            self.api.tag_resource(ResourceARN=arn, Tags=after)

    def _put(self, **more: Any) -> None:
        given = self.only("Description", "ScheduleExpression", "State")
        if "EventPattern" in self.properties:
            given["EventPattern"] = json.dumps(self.properties["EventPattern"])
        self.api.put_rule(Name=self.declaration.name, **given, **more)

    def _put_targets(self, targets: list[Properties]) -> None:
        if targets:
            response = self.api.put_targets(Rule=self.declaration.name, Targets=targets)
            for failed in response["FailedEntries"]:
                self.refuse(f"{failed['TargetId']}: {failed['ErrorMessage']}")

    def _remove_targets(self, identifiers: list[str]) -> None:
        if identifiers:
            self.api.remove_targets(Rule=self.declaration.name, Ids=identifiers)
