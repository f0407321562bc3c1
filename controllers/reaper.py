"""Force-delete pods of Ray and of job supervisors that are stuck on a lost node, so that they are replaced.

KubeRay 1.2.0 counts a Terminating pod as live (kuberay#4078), and a pod on a lost node stays Terminating: its worker is
never replaced. A job's supervisor is not replaced either, because its Job waits until the pod has ended.
A Ray pod on a node that HyperPod will replace, and that is still alive, is deleted once the runs of its RayCluster have
saved: their supervisors see the pod's condition `MOVE`, and answer in their Leases. So is a worker that runs but is no
longer Ready, while its node and its head are (ray#64349).
`python -m controllers.reaper --help` lists the arguments.

The reaper watches instead of polling: checking watched copies every second is free, while a list of 1,000 nodes is
15 MB. Two replicas work in parallel without a leader. Every deletion names the uid and the resourceVersion on which it
was decided, so the API server refuses the slower replica's deletion. No time is lost waiting for a lost leader's Lease.
"""

import argparse
import threading
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from controllers.decision import (
    NODE_TYPE_LABEL,
    NodeState,
    Object,
    Pod,
    PodAction,
    PodDecision,
    before_move,
    decide,
    is_unwell,
    of_an_unwell_worker,
)
from controllers.kubernetes_api import (
    CONFLICT,
    NOT_FOUND,
    ApiServer,
    KubernetesApi,
    KubernetesApiError,
    WatchCache,
    read,
    text,
)
from controllers.lease import MOVE, TrainingRun, training_runs
from controllers.requests import create_event, is_allowed
from controllers.telemetry import Metrics, end_on_signals, log, serve

NAME: Final = "ray-reaper"

_EVERY_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 5.0
# After this time without an answer the copies of pods and nodes are out of date. Watches end every 30 seconds.
_DEAF_SECONDS: Final = 90.0
_STALLED_SECONDS: Final = 60.0
# How often the Leases of runs are listed while pods wait for them.
_LIST_RUNS_SECONDS: Final = 2.0
_EVENTS: Final = {
    PodAction.DELETE: ("MovedOffUnhealthyNode", "was deleted"),
    PodAction.FORCE: ("StuckPodForceDeleted", "was force-deleted"),
    PodAction.ASK: ("SavesBeforeMove", "will be deleted"),
}


class Permission(NamedTuple):
    """A verb on a resource, in the Ray pods' namespace or in the whole cluster; the core group's name is empty."""

    verb: str
    resource: str
    namespaced: bool
    group: str = ""


PERMISSIONS: Final = (
    *(Permission(verb, "nodes", False) for verb in ("get", "list", "watch")),
    *(Permission(verb, "pods", True) for verb in ("get", "list", "watch", "delete")),
    Permission("update", "pods/status", True),
    Permission("create", "events", True),
    Permission("list", "leases", True, "coordination.k8s.io"),
)


