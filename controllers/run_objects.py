"""The Kubernetes objects of a run: its Lease, its Job, the pods of its RayCluster, and its place in the queue.

Jobs and pods are watched, because a request every two seconds of each of a thousand supervisors is a load.
"""

import base64
import threading
import time
from collections.abc import Callable, Set
from dataclasses import asdict
from typing import Final, NamedTuple, Self

from controllers.job_run import QUEUE, Queue, RunState, SupervisedRun
from controllers.kubernetes_api import (
    LONG_WATCH_SECONDS,
    NOT_FOUND,
    ApiServer,
    KubernetesApi,
    KubernetesApiError,
    Object,
    WatchCache,
    read,
    text,
)
from controllers.lease import TRAINS, Lease, asked_to_move
from controllers.ray_jobs_api import AUTH_TOKEN, HeadUnavailableError, RayJobs

STOP: Final = "ray-on-hyperpod/stop"
"""Annotation of the Job that requests the end of the run."""

LEASE_SECONDS: Final = 150
"""How long a successor waits for a supervisor of which nobody knows whether it has ended; two renewals may fail."""

_PASSED_OVER: Final = LEASE_SECONDS
_RENEW_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 10.0
# A lost node can take as many pods: more names would fill the Lease.
_NAMED: Final = 20
_KIND: Final = "ray.io/node-type"


class RunObjects:
    """What one supervisor sees and holds; `failed` is called with each error of the API server."""

    def __init__(
        self, server: ApiServer, run: SupervisedRun, holder: str, failed: Callable[[KubernetesApiError], None]
    ) -> None:
        """Read the run's Job. Raises ApiError."""
        self._api = KubernetesApi(server)
        self._run = run
        self._failed = failed
        path = f"/apis/batch/v1/namespaces/{run.namespace}/jobs"
        self._job_path = f"{path}/{run.name}"
        job = self._api.get(self._job_path)
        self.uid, self.submitted = read(_identity, job)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": run.name, "uid": self.uid}
        self._lease = Lease(self._api, run.namespace, run.name, holder, seconds=LEASE_SECONDS, owner=owner)
        self._job = WatchCache(
            server, path, _Job.of, failed, seconds=LONG_WATCH_SECONDS, fieldSelector=f"metadata.name={run.name}"
        )
        self.pods = RayClusterPods(self._api, server, run, failed)
        self.queue = Queue(server, run, self.submitted, failed, _PASSED_OVER)
        self._renew_at = 0.0

    def acquire(self, ending: threading.Event, waits: Callable[[str], None]) -> Object | None:
        """Hold the Lease and start watching; see `Lease.acquire`."""
        saved = self._lease.acquire(ending, waits)
        if saved is not None:
            self._job.start()
            self.pods.start()
        return saved

    @property
    def ended(self) -> list[str]:
        """Return which watches have ended although nobody stopped them."""
        watches = {"the Job": self._job.ended, "pods": self.pods.ended, "the queue": self.queue.ended}
        return [what for what, ended in watches.items() if ended]

    @property
    def known(self) -> bool:
        """Return whether the Job and the pods are known."""
        return self._job.listed and self.pods.listed

    @property
    def wants_stop(self) -> bool:
        """Return whether somebody has requested the end of the run."""
        job = self._job.snapshot().get(self._run.name)
        return job is not None and job.uid == self.uid and job.stops

    def lease_seconds(self) -> float:
        """Return for how many seconds nobody else can hold the Lease."""
        return self._lease.seconds_left()

    def renew_soon(self) -> None:
        """Let the next `tick` save the state."""
        self._renew_at = 0.0

    def renew_within(self) -> None:
        """Let a `tick` of the next ten seconds save the state."""
        self._renew_at = min(self._renew_at, time.monotonic() + _RETRY_SECONDS)

    def tick(self, state: RunState) -> None:
        """Take over what the watches have brought, and renew the Lease if that is due. Raises LeaseLostError."""
        self.pods.poll()
        if self.pods.lost != state.lost:
            self.renew_soon()
        elif self.pods.running != state.pods:
            self.renew_within()
        if time.monotonic() >= self._renew_at or self._is_gone():
            self._renew(state)

    def save(self, state: RunState) -> None:
        """Save the state in the Lease, with what is known of the pods. Raises ApiError and LeaseLostError."""
        state.pods, state.lost = self.pods.running, self.pods.lost
        labels = [QUEUE] if state.holds_up else [TRAINS] if state.trains else []
        self._lease.save(asdict(state), dict.fromkeys(labels, self._run.cluster))
        self._renew_at = time.monotonic() + _RENEW_SECONDS

    def release(self) -> None:
        """Free the Lease for a successor. Raises ApiError."""
        self._lease.release()

    def is_deleted(self) -> bool:
        """Return whether the Job is deleted, or about to be. Raises ApiError."""
        try:
            job = self._api.get(self._job_path)
        except KubernetesApiError as error:
            if error.status == NOT_FOUND:
                return True
            raise
        return read(_identity, job)[0] != self.uid or "deletionTimestamp" in job["metadata"]

    def _is_gone(self) -> bool:
        """Return whether the watch shows another Job or none: the Lease is about to be deleted too."""
        job = self._job.snapshot().get(self._run.name)
        return self._job.listed and (job is None or job.uid != self.uid)

    def _renew(self, state: RunState) -> None:
        self._renew_at = time.monotonic() + _RETRY_SECONDS
        try:
            self.save(state)
        except KubernetesApiError as error:
            # While the API server does not answer, it cannot give the Lease to another process either.
            self._failed(error)


