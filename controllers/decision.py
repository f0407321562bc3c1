"""The reaper's rule: keep, delete or force-delete a pod of Ray's namespace, given the pod, its node and the time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

from controllers.kubernetes_api import text
from controllers.lease import SAVE_SECONDS, TrainingRun, asked_to_move

Object = dict[str, Any]

# AWS docs: sagemaker-hyperpod-eks-resiliency-node-labels. HyperPod is about to replace or reboot the node, but evicts
# no pods: the label comes without a NoExecute taint.
HEALTH_LABEL: Final = "sagemaker.amazonaws.com/node-health-status"
PENDING: Final = frozenset({"UnschedulablePendingReplacement", "UnschedulablePendingReboot"})

_CLUSTER: Final = "ray.io/cluster"
NODE_TYPE_LABEL: Final = "ray.io/node-type"
# KubeRay labels the pods of a RayService. Their readiness says whether they serve: a worker without a replica of a
# Serve application is well, and not Ready (kuberay: controllers/ray/common/pod.go, initLivenessAndReadinessProbe).
_SERVES: Final = "ray.io/serve"
LABELS: Final = (_CLUSTER, "ray-on-hyperpod/submitter")
"""Labels of the pods that the reaper may delete: Ray's and the job supervisors'.

A replacement may run beside such a pod without harm: Ray identifies its workers by their address, and a supervisor acts
under a Lease. The owner of any other pod may rely on at most one instance, so the reaper leaves other pods alone.
"""

_JOBS_FINALIZER: Final = "batch.kubernetes.io/job-tracking"

PATIENCE_SECONDS: Final = 5.0
"""Extra time after a deletion is due, so that a kubelet that is only slow can end the pod in order."""

GONE_SECONDS: Final = 10.0
"""How long a node must not exist before its pods are lost: a kubelet that registers its node again keeps them.

Kubernetes itself waits 40 s and looks every 20 s (pkg/controller/podgc/gc_controller.go).
"""


class PodAction(StrEnum):
    """What to do with a pod.

    KEEP: leave it. DELETE: delete it with its own grace period. FORCE: remove its object at once. MOVE: delete it once
    the runs of its RayCluster have saved (`before_move`). ASK: let them save. WITHDRAW: take that request back.
    """

    KEEP = "keep"
    DELETE = "delete"
    FORCE = "force-delete"
    MOVE = "move"
    ASK = "ask to save"
    WITHDRAW = "withdraw"


@dataclass(frozen=True)
class PodDecision:
    """What to do with a pod, and why."""

    action: PodAction
    reason: str
    event: str = ""
    """Reason of the Kubernetes event, if it is not the action's usual one."""


@dataclass(frozen=True)
class PodOwner:
    """The object that controls the pod."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class Deletion:
    """When a deletion was requested, and when its grace period ends, in seconds since the epoch."""

    asked_at: float
    due_at: float

    @property
    def forced(self) -> bool:
        """Return whether the deletion has no grace period: only a finalizer then keeps the pod's object."""
        return self.asked_at == self.due_at


@dataclass(frozen=True)
class Pod:
    """The fields of a pod that the rule needs."""

    name: str
    uid: str
    resource_version: str
    node: str
    """Empty until the pod is scheduled."""
    owner: PodOwner | None
    deletion: Deletion | None
    """None if nobody has requested it."""
    ours: bool
    """Whether the pod has one of `LABELS`."""
    cluster: str
    """The pod's RayCluster; empty for a job supervisor."""
    asked_at: float | None
    """When the runs were asked to save before the pod moves, in seconds since the epoch; None if they were not."""
    counted: bool
    """Whether a Job's finalizer keeps the object until the Job has counted the pod's result."""
    shuns: frozenset[str]
    """States of `PENDING` that the pod's placement excludes: its replacement cannot be scheduled to such a node."""
    role: str
    """`head` or `worker`; empty for a job supervisor, and for the pods of a RayService."""
    ready: bool
    """Whether its Ready condition is True."""
    relapsed: bool
    """Whether it runs and was Ready, but no longer is."""

    @classmethod
    def of(cls, pod: Object) -> Self:
        """Return a pod from the API server's object."""
        metadata, spec = pod["metadata"], pod["spec"]
        labels = metadata.get("labels") or {}
        return cls(
            name=text(metadata["name"]),
            uid=text(metadata["uid"]),
            resource_version=text(metadata["resourceVersion"]),
            node=text(spec.get("nodeName") or ""),
            owner=_owner(metadata),
            deletion=_deletion(metadata),
            ours=any(label in labels for label in LABELS),
            cluster=text(labels.get(_CLUSTER, "")),
            asked_at=_seconds(asked_to_move(pod)),
            counted=_JOBS_FINALIZER in (metadata.get("finalizers") or ()),
            shuns=frozenset(health for health in PENDING if not _admits(spec, health)),
            role="" if _SERVES in labels else text(labels.get(NODE_TYPE_LABEL, "")),
            ready=_ready(pod).get("status") == "True",
            relapsed=_has_relapsed(pod),
        )


