"""CloudWatch: CloudFormation's models of alarms and dashboards.

No metric arrives, so that no alarm leaves INSUFFICIENT_DATA and no chart of a dashboard has data.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from moto.cloudwatch.models import cloudwatch_backends

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

_DASHBOARD_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")
_MOST_WIDGETS: Final = 500
_MOST_ALARMS: Final = 100
_WIDGETS: Final = frozenset({"alarm", "custom", "explorer", "log", "metric", "text"})
_PLACE: Final = {"x": (0, 23), "y": (0, None), "width": (1, 24), "height": (1, 1000)}
"""The least and the greatest value of each number of a widget's place."""


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


@cloudformation_model("AWS::CloudWatch::Dashboard", name_property="DashboardName")
class Dashboard(ApiModel):
    """A dashboard; `Ref` is its name, which all regions of the account share.

    Refused although CloudWatch would accept it: a name that another dashboard has, which PutDashboard overwrites, and
    an alarm that does not exist. Sources: CloudWatch API reference, PutDashboard and "Dashboard Body Structure".
    """

    SERVICE = "cloudwatch"
    MUTABLE = frozenset({"DashboardBody", "Tags"})
    KNOWN = MUTABLE | {"DashboardName"}

    def make(self) -> str:
        name = self.declaration.name
        if not _DASHBOARD_NAME.fullmatch(name):
            self.refuse(f"DashboardName {name}: only 1 to 255 letters, digits, - and _ are allowed")
        regions = cloudwatch_backends[self.account.account_id].values()
        if any(name in backend.dashboards for backend in regions):
            self.refuse(f"DashboardName {name}: another dashboard of the account has this name")
        self._put()
        self._tag()
        return name

    def change(self, _old: Properties, changed: frozenset[str]) -> None:
        self._put()
        if "Tags" in changed:
            self._tag()

    def unmake(self) -> None:
        if self.physical_resource_id not in self._backend().dashboards:
            return  # For CloudFormation, what is gone is deleted.
        arn = self._arn()
        self.api.delete_dashboards(DashboardNames=[self.physical_resource_id])
        self._backend().tagger.delete_all_tags_for_resource(arn)

    def _tag(self) -> None:
        # moto's API keeps tags of alarms only.
        arn, tagger = self._arn(), self._backend().tagger
        tagger.delete_all_tags_for_resource(arn)
        tagger.tag_resource(arn, self.properties.get("Tags", []))

    def _arn(self) -> str:
        return str(self._backend().dashboards[self.declaration.name].arn)

    def _backend(self) -> Any:
        return cloudwatch_backends[self.account.account_id][self.account.region]

    def _put(self) -> None:
        body = self.properties.get("DashboardBody", "")
        for problem in _problems(body, self._alarms()):
            self.refuse(f"DashboardBody: {problem}")
        self.api.put_dashboard(DashboardName=self.declaration.name, DashboardBody=body)

    def _alarms(self) -> set[str]:
        pages = self.api.get_paginator("describe_alarms").paginate()
        return {alarm["AlarmArn"] for page in pages for alarm in page["MetricAlarms"]}


def _problems(text: str, alarms: set[str]) -> Iterator[str]:
    """Yield what is wrong with a dashboard's body."""
    try:
        body = json.loads(text)
    except json.JSONDecodeError as error:
        yield f"it is not JSON: {error}"
        return
    widgets = body.get("widgets") if isinstance(body, dict) else None
    if not isinstance(widgets, list):
        yield "it has no list `widgets`"
        return
    if len(widgets) > _MOST_WIDGETS:
        yield f"it has {len(widgets)} widgets; {_MOST_WIDGETS} are allowed"
    for number, widget in enumerate(widgets):
        yield from (f"widgets[{number}]: {problem}" for problem in _of_widget(widget, alarms))


def _of_widget(widget: Any, alarms: set[str]) -> Iterator[str]:
    properties = widget.get("properties") if isinstance(widget, dict) else None
    if not isinstance(properties, dict):
        yield "it has no `properties`"
        return
    kind = widget.get("type")
    if kind not in _WIDGETS:
        yield f"the type {kind} is unknown"
    for name, (least, most) in _PLACE.items():
        value = widget.get(name, least)
        if not isinstance(value, int) or value < least or (most is not None and value > most):
            yield f"{name} is {value}"
    if kind == "text" and not isinstance(properties.get("markdown"), str):
        yield "a text has no `markdown`"
    if kind == "alarm":
        shown = properties.get("alarms") or []
        if not 1 <= len(shown) <= _MOST_ALARMS:
            yield f"it shows {len(shown)} alarms; 1 to {_MOST_ALARMS} are allowed"
        yield from (f"the alarm {arn} does not exist" for arn in shown if arn not in alarms)
    if kind == "metric":
        yield from (f"{line} is no metric" for line in properties.get("metrics", []) if not _is_metric(line))


def _is_metric(line: Any) -> bool:
    """Return whether it is namespace, name, and pairs of dimensions, or a formula, each with options at the end."""
    if not isinstance(line, list) or not line:
        return False
    *words, last = line
    if isinstance(last, dict):
        return all(isinstance(word, str) for word in words) and (
            "expression" in last if not words else len(words) >= 2 and len(words) % 2 == 0
        )
    return len(line) >= 2 and len(line) % 2 == 0 and all(isinstance(word, str) for word in line)
