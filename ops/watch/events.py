"""Merge what HyperPod, CloudFormation and Kubernetes report about an environment, by time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import kubernetes
from botocore.exceptions import ClientError

from config import Environment, naming
from ops import hyperpod
from ops.clients import REQUEST_TIMEOUT, CallerAccount, Clients
from ops.errors import UnreachableError, as_viewer
from ops.readiness.events import failure

_PAGE: Final = 100


@dataclass(frozen=True)
class WatchedEvent:
    """One event; `key` is the same each time that the event is read.

    Attributes:
        source: HyperPod, CloudFormation or Kubernetes.
        level: Info, Warn, Error or Warning, as the source says it; Failed for CloudFormation.
        about: The instance, group, resource or object.
    """

    key: str
    time: datetime
    source: str
    level: str
    about: str
    message: str

    def as_data(self) -> dict[str, str]:
        """Return the event for JSON and YAML."""
        moment = self.time.astimezone(UTC).isoformat(timespec="seconds")
        return {
            "time": moment,
            "source": self.source,
            "level": self.level,
            "about": self.about,
            "message": self.message,
        }

    def __str__(self) -> str:
        """Return the event as one line."""
        moment = f"{self.time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
        return f"{moment} {self.source} {self.level} {self.about}: {' '.join(self.message.split())}"


@dataclass(frozen=True)
class EventList:
    """The events in order of time, and why a source could not be read, by its name.

    `is_of_any_source` says whether one source could be read.
    """

    events: list[WatchedEvent]
    unseen: dict[str, str]
    is_of_any_source: bool


def read_events(
    environment: Environment, account: CallerAccount, clients: Callable[[], Clients], since: datetime
) -> EventList:
    """Return the events after `since` of all sources that can be read; `clients` may raise UnreachableError."""
    sources: dict[str, Callable[[], Iterator[WatchedEvent]]] = {
        "HyperPod": lambda: _hyperpod(environment, account.client("sagemaker"), since),
        "CloudFormation": lambda: _cloudformation(environment, account.client("cloudformation"), since),
        "Kubernetes": lambda: _kubernetes(clients(), since),
    }
    events: list[WatchedEvent] = []
    unseen: dict[str, str] = {}
    for name, read in sources.items():
        try:
            with as_viewer():
                events += read()
        except UnreachableError as error:
            unseen[name] = str(error)
    return EventList(sorted(events, key=lambda event: event.time), unseen, len(unseen) < len(sources))


def _hyperpod(environment: Environment, sagemaker: Any, since: datetime) -> Iterator[WatchedEvent]:
    """Yield the cluster's events; only clusters with Continuous provisioning have them."""
    name = environment.hyperpod.cluster_name
    cluster = hyperpod.find(sagemaker, name)
    if cluster is None or cluster.get("NodeProvisioningMode") != "Continuous":
        return
    pages = sagemaker.get_paginator("list_cluster_events").paginate(ClusterName=name, EventTimeAfter=since)
    for event in (event for page in pages for event in page["Events"]):
        level = event.get("EventLevel", "Info")
        # Only DescribeClusterEvent says why; errors are few.
        reason = failure(sagemaker, name, event["EventId"]) if level == "Error" else ""
        yield WatchedEvent(
            key=event["EventId"],
            time=event["EventTime"],
            source="HyperPod",
            level=level,
            about=event.get("InstanceId") or event.get("InstanceGroupName") or name,
            message=" ".join(filter(None, (event.get("Description"), reason))),
        )


def _cloudformation(environment: Environment, cloudformation: Any, since: datetime) -> Iterator[WatchedEvent]:
    """Yield the failures of the environment's stacks; their events come newest first."""
    for part in naming.STACKS:
        stack = naming.stack(environment, part)
        pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack)
        try:
            for event in (event for page in pages for event in page["StackEvents"]):
                if event["Timestamp"] <= since:
                    break
                if "FAILED" in event.get("ResourceStatus", ""):
                    yield WatchedEvent(
                        key=event["EventId"],
                        time=event["Timestamp"],
                        source="CloudFormation",
                        level="Failed",
                        about=f"{stack}/{event['LogicalResourceId']}",
                        message=f"{event['ResourceStatus']}: {event.get('ResourceStatusReason', '')}",
                    )
        except ClientError as error:
            # A stack that is not deployed; DescribeStackEvents has no code of its own for it.
            if error.response["Error"]["Code"] != "ValidationError":
                raise


def _kubernetes(clients: Clients, since: datetime) -> Iterator[WatchedEvent]:
    """Yield the warnings of all namespaces; the API server keeps them for an hour."""
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    token = None
    while True:
        page = core.list_event_for_all_namespaces(
            field_selector="type=Warning", limit=_PAGE, _continue=token, _request_timeout=REQUEST_TIMEOUT
        )
        for event in page.items:
            about = event.involved_object
            series = event.series
            moment = (series and series.last_observed_time) or event.last_timestamp or event.event_time
            moment = moment or event.metadata.creation_timestamp
            if moment <= since:
                continue
            times = (series and series.count) or event.count or 1
            yield WatchedEvent(
                key=f"{event.metadata.uid} {moment}",
                time=moment,
                source="Kubernetes",
                level="Warning",
                about=f"{about.kind} {'/'.join(filter(None, (about.namespace, about.name)))}",
                message=f"{event.reason}: {event.message}" + (f" ({times} times)" if times > 1 else ""),
            )
        token = page.metadata._continue
        if not token:
            return
