"""What a node or a pod says of itself."""

from typing import Any


def is_ready(found: Any) -> bool:
    """Whether a node or a pod is Ready; one that is about to end can still be."""
    return any(c.type == "Ready" and c.status == "True" for c in found.status.conditions or [])


def is_ready_to_stay(pod: Any) -> bool:
    """Whether a pod is Ready and nobody has asked for its end."""
    return is_ready(pod) and not pod.metadata.deletion_timestamp