class Reaper:
    """The loop that checks all pods of Ray's namespace and does what `decide` returns."""

    def __init__(
        self,
        cluster: ApiServer,
        metrics: Metrics,
        *,
        namespace: str,
        unready_seconds: float,
        unwell_seconds: float,
        dry_run: bool,
    ) -> None:
        self._api = KubernetesApi(cluster)
        self._metrics = metrics
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}"
        self._unready_seconds = unready_seconds
        self._unwell_seconds = unwell_seconds
        self._dry_run = dry_run
        self._pods = WatchCache(cluster, f"{self._path}/pods", Pod.of, partial(self._failed, "watch"))
        self._nodes = WatchCache(cluster, "/api/v1/nodes", NodeState.of, partial(self._failed, "watch"))
        self._missing: list[str] | None = None
        self._ask_at = 0.0
        self._retry_at: dict[str, float] = {}
        self._logged: dict[str, PodAction] = {}
        self._runs: dict[str, tuple[float, list[TrainingRun]]] = {}
        # Since when this process itself has seen that a worker is unwell, at each look: no clocks are compared.
        self._unwell: dict[str, float] = {}
        # The same for nodes that do not exist and have pods.
        self._gone: dict[str, float] = {}
        self._polled_at = time.monotonic()
        _describe(metrics)
        metrics.set("ray_reaper_dry_run", dry_run)

    def start(self) -> None:
        """Start watching pods and nodes."""
        self._pods.start()
        self._nodes.start()

    def stop(self) -> None:
        """Stop watching pods and nodes."""
        self._pods.stop()
        self._nodes.stop()

    def poll(self) -> None:
        """Check all pods once, and act."""
        if self._missing != [] and time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + _RETRY_SECONDS
            self._check_permissions()
        if self.blocking_reason():
            self._unwell.clear()
            self._gone.clear()
        else:
            self._sort_out(time.time())
        self._api.close()
        self._polled_at = time.monotonic()
        self._metrics.set("ray_reaper_last_look_timestamp_seconds", time.time())

    def blocking_reason(self) -> str:
        """Return what prevents the reaper from acting; empty if nothing does."""
        if self._missing is None:
            return "the permissions have not been checked yet"
        if self._missing:
            return f"the service account may not {', '.join(self._missing)}"
        return self.deafness()

    def deafness(self) -> str:
        """Return which watches got no answer for too long, or none yet; empty if all are up to date."""
        deaf = [mirror.name for mirror in (self._pods, self._nodes) if mirror.silence() > _DEAF_SECONDS]
        return f"no answer: {', '.join(deaf)}" if deaf else ""

    def stall(self) -> str:
        """Return the fault that a restart would fix; empty if there is none."""
        ended = [mirror.name for mirror in (self._pods, self._nodes) if mirror.ended]
        if ended:
            return f"ended: {', '.join(ended)}"
        silent = time.monotonic() - self._polled_at
        return f"the last look was {silent:.0f} s ago" if silent > _STALLED_SECONDS else ""

    def _check_permissions(self) -> None:
        """Ask for all permissions in advance: a missing one would otherwise show only when a node is lost."""
        try:
            missing = [permission for permission in PERMISSIONS if not self._may(permission)]
        except KubernetesApiError as error:
            self._failed("review", error)
            return
        spoken = [f"{permission.verb} {permission.resource}" for permission in missing]
        if spoken != self._missing:
            log("permissions", missing=spoken)
        self._missing = spoken

    def _may(self, permission: Permission) -> bool:
        namespace = self._namespace if permission.namespaced else ""
        return is_allowed(self._api, permission.verb, permission.resource, group=permission.group, namespace=namespace)

    def _sort_out(self, now: float) -> None:
        nodes, unreadable = self._nodes.snapshot(), self._nodes.unreadable()
        # What is unknown of a node is no reason to delete its pods.
        pods = [pod for pod in self._pods.snapshot().values() if pod.node not in unreadable]
        uids = {pod.uid for pod in pods}
        self._retry_at = {uid: at for uid, at in self._retry_at.items() if uid in uids}
        self._logged = {uid: action for uid, action in self._logged.items() if uid in uids}
        gone = {pod.node for pod in pods if pod.node and pod.node not in nodes}
        self._gone = {node: self._gone.get(node, time.monotonic()) for node in gone}
        unwell = [pod.uid for pod in pods if is_unwell(pod, nodes.get(pod.node), pods)]
        self._unwell = {uid: self._unwell.get(uid, time.monotonic()) for uid in unwell}
        verdicts = [(pod, self._verdict(pod, nodes.get(pod.node), now, unwell=pod.uid in unwell)) for pod in pods]
        self._metrics.set("ray_reaper_stuck_pods", sum(verdict.action is PodAction.FORCE for _, verdict in verdicts))
        for pod, verdict in verdicts:
            if verdict.action is not PodAction.KEEP and time.monotonic() >= self._retry_at.get(pod.uid, 0):
                self._settle(pod)

    def _verdict(self, pod: Pod, node: NodeState | None, now: float, *, unwell: bool) -> PodDecision:
        seen_at = time.monotonic()
        verdict = decide(pod, node, now, self._unready_seconds, seen_at - self._gone.get(pod.node, seen_at))
        if unwell and verdict.action in (PodAction.KEEP, PodAction.WITHDRAW):
            verdict = of_an_unwell_worker(time.monotonic() - self._unwell[pod.uid], self._unwell_seconds)
        if verdict.action is not PodAction.MOVE:
            return verdict
        try:
            return before_move(pod, verdict, self._training(pod.cluster), now)
        except KubernetesApiError as error:
            self._failed("list runs", error, pod=pod.name)
            return PodDecision(PodAction.KEEP, f"the runs of RayCluster {pod.cluster} are not known now")

    def _training(self, cluster: str) -> list[TrainingRun]:
        """Return the runs that train on a RayCluster, as they were a moment ago."""
        at, runs = self._runs.get(cluster, (float("-inf"), []))
        if time.monotonic() >= at + _LIST_RUNS_SECONDS:
            runs = training_runs(self._api, self._namespace, cluster, partial(self._failed, "list runs"))
            self._runs[cluster] = time.monotonic(), runs
        return runs

    def _settle(self, seen: Pod) -> None:
        """Read pod and node again, decide again, and act on that verdict."""
        try:
            found = self._api.get(f"{self._path}/pods/{seen.name}")
            pod = read(Pod.of, found)
            node = self._node(pod.node)
            unwell = pod.uid in self._unwell and is_unwell(pod, node, self._heads())
            verdict = self._verdict(pod, node, time.time(), unwell=unwell)
            if verdict.action is PodAction.KEEP:
                return
            if self._dry_run:
                self._say(pod, verdict)
            elif verdict.action in (PodAction.ASK, PodAction.WITHDRAW):
                self._mark(found, pod, verdict)
            else:
                if pod.counted and verdict.action is PodAction.FORCE:
                    pod = self._fail(found, verdict)
                self._delete(pod, verdict)
        except KubernetesApiError as error:
            # The pod is gone or changed: the other replica was faster, or the kubelet came back. The next look decides.
            if error.status not in (NOT_FOUND, CONFLICT):
                self._retry_at[seen.uid] = time.monotonic() + _RETRY_SECONDS
                self._failed("delete", error, pod=seen.name)

    def _node(self, name: str) -> NodeState | None:
        try:
            return read(NodeState.of, self._api.get(f"/api/v1/nodes/{name}"))
        except KubernetesApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def _heads(self) -> list[Pod]:
        found = self._api.list(f"{self._path}/pods", labelSelector=f"{NODE_TYPE_LABEL}=head")
        return [read(Pod.of, pod) for pod in found]

    def _say(self, pod: Pod, verdict: PodDecision) -> None:
        if self._logged.get(pod.uid) is not verdict.action:
            self._logged[pod.uid] = verdict.action
            log(f"dry run: would {verdict.action}", pod=pod.name, node=pod.node, reason=verdict.reason)

    def _fail(self, pod: Object, verdict: PodDecision) -> Pod:
        """Mark a pod as failed because of its node, and return it: its Job would wait for it as long as it may succeed.

        Kubernetes' pod garbage collector does the same for a node that no longer exists.
        """
        disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "NodeLost", "message": verdict.reason}
        return self._set(pod, disrupted, phase="Failed")

    def _mark(self, found: Object, pod: Pod, verdict: PodDecision) -> None:
        """Ask the runs of the pod's RayCluster to save, or take that back: their supervisors see the condition."""
        asks = verdict.action is PodAction.ASK
        condition = {"type": MOVE, "status": str(asks), "reason": "AboutToBeDeleted", "message": verdict.reason}
        self._set(found, condition)
        log(verdict.action, pod=pod.name, node=pod.node, reason=verdict.reason)
        if asks:
            self._create_events(pod, verdict)

    def _set(self, pod: Object, condition: Object, **fields: object) -> Pod:
        """Set a condition, and other fields of the status; return the pod."""
        status = pod.get("status") or {}
        others = [each for each in read(_conditions, pod) if each["type"] != condition["type"]]
        at = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [*others, {**condition, "lastTransitionTime": at}]
        new = pod | {"status": status | fields | {"conditions": conditions}}
        return read(Pod.of, self._api.update(f"{self._path}/pods/{pod['metadata']['name']}/status", new))

    def _delete(self, pod: Pod, verdict: PodDecision) -> None:
        options: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": pod.uid, "resourceVersion": pod.resource_version},
        }
        if verdict.action is PodAction.FORCE:
            options["gracePeriodSeconds"] = 0
        self._api.delete(f"{self._path}/pods/{pod.name}", options)
        self._metrics.add("ray_reaper_deletions_total", action=verdict.action)
        log(verdict.action, pod=pod.name, node=pod.node, reason=verdict.reason)
        self._create_events(pod, verdict)

    def _create_events(self, pod: Pod, verdict: PodDecision) -> None:
        """Create an event for the pod and one for its owner; nothing depends on them."""
        targets = [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}]
        if owner := pod.owner:
            targets.append({"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid})
        usual, done = _EVENTS[verdict.action]
        reason = verdict.event or usual
        message = f"pod {pod.name} {done}: {verdict.reason}"
        for target in targets:
            try:
                create_event(
                    self._api, self._namespace, target, kind="Warning", reason=reason, message=message, component=NAME
                )
            except KubernetesApiError as error:
                self._failed("event", error, pod=pod.name)

    def _failed(self, operation: str, error: KubernetesApiError, **fields: object) -> None:
        self._metrics.add("ray_reaper_errors_total", operation=operation)
        log("error", operation=operation, error=str(error), **fields)


def _conditions(pod: Object) -> list[Object]:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return [each for each in conditions if text(each["type"])]


def _describe(metrics: Metrics) -> None:
    deletions = [{"action": str(action)} for action in (PodAction.DELETE, PodAction.FORCE)]
    metrics.describe("ray_reaper_stuck_pods", "gauge", "Ray pods that are stuck on a lost node now.")
    metrics.describe("ray_reaper_deletions_total", "counter", "Ray pods that this replica deleted.", *deletions)
    metrics.describe("ray_reaper_errors_total", "counter", "Requests that failed.", {"operation": "delete"})
    metrics.describe("ray_reaper_last_look_timestamp_seconds", "gauge", "When all Ray pods were last checked.")
    metrics.describe("ray_reaper_dry_run", "gauge", "1 if the reaper only logs what it would delete.")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=NAME, description="Force-delete Ray pods that are stuck on lost nodes.")
    parser.add_argument("--namespace", required=True, help="namespace of the Ray pods")
    parser.add_argument("--unready-seconds", type=float, required=True, help="how long the pods tolerate a lost node")
    parser.add_argument(
        "--unwell-seconds", type=float, required=True, help="how long a worker may be not Ready while its head is"
    )
    parser.add_argument("--service-account", type=Path, required=True, help="folder with `token` and `ca.crt`")
    parser.add_argument("--listen", required=True, help="HOST:PORT of /metrics, /healthz and /readyz")
    parser.add_argument("--dry-run", action="store_true", help="log what would be deleted; change nothing")
    return parser.parse_args()


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    arguments = _arguments()
    ending = threading.Event()
    end_on_signals(ending)
    cluster = ApiServer.of_pod(arguments.service_account)
    metrics = Metrics()
    reaper = Reaper(
        cluster,
        metrics,
        namespace=arguments.namespace,
        unready_seconds=arguments.unready_seconds,
        unwell_seconds=arguments.unwell_seconds,
        dry_run=arguments.dry_run,
    )
    serve(arguments.listen, metrics, {"/healthz": reaper.stall, "/readyz": reaper.blocking_reason})
    log("started", namespace=arguments.namespace, dry_run=arguments.dry_run)
    reaper.start()
    while not ending.wait(_EVERY_SECONDS):
        reaper.poll()
    reaper.stop()
    log("ended")


if __name__ == "__main__":
    main()
