"""Read why an instance group lacks nodes: only HyperPod's cluster events say it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from ops.readiness.item import clock

Answer = Mapping[str, Any]

_NEWEST_EVENTS: Final = 50
_AT_ONCE: Final = timedelta(seconds=5)
_TWINS: Final = 4
"""Events at the same time that are asked for a reason: several nodes can fail at once."""


def last_word(sagemaker: Any, cluster: Answer, group: str) -> str:
    """Return the newest error of the group, or news about the group as a whole; "" if there is none.

    Under Continuous provisioning a shortage does not fail the cluster: it stays InService and retries. Only
    DescribeClusterEvent returns the reason. Two kinds of events would hide it and are skipped: successes of single
    nodes, and warnings (dozens while a group is scaled). Clusters without Continuous provisioning have no events.
    """
    if cluster.get("NodeProvisioningMode") != "Continuous":
        return ""
    name = cluster["ClusterName"]
    events = sagemaker.list_cluster_events(
        ClusterName=name,
        InstanceGroupName=group,
        SortBy="EventTime",
        SortOrder="Descending",
        MaxResults=_NEWEST_EVENTS,
    )["Events"]
    for event in events:
        failed = event.get("EventLevel") == "Error"
        if failed or (event.get("EventLevel", "Info") == "Info" and event.get("ResourceType") == "InstanceGroup"):
            reason = _reason(sagemaker, name, event, events) if failed else ""
            details = " ".join(text for text in (event.get("Description"), reason) if text)
            return f"{clock(event['EventTime'])}: {details}" if details else ""
    return ""


def _reason(sagemaker: Any, cluster: str, event: Answer, events: Sequence[Answer]) -> str:
    """Return the failure messages of an error, or of another one at the same time.

    HyperPod reports a failed instance by two errors within a second, and may give the reason in the first alone
    (awslabs/awsome-distributed-ai, hyperpod-mental-model.md).
    """
    at_once = [each for each in events if abs(each["EventTime"] - event["EventTime"]) <= _AT_ONCE]
    twins = [each for each in at_once if each.get("EventLevel") == "Error" and each is not event]
    found = (failure(sagemaker, cluster, each["EventId"]) for each in (event, *twins[:_TWINS]))
    return next(filter(None, found), "")


def failure(sagemaker: Any, cluster: str, event: str) -> str:
    """Return the failure messages of an event of level Error, which only DescribeClusterEvent returns."""
    details = sagemaker.describe_cluster_event(ClusterName=cluster, EventId=event)["EventDetails"]
    metadata = details.get("EventDetails", {}).get("EventMetadata", {})
    return " ".join(part["FailureMessage"] for part in metadata.values() if part and part.get("FailureMessage"))
