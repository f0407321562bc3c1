"""The reaper's rule: what becomes of a pod of Ray's namespace, given the pod, its node and the time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

Object = dict[str, Any]

# AWS docs: sagemaker-hyperpod-eks-resiliency-node-labels. HyperPod is about to take the node away or to restart it, and
# evicts nothing: the label comes without a NoExecute taint.
HEALTH_LABEL: Final = "sagemaker.amazonaws.com/node-health-status"
PENDING: Final = frozenset({"UnschedulablePendingReplacement", "UnschedulablePendingReboot"})

LABELS: Final = ("ray.io/cluster", "ray-on-hyperpod/submitter")
"""Labels of Ray's pods and of the job supervisors'. Two of a kind at a time do no harm: Ray knows its workers by their
address, a supervisor acts under a Lease. Whoever runs anything else here may count on one at most: it is left alone."""

_JOBS_FINALIZER: Final = "batch.kubernetes.io/job-tracking"

PATIENCE_SECONDS: Final = 5.0
"""What a deletion gets beyond what it is due, so that a kubelet that is only slow does it in order."""


class Action(StrEnum):
    """KEEP: nothing. DELETE: with the pod's own grace period. FORCE: the object goes at once."""

    KEEP = "keep"
    DELETE = "delete"
    FORCE = "force-delete"


@dataclass(frozen=True)
class Verdict:
    """What to do with a pod, and why."""

    action: Action
    reason: str


@dataclass(frozen=True)
class Owner:
    """The object that made the pod."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class Deletion:
    """When a deletion was asked for, and when its grace period ends, in seconds since the epoch."""

    asked_at: float
    due_at: float

    @property
    def forced(self) -> bool:
        """Whether it had no grace period: only a finalizer keeps the object of such a pod."""
        return self.asked_at == self.due_at


@dataclass(frozen=True)
class Pod:
    """What matters of a pod."""

    name: str
    uid: str
    resource_version: str
    node: str
    """Empty before it is scheduled."""
    owner: Owner | None
    deletion: Deletion | None
    """None when nobody asked for it."""
    ours: bool
    """Whether it has one of `LABELS`."""
    counted: bool
    """Whether a Job holds its object until it has counted how it ended."""
    shuns: frozenset[str]
    """Those of `PENDING` that its own placement excludes: its replacement cannot come back to such a node."""

    @classmethod
    def of(cls, pod: Object) -> Self:
        """Read a pod as the API server gives it."""
        metadata, spec = pod["metadata"], pod["spec"]
        return cls(
            name=metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            node=spec.get("nodeName", ""),
            owner=_owner(metadata),
            deletion=_deletion(metadata),
            ours=any(label in (metadata.get("labels") or {}) for label in LABELS),
            counted=_JOBS_FINALIZER in metadata.get("finalizers", ()),
            shuns=frozenset(health for health in PENDING if not _admits(spec, health)),
        )


@dataclass(frozen=True)
class Node:
    """What matters of a node."""

    name: str
    unready_since: float | None
    """When its Ready condition left True (it is False or Unknown), in seconds since the epoch; None while it is True,
    and before a new node's first report."""
    health: str
    """HyperPod's word on it; empty without the label."""
    cordoned: bool

    @classmethod
    def of(cls, node: Object) -> Self:
        """Read a node as the API server gives it."""
        conditions = node.get("status", {}).get("conditions") or []
        unready = [item for item in conditions if item["type"] == "Ready" and item["status"] != "True"]
        return cls(
            name=node["metadata"]["name"],
            unready_since=_seconds(unready[0].get("lastTransitionTime")) if unready else None,
            health=(node["metadata"].get("labels") or {}).get(HEALTH_LABEL, ""),
            cordoned=bool(node.get("spec", {}).get("unschedulable")),
        )


