"""CloudWatch: CloudFormation's model of alarms. No metric arrives, so that no alarm leaves INSUFFICIENT_DATA."""

from typing import Any

from embedded_account.context import Account
from embedded_account.services.shared.api_model import ApiModel, Properties, client
from embedded_account.services.shared.resource_model import cloudformation_model, serve

_MUTABLE = frozenset(
    {
        "ActionsEnabled",
        "AlarmActions",
        "AlarmDescription",
        "ComparisonOperator",
        "Dimensions",
        "EvaluationPeriods",
        "InsufficientDataActions",
        "MetricName",
        "Namespace",
        "OKActions",
        "Period",
        "Statistic",
        "Tags",
        "Threshold",
        "TreatMissingData",
    }
)


def install(account: Account) -> None:
    """Let the model act on this account."""
    serve(account)


@cloudformation_model("AWS::CloudWatch::Alarm", name_property="AlarmName")
class Alarm(ApiModel):
    """An alarm on one metric; `Ref` is its name. PutMetricAlarm replaces all properties of an alarm but its tags."""

    SERVICE = "cloudwatch"
    MUTABLE = _MUTABLE
    KNOWN = _MUTABLE | {"AlarmName"}

    def make(self) -> str:
        self._refuse_unknown_topics()
        self._put(Tags=self.properties.get("Tags", []))
        return self.declaration.name

    def change(self, old: Properties, changed: frozenset[str]) -> None:
        self._refuse_unknown_topics()
        self._put()
        if "Tags" in changed:
            arn, after = self.attributes()["Arn"], self.properties.get("Tags", [])
            if gone := {tag["Key"] for tag in old.get("Tags", [])} - {tag["Key"] for tag in after}:
                self.api.untag_resource(ResourceARN=arn, TagKeys=sorted(gone))
            if after:
                self.api.tag_resource(ResourceARN=arn, Tags=after)

    def unmake(self) -> None:
        self.api.delete_alarms(AlarmNames=[self.physical_resource_id])

    def attributes(self) -> dict[str, Any]:
        [found] = self.api.describe_alarms(AlarmNames=[self.declaration.name])["MetricAlarms"]
        return {"Arn": found["AlarmArn"]}

    def _put(self, **more: Any) -> None:
        given = {name: value for name, value in self.properties.items() if name not in ("AlarmName", "Tags")}
        self.api.put_metric_alarm(AlarmName=self.declaration.name, **given, **more)

    def _refuse_unknown_topics(self) -> None:
        """Refuse actions on topics that do not exist: CloudWatch would accept them, and nobody would be called."""
        topics = {topic["TopicArn"] for topic in client(self.account, "sns").list_topics()["Topics"]}
        for name in ("AlarmActions", "InsufficientDataActions", "OKActions"):
            for arn in self.properties.get(name, []):
                if ":sns:" in arn and arn not in topics:
                    self.refuse(f"{name}: the topic {arn} does not exist")