class RayClusterPods:
    """The pods of the run's RayCluster. A pod that ran and is gone, failed or terminating is lost until `forget`."""

    def __init__(
        self, api: KubernetesApi, server: ApiServer, run: SupervisedRun, failed: Callable[[KubernetesApiError], None]
    ) -> None:
        self._api = api
        self._cluster = run.cluster
        self._core = f"/api/v1/namespaces/{run.namespace}"
        self._path = f"{self._core}/pods"
        self._selector = f"ray.io/cluster={run.cluster}"
        self._mirror = WatchCache(
            server, self._path, _Pod.of, failed, seconds=LONG_WATCH_SECONDS, labelSelector=self._selector
        )
        self._running: dict[str, str] = {}
        self._lost: dict[str, str] = {}
        self._gone: set[str] = set()
        self._head: _Pod | None = None
        self._tokens: dict[str, str] = {}
        self.moving: frozenset[str] = frozenset()
        """The uids of the pods that the reaper will delete once the runs have saved."""

    @property
    def head(self) -> str | None:
        """Return the IP address of the head; None if no head is running."""
        return self._head.head if self._head else None

    @property
    def ended(self) -> bool:
        """Return whether the watch has ended although nobody stopped it."""
        return self._mirror.ended

    @property
    def listed(self) -> bool:
        """Return whether the pods are known."""
        return self._mirror.listed

    @property
    def running(self) -> list[str]:
        """Return the uids of the pods that run."""
        return sorted(self._running)

    @property
    def lost(self) -> list[str]:
        """Return a phrase for each lost pod: its name and node. Of many, one phrase counts those without a name."""
        phrases = sorted(self._lost.values())
        more = len(phrases) - _NAMED
        return [*phrases[:_NAMED], *([f"{more} more"] if more > 0 else [])]

    def recall(self, state: RunState) -> None:
        """Take over what an earlier supervisor knew: its running pods that are gone by now were lost."""
        self._running = dict.fromkeys(state.pods, "a pod that ran before this supervisor")
        self._lost = dict(zip(state.lost, state.lost, strict=True))

    def start(self) -> None:
        """Start watching."""
        self._mirror.start()

    def poll(self) -> None:
        """Take over what the watch has brought."""
        if not self.listed:
            return
        running = {pod.uid: pod for pod in self._mirror.snapshot().values() if pod.runs and pod.uid not in self._gone}
        self._lose(running.keys())
        self._running = {uid: pod.name for uid, pod in running.items()}
        self._head = next((pod for pod in running.values() if pod.head), None)
        self.moving = frozenset(uid for uid, pod in running.items() if pod.moves)

    def ray(self) -> RayJobs:
        """Return the jobs of the running head. Raises HeadUnavailableError."""
        if self._head is None:
            raise HeadUnavailableError(f"RayCluster {self._cluster} has no running head")
        return RayJobs(self._head.head, token=self._token(self._head.uid, self._head.token_in))

    def _token(self, head: str, secret: "_SecretKey | None") -> str:
        """Return a head's token, '' for none. A head keeps the one that it was started with: read it once."""
        if secret is None:
            return ""
        if head not in self._tokens:
            try:
                found = self._api.get(f"{self._core}/secrets/{secret.name}")
                token = read(lambda item: base64.b64decode(item["data"][secret.key]).decode().strip(), found)
            except KubernetesApiError as error:
                reason = f"Secret {secret.name}, which has the head's token, cannot be read: {error}"
                raise HeadUnavailableError(reason) from error
            self._tokens = {head: token}
        return self._tokens[head]

    def ask(self) -> None:
        """Find the pods that were lost just now, ahead of the watch. Raises ApiError."""
        pods = [read(_Pod.of, pod) for pod in self._api.list(self._path, labelSelector=self._selector)]
        self._lose({pod.uid for pod in pods if pod.runs})

    def forget(self) -> None:
        """Forget the lost pods."""
        self._lost.clear()

    def _lose(self, running: Set[str]) -> None:
        """Note as lost what does not run any more."""
        lost = {uid: name for uid, name in self._running.items() if uid not in running}
        self._lost |= lost
        self._gone |= lost.keys()
        for uid in lost:
            del self._running[uid]


