"""Find who requested a pod's deletion: a watch shows the deletion, only the API server's audit log shows the user."""

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
"""Log requests that delete pods, and no others."""


POD_DELETIONS: Final = "pod-deletions.jsonl"
"""The file name of the audit log in a control plane's folder of logs."""


@dataclass(frozen=True)
class DeleteRequest:
    """A granted request; `at` is in seconds since the epoch."""

    at: float
    user: str
    namespace: str
    pod: str
    """Empty if the request is for all pods of the namespace."""


def requests(log: Path) -> Iterator[DeleteRequest]:
    """Yield the granted requests of an audit log, in its order."""
    lines = log.read_text().splitlines() if log.exists() else []
    for event in map(json.loads, lines):
        if event["responseStatus"]["code"] < 300:
            target = event["objectRef"]
            yield DeleteRequest(
                at=datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
                # The garbage collector acts as its service account (building/modules/kubernetes/garbage.go).
                user=event.get("impersonatedUser", event["user"])["username"],
                namespace=target.get("namespace", ""),
                pod=target.get("name", ""),
            )