@dataclass(frozen=True)
class NodeState:
    """The fields of a node that the rule needs."""

    name: str
    unready_since: float | None
    """When the Ready condition became False or Unknown, in seconds since the epoch; None while it is True, and before
    a new node's first report."""
    health: str
    """The value of `HEALTH_LABEL`; empty without the label."""
    cordoned: bool

    @classmethod
    def of(cls, node: Object) -> Self:
        """Return a node from the API server's object."""
        conditions = node.get("status", {}).get("conditions") or []
        unready = [item for item in conditions if item["type"] == "Ready" and item["status"] != "True"]
        return cls(
            name=text(node["metadata"]["name"]),
            unready_since=_seconds(unready[0].get("lastTransitionTime")) if unready else None,
            health=text((node["metadata"].get("labels") or {}).get(HEALTH_LABEL, "")),
            cordoned=bool(node.get("spec", {}).get("unschedulable")),
        )


def decide(
    pod: Pod, node: NodeState | None, now: float, unready_seconds: float, gone_seconds: float = 0.0
) -> PodDecision:
    """Return what to do with `pod` at time `now`.

    Args:
        pod: the pod.
        node: the pod's node; None if it does not exist.
        now: seconds since the epoch.
        unready_seconds: a node counts as lost after it was NotReady or Unknown for this time, which the pods tolerate.
        gone_seconds: for how long the node is known not to exist.
    """
    if not pod.ours:
        return PodDecision(PodAction.KEEP, "it is not a pod of Ray or of a job supervisor")
    if not pod.node:
        return PodDecision(PodAction.KEEP, "it was never scheduled to a node")
    if pod.deletion is None:
        return _of_a_living_pod(pod, node, gone_seconds)
    if pod.deletion.forced:
        return PodDecision(PodAction.KEEP, "it is already force-deleted; a finalizer keeps its object")
    return _of_a_terminating_pod(pod.node, pod.deletion, node, now, unready_seconds)


def _of_a_terminating_pod(
    name: str, deletion: Deletion, node: NodeState | None, now: float, unready_seconds: float
) -> PodDecision:
    """Return what to do with a pod whose deletion was requested.

    On a lost node the grace period does not count: its kubelet does not know of the deletion, and waiting would only
    delay the replacement. A kubelet that reports NotReady may already be ending the pod, and continues. In both cases
    the pod may still run: a forced deletion removes the object, not the processes.
    """
    if node is None:
        return _after(deletion.asked_at, now, f"node {name} no longer exists")
    if node.unready_since is not None and now - node.unready_since >= unready_seconds:
        since = f"{now - node.unready_since:.0f} s"
        return _after(
            deletion.asked_at, now, f"node {name} has not been Ready for {since}; the pod may still run there"
        )
    if node.health in PENDING:
        return _after(deletion.due_at, now, f"node {name} is {node.health} and did not end the pod in its grace period")
    return PodDecision(PodAction.KEEP, f"the kubelet of node {name} ends it")


def is_unwell(pod: Pod, node: NodeState | None, pods: Sequence[Pod]) -> bool:
    """Return whether a Ray worker runs but is no longer Ready, and neither its node nor its head explains that.

    `pods` are all pods. After a restart of the head, a worker can stay like this for ever (ray#64349).
    """
    if pod.role != "worker" or not pod.relapsed or pod.deletion or node is None or node.unready_since is not None:
        return False
    heads = [each for each in pods if each.cluster == pod.cluster and each.role == "head"]
    return bool(heads) and all(head.ready and not head.deletion for head in heads)


