"""Drill: a RayCluster of 1,000 workers on 1,000 nodes, from the project's manifest and a stock one in turns.

It takes eight minutes on two cores: KubeRay creates about twenty pods per second.
"""

import statistics
import time
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from config import EksEnvironment
from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.control_plane import ControlPlane
from rehearsal import programs
from rehearsal.drills.cluster import objects
from rehearsal.drills.cluster.cluster import DrillCluster
from rehearsal.drills.cluster.report import EKS_DETECTION_SECONDS
from rehearsal.drills.cluster.subject import HERE, STOCK, Subject, wait
from rehearsal.drills.drill import Drill
from rehearsal.paths import DRILLS_ON_KUBERNETES
from rehearsal.run.steps import RehearsalError

WORKERS: Final = 1000
TURNS: Final = 3
MOST: Final = 1.15
_PATIENCE_SECONDS: Final = 1800
DETECTION_SECONDS: Final = EKS_DETECTION_SECONDS[0]
"""As on EKS. With the other drills' 16 seconds, a thousand nodes would renew 250 leases a second, some too late."""


class ThousandContext:
    """A control plane with 1,000 nodes, and the environment's first RayCluster with as many workers."""

    REAL = "control plane, KubeRay, scheduling, the environment's manifests and values"
    SIMULATED = "nodes and kubelets (kwok); in Ray's pods nothing runs"

    def __init__(self, environment: EksEnvironment, console: Console) -> None:
        self.console = console
        directory = DRILLS_ON_KUBERNETES
        plane = ControlPlane(
            directory,
            programs.built(environment, console.print),
            name="drills",
            node_monitor_grace_period=DETECTION_SECONDS,
            kubernetes=environment.kubernetes_version,
        )
        self.cluster = DrillCluster(with_workers(environment, WORKERS), directory, console, plane)
        self.watch = self.cluster.watch
        self.times: dict[str, list[float]] = {HERE: [], STOCK: []}

    def set_up(self) -> None:
        """Start everything except the RayClusters."""
        self.cluster.start(workers=WORKERS)
        self.cluster.kubectl.apply([objects.STOCK])

    def take_down(self) -> None:
        """End all processes."""
        self.cluster.stop()

    def begin(self, drill: str) -> None:
        """Do nothing: there is one drill here."""

    def end(self) -> None:
        """Do nothing: whole RayClusters are created and deleted, so an auditor has nothing to watch."""

    def show(self) -> None:
        """Print the times of all turns."""
        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        drawn.add_column(f"{WORKERS} workers complete after", no_wrap=True)
        for turn in range(1, TURNS + 1):
            drawn.add_column(f"turn {turn}", justify="right")
        drawn.add_column("median", justify="right")
        for title, times in self.times.items():
            figures = [f"{seconds:.1f} s" for seconds in times] + [""] * (TURNS - len(times))
            drawn.add_row(title, *figures, f"{statistics.median(times):.1f} s" if times else "")
        self.console.print(drawn)

    def finish(self) -> None:
        """Do nothing: no work is left."""

    def measure(self, subject: Subject, manifest: Object) -> None:
        """Create a RayCluster, record the time until it is complete, and delete it."""
        with self.cluster.progress.step(f"{subject.title}: {WORKERS} workers") as step:
            since = time.time()
            self.cluster.kubectl.apply([manifest])
            seconds = wait(f"{subject.name}, complete", subject.is_whole, timeout=_PATIENCE_SECONDS, every=0.5) - since
            self.times[subject.title].append(seconds)
            step.see(f"complete after {seconds:.1f} s")
            self.cluster.kubectl.delete([manifest])
            wait(f"{subject.name}, gone", lambda: not subject.pods(), timeout=_PATIENCE_SECONDS)


def play(context: ThousandContext) -> None:
    """Take turns, so that other load on the machine affects both."""
    own = context.cluster.own_subject()
    stock = Subject(STOCK, objects.STOCK_NAMESPACE, "thousand", WORKERS, context.cluster.world, own.zone)
    manifest = objects.stock_cluster(context.cluster.manifest, stock.name, same_nodes=True)
    for _ in range(TURNS):
        context.measure(own, context.cluster.manifest)
        context.measure(stock, manifest)
    ratio = statistics.median(context.times[HERE]) / statistics.median(context.times[STOCK])
    if ratio > MOST:
        raise RehearsalError(f"at most {MOST} x the time of the stock manifest was promised; it was {ratio:.2f} x")


def with_workers(environment: EksEnvironment, count: int) -> EksEnvironment:
    """Return the environment with `count` workers in its first RayCluster's first group."""
    cluster = environment.ray.clusters[0]
    group = cluster.workers[0].model_copy(update={"replicas": count, "min_replicas": 0, "max_replicas": count})
    cluster = cluster.model_copy(update={"workers": (group,), "autoscaling": None})
    return environment.model_copy(update={"ray": environment.ray.model_copy(update={"clusters": (cluster,)})})


DRILL: Final = Drill(
    name="thousand-workers",
    promise=f"{WORKERS} workers on {WORKERS} nodes are complete in at most {MOST} x the time of the stock manifest "
    f"(median of {TURNS}; eight minutes).",
    play=play,
    context=ThousandContext,
)
