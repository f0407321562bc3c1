"""Call the AWS APIs: every call of these resources is in this module."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

import boto3
import botocore.session
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.model import ServiceModel

from .errors import TransientError, code, in_words, is_propagation, is_transient

MODELS = Path(__file__).with_name("models")
CONNECT_SECONDS, READ_SECONDS = 5, 20
RETRY_SECONDS = 5.0
RESERVE_SECONDS = CONNECT_SECONDS + READ_SECONDS + 5.0
"""Seconds that must be left of the invocation before a call: a call can last as long as the SDK's time-outs, and a
function that Lambda ends during a call gives no reason."""
CONSISTENCY_SECONDS = 300
"""How long DescribeCluster may fail to find a cluster after CreateCluster was accepted."""
RECHECK_SECONDS = 30
"""How long a rollback looks again for an update, and the guard for a cluster, that may be too new to be visible.

Most rollbacks see nothing, so each would last CONSISTENCY_SECONDS (ADR 85).
"""

_CHANGES = frozenset({"CreateCluster", "UpdateCluster", "DeleteCluster", "AddTags", "DeleteTags"})

Shape = dict[str, Any]


def make_client(service: str) -> Any:
    """Return a client with the service model packed beside this file, whichever botocore runs it.

    `data_path` is botocore's own setting (AWS_DATA_PATH); a model there overrides botocore's copy. The SDK tries once:
    `HyperPod` retries, because it knows how much time is left.
    """
    session = botocore.session.Session()
    session.set_config_variable("data_path", str(MODELS))
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    sdk: Any = boto3.Session(botocore_session=session)
    return sdk.client(service, config=config)


class HyperPodClient:
    """The API with retries: transient errors are retried as long as the invocation's time allows.

    `before_change` runs before each attempt of a call that changes something, because minutes can pass between two
    attempts. An exception that it raises ends the call.

    Args:
        client: A boto3 SageMaker client.
        cloudformation: Returns a boto3 CloudFormation client; called only when it is needed.
        time_left: Returns the seconds that are left of the invocation.
        now: Returns the seconds since the epoch.
        sleep: Waits for so many seconds.
    """

    def __init__(
        self,
        client: Any,
        *,
        cloudformation: Callable[[], Any],
        time_left: Callable[[], float],
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._cloudformation = cloudformation
        self._time_left = time_left
        self.sleep = sleep
        self.now = now
        self.before_change: Callable[[], None] = lambda: None

    @property
    def model(self) -> ServiceModel:
        """Return the client's service model."""
        model: ServiceModel = self._client.meta.service_model
        return model

    def pause(self) -> bool:
        """Wait before a retry and return True; return False at once if the invocation has no time left for it."""
        if self._time_left() < RESERVE_SECONDS + RETRY_SECONDS:
            return False
        self.sleep(RETRY_SECONDS)
        return True

    def create(self, request: Mapping[str, Any]) -> None:
        """Call CreateCluster."""
        self._call("CreateCluster", **request)

    def update(self, request: Mapping[str, Any]) -> None:
        """Call UpdateCluster."""
        self._call("UpdateCluster", **request)

    def delete(self, cluster: str) -> bool:
        """Call DeleteCluster, by name or ARN; return False if the cluster is busy and the caller must retry later."""
        try:
            self._call("DeleteCluster", ClusterName=cluster)
        except ClientError as error:
            if code(error) == "ConflictException":
                return False
            if code(error) != "ResourceNotFound":
                raise
        return True

    def find(self, name: str) -> Shape | None:
        """Return DescribeCluster's answer; None if there is no such cluster."""
        try:
            return self._call("DescribeCluster", ClusterName=name)
        except ClientError as error:
            if code(error) == "ResourceNotFound":
                return None
            raise

    def clusters(self) -> Iterator[Shape]:
        """Yield the summaries of all clusters of the account in this region."""
        return self._pages("ListClusters", "ClusterSummaries")

    def nodes(self, name: str) -> Iterator[Shape]:
        """Yield the summaries of a cluster's nodes."""
        return self._pages("ListClusterNodes", "ClusterNodeSummaries", ClusterName=name)

    def tags(self, arn: str) -> dict[str, str] | None:
        """Return the tags of a cluster; None if there is no such cluster.

        The service model names no error of ListTags for a missing cluster, so DescribeCluster decides.
        """
        try:
            return {tag["Key"]: tag["Value"] for tag in self._pages("ListTags", "Tags", ResourceArn=arn)}
        except ClientError as error:
            if code(error) in {"ResourceNotFound", "ValidationException"} and self.find(arn) is None:
                return None
            raise

    def add_tags(self, arn: str, tags: Mapping[str, str]) -> None:
        """Call AddTags, which overwrites existing keys."""
        self._call("AddTags", ResourceArn=arn, Tags=[{"Key": key, "Value": value} for key, value in tags.items()])

    def remove_tags(self, arn: str, keys: list[str]) -> None:
        """Call DeleteTags."""
        self._call("DeleteTags", ResourceArn=arn, TagKeys=keys)

    def newest_events(self, name: str, count: int) -> list[Shape]:
        """Return summaries of the newest events, the newest first; only continuous provisioning has events."""
        answer = self._call(
            "ListClusterEvents", ClusterName=name, SortBy="EventTime", SortOrder="Descending", MaxResults=count
        )
        events: list[Shape] = answer.get("Events", [])
        return events

    def event(self, name: str, event_id: str) -> Shape:
        """Return DescribeClusterEvent's details: the only source of failure messages of groups and instances."""
        details: Shape = self._call("DescribeClusterEvent", ClusterName=name, EventId=event_id)["EventDetails"]
        return details

    def stack_status(self, stack_id: str) -> str:
        """Return the status of one stack, which may have been deleted."""
        answer = self._call("DescribeStacks", client=self._cloudformation(), StackName=stack_id)
        status: str = answer["Stacks"][0]["StackStatus"]
        return status

    def began(self, stack_id: str, statuses: Collection[str]) -> str:
        """Return when the stack last entered one of these statuses, in the form of `Request.issued`; "" if never."""
        events = self._pages("DescribeStackEvents", "StackEvents", client=self._cloudformation(), StackName=stack_id)
        own = (each for each in events if each.get("PhysicalResourceId") == stack_id)
        newest = next((each["Timestamp"] for each in own if each["ResourceStatus"] in statuses), None)
        return f"{newest.astimezone(UTC):%Y%m%dT%H%M%SZ}" if newest else ""

    def _pages(self, operation: str, items: str, **request: Any) -> Iterator[Shape]:
        # An older botocore has no paginator for the newer lists.
        while True:
            page = self._call(operation, **request)
            yield from page.get(items, [])
            if not page.get("NextToken"):
                return
            request["NextToken"] = page["NextToken"]

    def _call(self, operation: str, *, client: Any = None, **request: Any) -> Shape:
        """Return the answer of a call, retried while that helps.

        Raises ClientError for an error of the service, TransientError or RefusedRequestError if no answer came.
        """
        method = getattr(client or self._client, xform_name(operation))
        while True:
            if operation in _CHANGES:
                self.before_change()
            if self._time_left() < RESERVE_SECONDS:
                raise TransientError(f"{operation} was not tried: no time is left of this invocation")
            try:
                answer: Shape = method(**request)
            except (ClientError, BotoCoreError) as error:
                waiting_helps = is_transient(error) or is_propagation(error)
                if not (waiting_helps and self.pause()):
                    if isinstance(error, ClientError):
                        raise
                    raise in_words(operation, error) from error
            else:
                return answer
