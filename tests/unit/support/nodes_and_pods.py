"""Pods and nodes as the API server returns them, at `NOW`."""

from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

NOW = 1_760_000_000.0
TOLERATED = 30.0
GRACE = 30.0
NODE = "hyperpod-i-0123456789abcdef0"
HEALTH = "sagemaker.amazonaws.com/node-health-status"
REPLACE, REBOOT = "UnschedulablePendingReplacement", "UnschedulablePendingReboot"


def at(seconds: float) -> str:
    """Return a time in Kubernetes' format."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_pod(
    *,
    name: str = "rayml-worker",
    node: str | None = NODE,
    asked: float | None = None,
    grace: float = GRACE,
    labels: dict[str, str] | None = None,
    saves_since: float | None = None,
) -> Object:
    """Return a Ray worker that needs a healthy node, and whose deletion was requested `asked` seconds ago.

    The runs were asked to save before it moves `saves_since` seconds ago.
    """
    reference = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rayml", "uid": "c-1", "controller": True}
    metadata: Object = {
        "name": name,
        "uid": f"u-{name}",
        "resourceVersion": "1",
        "labels": {"ray.io/cluster": "rayml"} if labels is None else labels,
        "ownerReferences": [reference],
    }
    if asked is not None:
        metadata |= {"deletionTimestamp": at(NOW - asked + grace), "deletionGracePeriodSeconds": grace}
    healthy = {"key": HEALTH, "operator": "In", "values": ["Schedulable"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [healthy]}]}
    spec: Object = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    made = {"metadata": metadata, "spec": spec | ({"nodeName": node} if node else {})}
    if saves_since is not None:
        move = {"type": "ray-on-hyperpod/Move", "status": "True", "lastTransitionTime": at(NOW - saves_since)}
        made["status"] = {"phase": "Running", "conditions": [move]}
    return made


def a_ray_pod(role: str, *, ready: str = "True", since: float = 3600, started: float = 7200, **labels: str) -> Object:
    """Return a Ray pod whose container started `started` seconds ago, and its Ready condition changed `since` ago."""
    own = {"ray.io/cluster": "rayml", "ray.io/node-type": role}
    made = a_pod(name=f"rayml-{role}", labels=own | {f"ray.io/{name}": value for name, value in labels.items()})
    made["status"] = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at(NOW - since)}],
        "containerStatuses": [{"name": "ray", "state": {"running": {"startedAt": at(NOW - started)}}}],
    }
    return made


def a_node(*, name: str = NODE, ready: str = "True", since: float = 3600, health: str | None = "Schedulable") -> Object:
    """Return a node whose Ready condition last changed `since` seconds ago."""
    return {
        "metadata": {"name": name, "resourceVersion": "1", "labels": {HEALTH: health} if health else {}},
        "spec": {},
        "status": {
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "lastTransitionTime": at(0)},
                {"type": "Ready", "status": ready, "lastTransitionTime": at(NOW - since)},
            ]
        },
    }
