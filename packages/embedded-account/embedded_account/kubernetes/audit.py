"""Who asked for a pod's deletion: a watch shows that a pod ends, the API server's audit log by whose request."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

POLICY: Final[dict[str, Any]] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["delete", "deletecollection"],
            "resources": [{"group": "", "resources": ["pods"]}],
        },
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods/eviction"]}]},
        {"level": "None"},
    ],
}
"""Requests that delete pods, and nothing else."""


POD_DELETIONS: Final = "pod-deletions.jsonl"
"""Name of the log among those of a control plane."""


@dataclass(frozen=True)
class DeleteRequest:
    """A request that the API server granted, at a time in seconds since the epoch."""

    at: float
    user: str
    namespace: str
    pod: str
    """Empty where all pods of the namespace were meant."""


def requests(log: Path) -> Iterator[DeleteRequest]:
    """The granted requests of an audit log, in its order."""
    lines = log.read_text().splitlines() if log.exists() else []
    for event in map(json.loads, lines):
        if event["responseStatus"]["code"] < 300:
            target = event["objectRef"]
            yield DeleteRequest(
                at=datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
                user=event["user"]["username"],
                namespace=target.get("namespace", ""),
                pod=target.get("name", ""),
            )