class _SecretKey(NamedTuple):
    name: str
    key: str


class _Pod(NamedTuple):
    uid: str
    name: str
    runs: bool
    head: str
    """The address of a head; empty for other pods."""
    moves: bool
    token_in: _SecretKey | None
    """Where a head's token is; None for other pods, and if it wants none."""

    @classmethod
    def of(cls, pod: Object) -> Self:
        metadata, status = pod["metadata"], pod.get("status") or {}
        is_head = (metadata.get("labels") or {}).get(_KIND) == "head"
        return cls(
            uid=text(metadata["uid"]),
            name=f"pod {metadata['name']} of node {pod['spec'].get('nodeName', '')}",
            runs=status.get("phase") == "Running" and "deletionTimestamp" not in metadata,
            head=text(status.get("podIP") or "") if is_head else "",
            moves=asked_to_move(pod) is not None,
            token_in=_token_in(pod) if is_head else None,
        )


def _token_in(head: Object) -> _SecretKey | None:
    """Return the key of a Secret from which the head's first container, Ray's, takes its token."""
    for variable in (head["spec"].get("containers") or [{}])[0].get("env") or ():
        if variable["name"] == AUTH_TOKEN and "valueFrom" in variable:
            reference = variable["valueFrom"]["secretKeyRef"]
            return _SecretKey(text(reference["name"]), text(reference["key"]))
    return None


class _Job(NamedTuple):
    uid: str
    stops: bool

    @classmethod
    def of(cls, job: Object) -> Self:
        metadata = job["metadata"]
        return cls(text(metadata["uid"]), STOP in (metadata.get("annotations") or {}))


def _identity(job: Object) -> tuple[str, str]:
    """Return a Job's uid, and when it was created."""
    return text(job["metadata"]["uid"]), text(job["metadata"].get("creationTimestamp") or "")
