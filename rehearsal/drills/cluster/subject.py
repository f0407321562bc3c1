"""Observe one RayCluster in a drill: the project's own, or a stock one to which the same thing happens."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from embedded_account.kubernetes.api import Object
from rehearsal.drills.cluster.world import RUNNING, ClusterHistory, Happening, pod_state
from rehearsal.run.cluster import PATIENCE_SECONDS, TimedOutError

HERE: Final = "here"
STOCK: Final = "stock KubeRay"

_EVERY_SECONDS: Final = 0.05


@dataclass(eq=False)
class Subject:
    """A RayCluster under observation; `replicas` is the number of workers that it should have now."""

    title: str
    namespace: str
    name: str
    replicas: int
    world: ClusterHistory
    zone: str
    """The zone of its nodes."""

    def pods(self) -> list[Object]:
        """Return its pods, in any state."""
        return [pod for pod in self.world.pods(self.namespace) if _label(pod, "cluster") == self.name]

    def good(self, role: str) -> list[Object]:
        """Return its good pods of a role (`head`, `worker`): Running, Ready, on a healthy node; the oldest first."""
        healthy = self.world.healthy_nodes()
        found = [pod for pod in self.pods() if pod_state(pod) == RUNNING and pod["spec"].get("nodeName") in healthy]
        of_role = [pod for pod in found if _label(pod, "node-type") == role]
        return sorted(of_role, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def a(self, role: str) -> Object:
        """Return its oldest good pod of a role. Raises TimedOutError if there is none."""
        pods = self.good(role)
        if not pods:
            raise TimedOutError(f"{self.namespace}/{self.name} has no good {role}: {self.state()}")
        return pods[0]

    def is_whole(self, without: Collection[str] = ()) -> bool:
        """Return whether it has a good head and exactly the right number of good workers.

        `without` are names of pods that the drill acted on: they no longer count, although the watch may still show
        their old state.
        """
        heads, workers = (
            [name for name in names(self.good(role)) if name not in without] for role in ("head", "worker")
        )
        return len(heads) == 1 and len(workers) == self.replicas

    def is_settled(self) -> bool:
        """Return whether it is complete, and no pod is being created or deleted.

        KubeRay 1.2.0 sometimes creates too many workers from a stale cache, and deletes them again.
        """
        return self.is_whole() and len(self.pods()) == 1 + self.replicas

    def state(self) -> str:
        """Return in words how complete it is."""
        waiting = sorted({state for pod in self.pods() if (state := pod_state(pod)) != RUNNING})
        heads = len(self.good("head"))
        good = f"{len(self.good('worker'))} of {self.replicas} workers{'' if heads else ', no head'}"
        return f"{good} ({', '.join(waiting)})" if waiting else good

    def owns(self, happening: Happening) -> bool:
        """Return whether it happened to a pod of this RayCluster."""
        labelled = happening.labels.get("ray.io/cluster")
        return happening.kind == "pod" and happening.namespace == self.namespace and labelled == self.name

    def has_node(self, happening: Happening) -> bool:
        """Return whether it happened to a node of this RayCluster."""
        return bool(happening.labels.get("topology.kubernetes.io/zone") == self.zone)


@dataclass(eq=False)
class Recovery(threading.Thread):
    """Waits in the background until a subject is complete; gives up `patience` seconds after `since`."""

    drill: str
    subject: Subject
    since: float
    without: Collection[str]
    """Names of the pods that must be replaced."""
    patience: float
    limit: float | None
    """The promised seconds, or None without a promise."""
    detection: bool = False
    """Whether `since` is when a silent node was noticed, some time after its last heartbeat."""
    whole_at: float | None = field(default=None, init=False)
    state: str = field(default="", init=False)

    def __post_init__(self) -> None:
        super().__init__(name=f"{self.drill} {self.subject.title}", daemon=True)

    def run(self) -> None:
        """Wait until the subject is complete, or the patience is over."""
        while time.time() < self.since + self.patience:
            if self.subject.is_whole(self.without):
                self.whole_at = time.time()
                return
            time.sleep(_EVERY_SECONDS)
        self.state = self.subject.state()

    @property
    def seconds(self) -> float | None:
        """Return how long it was incomplete, or None if it still is."""
        return None if self.whole_at is None else self.whole_at - self.since

    @property
    def kept(self) -> bool:
        """Return whether the promise was kept."""
        return self.limit is None or (self.seconds is not None and self.seconds <= self.limit)

    def outcome(self) -> str:
        """Return the time in words, or the state when the patience was over."""
        return f"not after {self.patience:.0f} s: {self.state}" if self.seconds is None else f"{self.seconds:.1f} s"


def names(pods: Sequence[Object]) -> list[str]:
    """Return the names of pods."""
    return [pod["metadata"]["name"] for pod in pods]


def wait(
    what: str, reached: Callable[[], bool], *, timeout: float = PATIENCE_SECONDS, every: float = _EVERY_SECONDS
) -> float:
    """Wait until `reached`; return when. Raises TimedOutError with `what` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not reached():
        if time.monotonic() > deadline:
            raise TimedOutError(f"{what}: not within {timeout:.0f} s")
        time.sleep(every)
    return time.time()


def _label(pod: Object, name: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(f"ray.io/{name}", ""))
