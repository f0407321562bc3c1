"""Read what HyperPod says of Slurm's own health: only its cluster events tell it."""

from collections.abc import Mapping
from typing import Any, Final

from ops.readiness.item import clock

_NEWEST_EVENTS: Final = 10
"""Events of the whole cluster, each of which costs a call: only DescribeClusterEvent tells what it is about."""
_MEANING: Final[Mapping[str, str]] = {
    "DaemonDown": "it does not run: no job is recorded",
    "DaemonDisabled": "it runs, but will not start again with the controller: enable it",
    "DbUnreachable": "its database does not answer: jobs may not be recorded",
}
"""What each reason means (SageMaker API reference, SlurmHealthMetadata)."""


def slurm_health(cluster: str, sagemaker: Any) -> list[dict[str, str]]:
    """Return the last word on each component of Slurm: component, status, reason and time; often there is none."""
    if sagemaker.describe_cluster(ClusterName=cluster).get("NodeProvisioningMode") != "Continuous":
        return []
    events = sagemaker.list_cluster_events(
        ClusterName=cluster,
        ResourceType="Cluster",
        SortBy="EventTime",
        SortOrder="Descending",
        MaxResults=_NEWEST_EVENTS,
    )["Events"]
    found: dict[str, dict[str, str]] = {}
    for event in events:
        details = sagemaker.describe_cluster_event(ClusterName=cluster, EventId=event["EventId"])["EventDetails"]
        health = details.get("EventDetails", {}).get("EventMetadata", {}).get("SlurmHealth")
        if health:
            reason = health.get("Reason", "")
            found.setdefault(
                health["Component"],
                {
                    "component": health["Component"],
                    "status": health["Status"],
                    "reason": ": ".join(filter(None, (reason, _MEANING.get(reason, "")))),
                    "time": clock(event["EventTime"]),
                },
            )
    return list(found.values())
