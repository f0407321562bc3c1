"""Conditions in the status of nodes and pods."""

from typing import Any


def is_ready(found: Any) -> bool:
    """Return whether a node or a pod is Ready; a terminating pod can still be Ready."""
    return any(c.type == "Ready" and c.status == "True" for c in found.status.conditions or [])


def is_ready_to_stay(pod: Any) -> bool:
    """Return whether a pod is Ready and not terminating."""
    return is_ready(pod) and not pod.metadata.deletion_timestamp
