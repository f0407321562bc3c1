"""Record what happens to the pods and nodes of a cluster, from its API server's watches."""

import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from config.labels import NODE_HEALTH_LABEL, NODE_SCHEDULABLE
from embedded_account.kubernetes.api import KubernetesClient, Object
from embedded_account.kubernetes.watching import Watched

GONE: Final = "gone"
TERMINATING: Final = "Terminating"
RUNNING: Final = "Running"


@dataclass(frozen=True)
class Happening:
    """A change of a pod's or node's state; `at` is when it was noticed, in seconds since the epoch."""

    at: float
    kind: str
    """`pod` or `node`."""
    namespace: str
    name: str
    before: str
    """Empty for a new object."""
    after: str
    node: str
    """A pod's node (empty before it is scheduled), or the node's own name."""
    labels: Object


class ClusterHistory:
    """The current pods and nodes, and all changes of their states since `start`."""

    def __init__(self, api: KubernetesClient) -> None:
        self._lock = threading.Lock()
        self._happenings: list[Happening] = []
        self._health: dict[str, list[tuple[float, bool]]] = {}
        self._pods = Watched(api, "/api/v1/pods", lambda _: True, self._pod_changed)
        self._nodes = Watched(api, "/api/v1/nodes", lambda _: True, self._node_changed)

    def start(self) -> None:
        """Start following."""
        self._pods.start()
        self._nodes.start()

    def stop(self) -> None:
        """Stop following."""
        self._pods.stop()
        self._nodes.stop()

    def pods(self, namespace: str) -> list[Object]:
        """Return the current pods of a namespace."""
        return [pod for pod in self._pods.snapshot().values() if pod["metadata"]["namespace"] == namespace]

    def healthy_nodes(self) -> set[str]:
        """Return the names of the nodes that are Ready and have no contrary HyperPod label."""
        return {node["metadata"]["name"] for node in self._nodes.snapshot().values() if _is_healthy(node)}

    def was_healthy(self, node: str, at: float) -> bool:
        """Return whether a node was healthy at a time; False if it did not exist."""
        with self._lock:
            past = self._health.get(node, [])
            index = bisect_right(past, (at, True))
            return index > 0 and past[index - 1][1]

    def since(self, moment: float) -> Iterator[Happening]:
        """Yield what happened from a moment on, in order."""
        with self._lock:
            found = [each for each in self._happenings if each.at >= moment]
        yield from found

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        pod = after or before or {}
        states = pod_state(before) if before else "", pod_state(after) if after else GONE
        if states[0] != states[1]:
            self._note("pod", pod, *states, pod["spec"].get("nodeName", ""))

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        node = after or before or {}
        name = node["metadata"]["name"]
        with self._lock:
            past = self._health.setdefault(name, [])
            past.append((time.time(), after is not None and _is_healthy(after)))
        states = _node_state(before) if before else "", _node_state(after) if after else GONE
        if states[0] != states[1]:
            self._note("node", node, *states, name)

    def _note(self, kind: str, item: Object, before: str, after: str, node: str) -> None:
        metadata = item["metadata"]
        happening = Happening(
            at=time.time(),
            kind=kind,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            before=before,
            after=after,
            node=node,
            labels=metadata.get("labels") or {},
        )
        with self._lock:
            self._happenings.append(happening)


def pod_state(pod: Object) -> str:
    """Return one word for a pod's state; RUNNING only if it is also Ready."""
    phase = str(pod["status"].get("phase", "Pending"))
    if "deletionTimestamp" in pod["metadata"]:
        return TERMINATING
    if phase == RUNNING and not _is_ready(pod):
        return "not Ready"
    return phase


def _node_state(node: Object) -> str:
    health = (node["metadata"].get("labels") or {}).get(NODE_HEALTH_LABEL, NODE_SCHEDULABLE)
    conditions = node.get("status", {}).get("conditions") or []
    ready = next((item["status"] for item in conditions if item["type"] == "Ready"), "new")
    shown = {"True": "Ready", "False": "not Ready", "Unknown": "Ready is Unknown"}.get(ready, ready)
    return shown if health == NODE_SCHEDULABLE else f"{shown}, {health}"


def _is_healthy(node: Object) -> bool:
    return _node_state(node) == "Ready"


def _is_ready(item: Object) -> bool:
    conditions = item.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
