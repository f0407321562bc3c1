"""Explain why a cluster failed, briefly enough for CloudFormation's response."""

from typing import Any

from botocore.exceptions import ClientError

from .errors import RefusedRequestError, TransientError, in_words
from .service import HyperPodClient

EVENTS = 5
_MESSAGE_CHARACTERS = 300


def state_of(cluster: dict[str, Any]) -> str:
    """Return the cluster's status, and the service's failure message if there is one."""
    status: str = cluster["ClusterStatus"]
    message = cluster.get("FailureMessage")
    return f"{status}; the service says: {message}" if message else status


def why(hyperpod: HyperPodClient, cluster: dict[str, Any], what: str) -> str:
    """Return an explanation of what happened to the cluster.

    The first line holds the cluster's name, `what`, and the service's message. Below are the newest errors; without
    any, the newest warnings, which come by the dozen while a group is scaled.
    """
    name = cluster["ClusterName"]
    message = cluster.get("FailureMessage") or "the service gave no message"
    return "\n".join([f"HyperPod cluster {name} {what}: {message}", *_events(hyperpod, name)])


def _events(hyperpod: HyperPodClient, name: str) -> list[str]:
    try:
        newest = hyperpod.newest_events(name, 50)
        errors = [event for event in newest if event.get("EventLevel") == "Error"]
        notable = errors or [event for event in newest if event.get("EventLevel") != "Info"]
        return [_line(event, hyperpod.event(name, event["EventId"])) for event in notable[:EVENTS]]
    except (ClientError, TransientError, RefusedRequestError) as error:
        # The reason must reach the user even if its details cannot be read.
        because = in_words(error.operation_name, error) if isinstance(error, ClientError) else error
        return [f"(its events could not be read: {because})"]


def _line(event: dict[str, Any], details: dict[str, Any]) -> str:
    subject = " ".join(event[key] for key in ("InstanceGroupName", "InstanceId") if event.get(key))
    metadata = details.get("EventDetails", {}).get("EventMetadata", {})
    causes = [part["FailureMessage"] for part in metadata.values() if part and part.get("FailureMessage")]
    text = f"{subject or event['ResourceType']}: {event.get('Description', '')} {' '.join(causes)}".strip()
    return f"- {event['EventTime']:%H:%M:%S} {text[:_MESSAGE_CHARACTERS]}"