def decide(pod: Pod, node: Node | None, now: float, unready_seconds: float) -> Verdict:
    """Say what becomes of `pod`, whose node is `node` (None: there is no such node) at time `now`.

    `unready_seconds` is how long a node must be NotReady or Unknown before it counts as lost: what the pods tolerate.
    """
    if not pod.ours:
        return Verdict(Action.KEEP, "it is neither Ray's nor a job supervisor's")
    if not pod.node:
        return Verdict(Action.KEEP, "it was never placed on a node")
    if pod.deletion is None:
        return _of_a_living_pod(pod, node)
    if pod.deletion.forced:
        return Verdict(Action.KEEP, "it is force-deleted already; a finalizer holds it")
    return _of_a_terminating_pod(pod.node, pod.deletion, node, now, unready_seconds)


def _of_a_terminating_pod(
    name: str, deletion: Deletion, node: Node | None, now: float, unready_seconds: float
) -> Verdict:
    """A silent kubelet does not hear of the deletion: nobody counts the grace period on a lost node, and to wait for it
    would only keep the replacement away. A kubelet that reports to be not ready may be at it, and goes on with it. In
    both cases the pod may still run: to force-delete takes the object away, not the processes.
    """
    if node is None:
        return _after(deletion.asked_at, now, f"node {name} does not exist any more")
    if node.unready_since is not None and now - node.unready_since >= unready_seconds:
        since = f"{now - node.unready_since:.0f} s"
        return _after(
            deletion.asked_at, now, f"node {name} has not been Ready for {since}; the pod may still run there"
        )
    if node.health in PENDING:
        return _after(deletion.due_at, now, f"node {name} is {node.health} and did not end it in its grace period")
    return Verdict(Action.KEEP, f"node {name} is there to end it")


def _of_a_living_pod(pod: Pod, node: Node | None) -> Verdict:
    if node is None:
        return Verdict(Action.KEEP, "Kubernetes itself collects the pods of a node that is gone")
    if node.health not in PENDING:
        return Verdict(Action.KEEP, f"node {node.name} keeps it, or Kubernetes evicts it")
    if not node.cordoned and node.health not in pod.shuns:
        return Verdict(Action.KEEP, f"its replacement could be placed on node {node.name} again, without end")
    return Verdict(Action.DELETE, f"node {node.name} is {node.health}")


def _after(due: float, now: float, reason: str) -> Verdict:
    return Verdict(Action.FORCE if now >= due + PATIENCE_SECONDS else Action.KEEP, reason)


def _deletion(metadata: Object) -> Deletion | None:
    due_at = _seconds(metadata.get("deletionTimestamp"))
    # The API server sets deletionTimestamp to the time of the request plus the grace period.
    return None if due_at is None else Deletion(due_at - metadata.get("deletionGracePeriodSeconds", 0), due_at)


def _owner(metadata: Object) -> Owner | None:
    for reference in metadata.get("ownerReferences") or []:
        if reference.get("controller"):
            return Owner(reference["apiVersion"], reference["kind"], reference["name"], reference["uid"])
    return None


def _admits(spec: Object, health: str) -> bool:
    """Whether a pod's node selector and required node affinity admit a node of that health, all else aside."""
    if (spec.get("nodeSelector") or {}).get(HEALTH_LABEL, health) != health:
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    # Terms are alternatives, the expressions of a term all hold.
    return required is None or any(
        all(_holds(expression, health) for expression in _on_health(term)) for term in required["nodeSelectorTerms"]
    )


def _on_health(term: Object) -> Iterator[Object]:
    return (expression for expression in term.get("matchExpressions") or [] if expression["key"] == HEALTH_LABEL)


def _holds(expression: Object, health: str) -> bool:
    within = health in (expression.get("values") or [])
    return {"In": within, "NotIn": not within, "DoesNotExist": False}.get(expression["operator"], True)


def _seconds(timestamp: str | None) -> float | None:
    return None if timestamp is None else datetime.fromisoformat(timestamp).timestamp()
