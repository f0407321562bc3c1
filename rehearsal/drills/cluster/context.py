"""The context of drills that need only Kubernetes: their own control plane, without an AWS account.

Everything that decides these drills is real: the control plane, KubeRay, the reaper with the service account and the
roles that the project gives it, the environment's own manifests and Helm values. A deployment by the CDK CLI applies
the same objects, a minute and a half later.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console

from config import EksEnvironment
from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.nodes import Nodes
from rehearsal.drills.cluster import failures, objects
from rehearsal.drills.cluster.auditor import SETTLED_SECONDS
from rehearsal.drills.cluster.cluster import DETECTION_SECONDS, OPERATOR, DrillCluster
from rehearsal.drills.cluster.report import TimelineLine, lines, summary, timeline
from rehearsal.drills.cluster.subject import HERE, STOCK, Recovery, Subject, names, wait
from rehearsal.drills.cluster.world import ClusterHistory
from rehearsal.paths import DRILLS_ON_KUBERNETES
from rehearsal.run.steps import RehearsalError

MARGIN_SECONDS: Final = 15
"""The promised time beyond the seconds that Kubernetes itself waits."""
SPARE_WORKERS: Final = 2
"""Nodes beyond those of a RayCluster that doubles."""
STOCK_SECONDS: Final = 315
"""Stock KubeRay gets five minutes and a bit more, in which its then Terminating pod could still be replaced."""


class ClusterDrillContext:
    """One control plane for all drills of a call, and a stock RayCluster for each of them."""

    REAL = "the control plane, KubeRay, the reaper with its own rights, the environment's manifests and values"
    SIMULATED = "nodes and kubelets (kwok), the operator's chart (a stand-in); in Ray's pods nothing runs"

    def __init__(self, environment: EksEnvironment, console: Console) -> None:
        self.console = console
        self.cluster = DrillCluster(environment, DRILLS_ON_KUBERNETES, console)
        self.watch = self.cluster.watch
        self.world: ClusterHistory
        self.nodes: Nodes
        self.here: Subject
        self._recoveries: list[Recovery] = []
        self._drill = ""
        self._began = 0.0
        self._marks: list[TimelineLine] = []
        self._subjects: list[Subject] = []

    # -- the context of a drill

    def set_up(self) -> None:
        """Start the cluster. Raises RehearsalError if a part of it does not start."""
        cluster = self.cluster
        replicas = cluster.environment.ray.clusters[0].workers[0].replicas
        cluster.start(workers=2 * replicas + SPARE_WORKERS)
        self.world, self.nodes, self.here = cluster.world, cluster.nodes, cluster.own_subject()
        with cluster.progress.step(f"RayCluster {self.here.name}") as step:
            cluster.kubectl.apply([objects.STOCK, cluster.manifest])
            wait("the RayCluster, complete", self.here.is_settled)
            step.see(self.here.state())

    def take_down(self) -> None:
        """End all processes."""
        self.cluster.stop()

    def begin(self, drill: str) -> None:
        """Begin a drill with a complete RayCluster. Raises TimedOutError if an earlier drill left an incomplete one."""
        self._drill = drill
        self._began = time.time()
        self._marks = []
        self._subjects = [self.here]
        self.cluster.auditor.begin(self._began)
        wait("the RayCluster, complete before the drill", self.here.is_whole)

    def end(self) -> None:
        """Raise RehearsalError if someone deleted a pod on a healthy node without a permit of the drill."""
        time.sleep(SETTLED_SECONDS)
        if offences := self.cluster.auditor.offences():
            raise RehearsalError("a pod on a healthy node was deleted: " + "; ".join(offences))

    def show(self) -> None:
        """Print the drill's timeline as far as it is known, from the first action on."""
        began = min((mark.at for mark in self._marks), default=self._began)
        entries = lines(list(self.world.since(began)), self._subjects, self.cluster.auditor.deleters())
        self.console.print(timeline([*self._marks, *entries], began))

    def finish(self) -> None:
        """Wait for the stock RayClusters that are still watched, and show all times side by side."""
        self.wait_for_stock()
        if self._recoveries:
            self.console.print(summary(self._recoveries, DETECTION_SECONDS))

    # -- acting

    def wait_for_stock(self) -> None:
        """Wait until stock RayClusters of earlier drills are complete, or their time is over."""
        if waiting := [each for each in self._recoveries if each.is_alive()]:
            with self.cluster.progress.step(f"stock KubeRay is watched for {STOCK_SECONDS} s") as step:
                for each in waiting:
                    each.join()
                    step.see(f"{each.drill}: {each.outcome()}")

    def mark(self, what: str) -> None:
        """Add to the timeline what is done to both subjects now."""
        self._marks.append(TimelineLine(time.time(), "", what))

    def stock(self) -> Subject:
        """Create a stock RayCluster of the same size for this drill, on its own nodes; return it once complete."""
        name = f"stock-{self._drill}"
        nodes = objects.stock_nodes(self.cluster.environment, name, workers=2 * self.here.replicas + SPARE_WORKERS)
        self.nodes.add_all(nodes)
        self.cluster.kubectl.apply([objects.stock_cluster(self.cluster.manifest, name)])
        subject = Subject(STOCK, objects.STOCK_NAMESPACE, name, self.here.replicas, self.world, zone=name)
        wait(f"RayCluster {name}, complete", subject.is_settled)
        # Only shown: from a stale cache KubeRay 1.2.0 may create a pod too many and delete another one (kuberay#715).
        self.cluster.auditor.permit(OPERATOR, subject.owns)
        self._subjects.append(subject)
        return subject

    def lose_nodes_of(self, pods: Mapping[Subject, Object], *, limit: float) -> None:
        """Stop the heartbeats of these pods' nodes.

        The environment's RayCluster must be complete within `limit` seconds after the loss is noticed.
        """
        lost = {subject: pod["spec"]["nodeName"] for subject, pod in pods.items()}
        for node in lost.values():
            self.nodes.stop_heartbeat(node)
        noticed = {subject: self._unhealthy_since(node) for subject, node in lost.items()}
        node = lost[self.here]
        try:
            self.recover(
                {subject: ([pods[subject]], noticed[subject]) for subject in pods}, limit=limit, detection=True
            )
        finally:
            self.nodes.resume_heartbeat(node)
        wait(f"node {node}, healthy again", lambda: node in self.world.healthy_nodes())

    def fail(self, pod: Object) -> None:
        """Report a pod as Failed, as its kubelet does after an eviction; permit the operator to delete it."""
        self.permit(OPERATOR, pod)
        failures.evict(self.cluster.api, pod)

    def delete_at_once(self, pod: Object) -> None:
        """Delete a pod without a grace period, as an administrator."""
        failures.delete_at_once(self.cluster.api, pod)

    def permit(self, user: str, *pods: Object) -> None:
        """Permit a user to delete these pods although their nodes are healthy, because the drill is about that."""
        allowed = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods}
        self.cluster.auditor.permit(user, lambda pod: (pod.namespace, pod.name) in allowed)

    def permit_surplus(self, *subjects: Subject) -> None:
        """Permit the operator to delete pods of these subjects that it creates from now on.

        KubeRay 1.2.0 sometimes creates too many workers from a stale cache, and deletes them again.
        """
        there = {name for subject in subjects for name in names(subject.pods())}
        self.cluster.auditor.permit(OPERATOR, lambda pod: pod.name not in there)

    def set_replicas(self, subject: Subject, replicas: int) -> None:
        """Change the size of a RayCluster's worker group."""
        path = f"/apis/ray.io/v1/namespaces/{subject.namespace}/rayclusters/{subject.name}"
        groups = self.cluster.api.get(path)["spec"]["workerGroupSpecs"]
        groups[0] |= {"replicas": replicas, "maxReplicas": max(replicas, groups[0]["maxReplicas"])}
        self.cluster.api.patch(path, {"spec": {"workerGroupSpecs": groups}})
        subject.replicas = replicas

    def join_workers(self, count: int) -> None:
        """Add new nodes of the environment's worker group."""
        environment = self.cluster.environment
        group = objects.worker_group(environment)
        self.nodes.add_all(
            objects.hyperpod_node(environment, group, f"hyperpod-{group.name}-new-{number}")
            for number in range(1, count + 1)
        )

    def recover(
        self,
        broken: Mapping[Subject, tuple[Sequence[Object], float]],
        *,
        limit: float,
        part: str = "",
        both: bool = False,
        detection: bool = False,
    ) -> None:
        """Wait until the environment's RayCluster is complete without the pods that broke.

        Args:
            broken: for each subject, its broken pods and the time of the failure (seconds since the epoch).
            limit: seconds within which the environment's RayCluster must be complete, else RehearsalError is raised.
            part: which part of the drill this is, for its results.
            both: wait for stock RayClusters, too; otherwise they are watched while other drills run.
            detection: the time of the failure is when a silent node was noticed.
        """
        started = {
            subject: Recovery(
                drill=f"{self._drill} {part}".strip(),
                subject=subject,
                since=moment,
                without=names(pods),
                patience=STOCK_SECONDS if subject.title == STOCK else 2 * limit,
                limit=limit if subject.title == HERE else None,
                detection=detection,
            )
            for subject, (pods, moment) in broken.items()
        }
        self._recoveries += started.values()
        for each in started.values():
            each.start()
        for subject, each in started.items():
            if both or subject is self.here:
                each.join()
        if not started[self.here].kept:
            raise RehearsalError(f"complete within {limit:.0f} s was promised: {started[self.here].outcome()}")

    def _unhealthy_since(self, node: str) -> float:
        """Wait until a node is no longer healthy; return when that was noticed."""
        wait(f"node {node}, lost", lambda: node not in self.world.healthy_nodes())
        return max(each.at for each in self.world.since(self._began) if (each.kind, each.name) == ("node", node))