def of_an_unwell_worker(seconds: float, limit: float) -> PodDecision:
    """Return what to do with a worker that `is_unwell` for `seconds`; `limit` is how long it may be."""
    reason = f"it has not been Ready for {seconds:.0f} s, although its node and its head are"
    return PodDecision(PodAction.MOVE if seconds >= limit else PodAction.KEEP, reason, "UnreadyWorkerReplaced")


def before_move(pod: Pod, verdict: PodDecision, runs: Sequence[TrainingRun], now: float) -> PodDecision:
    """Return what to do at time `now` with a pod whose verdict is MOVE; `runs` train on its RayCluster."""
    waits_for = ", ".join(run.name for run in runs if pod.uid not in run.answered)
    if not waits_for:
        return replace(verdict, action=PodAction.DELETE)
    if pod.asked_at is None:
        return PodDecision(PodAction.ASK, f"{verdict.reason}; first saves {waits_for}")
    if now - pod.asked_at >= SAVE_SECONDS:
        reason = f"{verdict.reason}; not saved within {SAVE_SECONDS:.0f} s: {waits_for}"
        return replace(verdict, action=PodAction.DELETE, reason=reason)
    return PodDecision(PodAction.KEEP, f"{verdict.reason}; still saves {waits_for}")


def _of_a_living_pod(pod: Pod, node: NodeState | None, gone_seconds: float) -> PodDecision:
    if node is None:
        action = PodAction.FORCE if gone_seconds >= GONE_SECONDS else PodAction.KEEP
        return PodDecision(action, f"node {pod.node} has not existed for {gone_seconds:.0f} s")
    if node.health not in PENDING:
        stays = PodAction.KEEP if pod.asked_at is None else PodAction.WITHDRAW
        return PodDecision(stays, f"node {node.name} is not about to be replaced or rebooted")
    if not node.cordoned and node.health not in pod.shuns:
        return PodDecision(PodAction.KEEP, f"its replacement could be scheduled to node {node.name} again and again")
    # On a node that is not Ready nothing can save any more, and only Ray's pods have something to save.
    alive = pod.cluster and node.unready_since is None
    return PodDecision(PodAction.MOVE if alive else PodAction.DELETE, f"node {node.name} is {node.health}")


def _after(due: float, now: float, reason: str) -> PodDecision:
    return PodDecision(PodAction.FORCE if now >= due + PATIENCE_SECONDS else PodAction.KEEP, reason)


def _ready(pod: Object) -> Object:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == "Ready"), {})


def _has_relapsed(pod: Object) -> bool:
    """Return whether a pod runs, is not Ready, and its Ready condition changed after its containers had started.

    The condition of a pod that was never Ready is older than its containers. Both times are its kubelet's.
    """
    status = pod.get("status") or {}
    running = [(each.get("state") or {}).get("running") for each in status.get("containerStatuses") or []]
    changed = _seconds(_ready(pod).get("lastTransitionTime"))
    if status.get("phase") != "Running" or _ready(pod).get("status") != "False" or changed is None:
        return False
    started = [_seconds(each.get("startedAt")) if each else None for each in running]
    return bool(started) and all(at is not None and at < changed for at in started)


def _deletion(metadata: Object) -> Deletion | None:
    due_at = _seconds(metadata.get("deletionTimestamp"))
    # The API server sets deletionTimestamp to the time of the request plus the grace period.
    return None if due_at is None else Deletion(due_at - (metadata.get("deletionGracePeriodSeconds") or 0), due_at)


def _owner(metadata: Object) -> PodOwner | None:
    for reference in metadata.get("ownerReferences") or []:
        if reference.get("controller"):
            return PodOwner(reference["apiVersion"], reference["kind"], reference["name"], reference["uid"])
    return None


def _admits(spec: Object, health: str) -> bool:
    """Return whether a pod's node selector and required node affinity admit a node with this health label."""
    if (spec.get("nodeSelector") or {}).get(HEALTH_LABEL, health) != health:
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    # Terms are alternatives; all expressions of a term must hold.
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
