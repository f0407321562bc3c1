"""Why an instance group is not filled: HyperPod tells it in cluster events, and nowhere else."""

from collections.abc import Mapping
from typing import Any, Final

from ops.readiness.item import clock

Answer = Mapping[str, Any]

_LOOKED_AT: Final = 50


def last_word(sagemaker: Any, cluster: Answer, group: str) -> str:
    """The newest thing that happened to the group as a whole, or went wrong in it; empty when nothing is told.

    Under Continuous provisioning a shortage does not fail the cluster: it stays InService and tries again. The text
    is in DescribeClusterEvent alone. What single nodes did well would hide it, and warnings come by the dozen while a
    group is scaled, so that neither counts. Clusters without Continuous provisioning have no events.
    """
    if cluster.get("NodeProvisioningMode") != "Continuous":
        return ""
    name = cluster["ClusterName"]
    events = sagemaker.list_cluster_events(
        ClusterName=name,
        InstanceGroupName=group,
        SortBy="EventTime",
        SortOrder="Descending",
        MaxResults=_LOOKED_AT,
    )["Events"]
    for event in events:
        failed = event.get("EventLevel") == "Error"
        if failed or (event.get("EventLevel", "Info") == "Info" and event.get("ResourceType") == "InstanceGroup"):
            reason = _failure(sagemaker, name, event["EventId"]) if failed else ""
            told = " ".join(text for text in (event.get("Description"), reason) if text)
            return f"{clock(event['EventTime'])}: {told}" if told else ""
    return ""


def _failure(sagemaker: Any, cluster: str, event: str) -> str:
    details = sagemaker.describe_cluster_event(ClusterName=cluster, EventId=event)["EventDetails"]
    metadata = details.get("EventDetails", {}).get("EventMetadata", {})
    return " ".join(part["FailureMessage"] for part in metadata.values() if part and part.get("FailureMessage"))
