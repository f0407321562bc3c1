"""Drill: a RayCluster of 1,000 workers on 1,000 nodes, the project's manifest and a stock one in turns.

Eight minutes on two cores: KubeRay makes about twenty pods a second.
"""

import statistics
import time
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from config import Environment
from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.building import binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from rehearsal.drills.cluster import objects
from rehearsal.drills.cluster.cluster import DrillCluster
from rehearsal.drills.cluster.subject import HERE, STOCK, Subject, wait
from rehearsal.drills.drill import Drill
from rehearsal.paths import BINARIES, DRILLS_ON_KUBERNETES
from rehearsal.run.steps import RehearsalError

WORKERS: Final = 1000
TURNS: Final = 3
MOST: Final = 1.15
_PATIENCE: Final = 1800
_DETECTION_SECONDS: Final = 40
"""As on EKS. The other drills' eight would have a thousand nodes renew 500 leases a second, and some late: lost."""


class ThousandStage:
    """A control plane with 1,000 nodes, and the environment's first RayCluster with as many workers."""

    REAL = "control plane, KubeRay, scheduling, the environment's manifests and values"
    SIMULATED = "nodes and kubelets (kwok); in Ray's pods nothing runs"

    def __init__(self, environment: Environment, console: Console) -> None:
        self.console = console
        directory = DRILLS_ON_KUBERNETES
        built = binaries.ensure(BINARIES, console.print)
        plane = ControlPlane(directory, built, name="drills", node_monitor_grace_period=_DETECTION_SECONDS)
        self.cluster = DrillCluster(with_workers(environment, WORKERS), directory, console, plane)
        self.watch = self.cluster.watch
        self.times: dict[str, list[float]] = {HERE: [], STOCK: []}

    def set_up(self) -> None:
        """Start all but the RayClusters."""
        self.cluster.start(workers=WORKERS)
        self.cluster.kubectl.apply([objects.STOCK])

    def take_down(self) -> None:
        """End every process."""
        self.cluster.stop()

    def begin(self, drill: str) -> None:
        """There is one drill here."""

    def end(self) -> None:
        """RayClusters come and go as a whole: there is nothing for an auditor."""

    def show(self) -> None:
        """Print the times of all turns."""
        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        drawn.add_column(f"{WORKERS} workers whole after", no_wrap=True)
        for turn in range(1, TURNS + 1):
            drawn.add_column(f"turn {turn}", justify="right")
        drawn.add_column("median", justify="right")
        for title, times in self.times.items():
            told = [f"{seconds:.1f} s" for seconds in times] + [""] * (TURNS - len(times))
            drawn.add_row(title, *told, f"{statistics.median(times):.1f} s" if times else "")
        self.console.print(drawn)

    def finish(self) -> None:
        """Nothing goes on."""

    def measure(self, subject: Subject, manifest: Object) -> None:
        """Make a RayCluster, note how long it takes until it is whole, and remove it."""
        with self.cluster.progress.step(f"{subject.title}: {WORKERS} workers") as step:
            since = time.time()
            self.cluster.kubectl.apply([manifest])
            seconds = wait(f"{subject.name}, whole", subject.is_whole, timeout=_PATIENCE, every=0.5) - since
            self.times[subject.title].append(seconds)
            step.see(f"whole after {seconds:.1f} s")
            self.cluster.kubectl.delete([manifest])
            wait(f"{subject.name}, gone", lambda: not subject.pods(), timeout=_PATIENCE)


def play(context: ThousandStage) -> None:
    """Take turns, so that what the machine does beside this falls on both."""
    own = context.cluster.own_side()
    stock = Subject(STOCK, objects.STOCK_NAMESPACE, "thousand", WORKERS, context.cluster.world, own.zone)
    manifest = objects.stock_cluster(context.cluster.manifest, stock.name, same_nodes=True)
    for _ in range(TURNS):
        context.measure(own, context.cluster.manifest)
        context.measure(stock, manifest)
    ratio = statistics.median(context.times[HERE]) / statistics.median(context.times[STOCK])
    if ratio > MOST:
        raise RehearsalError(f"at most {MOST} x the time of the stock manifest was promised, it was {ratio:.2f} x")


def with_workers(environment: Environment, count: int) -> Environment:
    """The environment with so many workers in its first RayCluster's first group, and as many nodes."""
    cluster = environment.ray.clusters[0]
    group = cluster.workers[0].model_copy(update={"replicas": count, "min_replicas": 0, "max_replicas": count})
    cluster = cluster.model_copy(update={"workers": (group,), "autoscaling": None})
    return environment.model_copy(update={"ray": environment.ray.model_copy(update={"clusters": (cluster,)})})


DRILL: Final = Drill(
    name="thousand-workers",
    promise=f"{WORKERS} workers on {WORKERS} nodes are whole in {MOST} x the time of the stock manifest, or less "
    f"(median of {TURNS}; eight minutes).",
    play=play,
    context=ThousandStage,
)
