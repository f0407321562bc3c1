"""A cluster with what an environment brings: control plane, nodes, KubeRay, the reaper, its first RayCluster."""

import logging
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Final

from rich.console import Console

from config import Environment
from embedded_account.kubernetes import watching
from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.building import binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.names import REAPER
from rehearsal import stand_ins
from rehearsal.drills.cluster import objects
from rehearsal.drills.cluster.auditor import Auditor
from rehearsal.drills.cluster.kubectl import Kubectl, rendered
from rehearsal.drills.cluster.started import wait_started
from rehearsal.drills.cluster.subject import HERE, Subject, wait
from rehearsal.drills.cluster.world import World
from rehearsal.paths import BINARIES
from rehearsal.report.progress import Progress
from rehearsal.watch import Watch

OPERATOR: Final = "kuberay-operator"
DETECTION_SECONDS: Final = 8
"""node-monitor-grace-period of this control plane; EKS has 40 to 50 seconds."""


class DrillCluster:
    """A cluster in a directory of its own; `start` fills it, `stop` ends every process."""

    def __init__(
        self, environment: Environment, directory: Path, console: Console, plane: ControlPlane | None = None
    ) -> None:
        """`plane` is a control plane of `directory` that has not been started, where the usual one does not do."""
        ray = environment.ray.model_copy(update={"clusters": environment.ray.clusters[:1]})
        self.environment = environment.model_copy(update={"ray": ray})
        self.platform = objects.platform_objects(self.environment)
        self.ray = objects.ray_objects(self.environment)
        [self.manifest] = rendered(*self.ray.clusters.values())
        self.progress = Progress(console)
        self._directory = directory
        shutil.rmtree(directory, ignore_errors=True)
        self.plane = plane or ControlPlane(
            directory,
            binaries.ensure(BINARIES, console.print),
            name="drills",
            node_monitor_grace_period=DETECTION_SECONDS,
        )
        self.watch = Watch()
        self.plane.failed = self.watch.failed
        self.kubectl = Kubectl(self.plane, directory / "charts")

    def start(self, *, workers: int) -> None:
        """Start everything but the RayCluster, with nodes for workers. Raises RehearsalError if a part fails."""
        with self.progress.step("control plane and nodes") as step:
            self.plane.start()
            self.api = self.plane.api
            self.nodes = Nodes(self.api)
            # That the API server does not answer for a while is part of a drill.
            logging.getLogger(watching.__name__).setLevel(logging.ERROR)
            self.world = World(self.api)
            self.world.start()
            self.auditor = Auditor(self.world, self.plane.pod_deletions)
            self.nodes.add_all([*objects.system_nodes(), *objects.hyperpod_nodes(self.environment, workers=workers)])
            step.see(f"{workers} worker nodes, a head's and a spare one, 2 system nodes")
        with self.progress.step("KubeRay and the reaper") as step:
            self._install()
            step.see(f"KubeRay {self.environment.kuberay.version} with the environment's Helm values")
            step.see("reaper: all replicas may do what they need to")

    def own_side(self) -> Subject:
        """The environment's RayCluster, which `manifest` makes."""
        metadata, zone = self.manifest["metadata"], self.environment.network.node_zones[0]
        replicas = self.environment.ray.clusters[0].workers[0].replicas
        return Subject(HERE, metadata["namespace"], metadata["name"], replicas, self.world, zone)

    def stop(self) -> None:
        """End every process."""
        if hasattr(self, "world"):
            self.world.stop()
        self.plane.stop()

    def scale_operator(self, replicas: int) -> None:
        """Let the operator go, or come back, and wait for it."""
        namespace = self.environment.kuberay.namespace
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{OPERATOR}"
        self.api.patch(path, {"spec": {"replicas": replicas}})
        if replicas:
            wait_started(self.plane, namespace, OPERATOR)
        else:
            wait("the operator, gone", lambda: not self.operators())

    def operators(self) -> list[Object]:
        """The operator's pods."""
        pods = self.world.pods(self.environment.kuberay.namespace)
        return [pod for pod in pods if pod["metadata"]["name"].startswith(OPERATOR)]

    def _install(self) -> None:
        """In the order of a deployment; raises Broken when operator or reaper do not start."""
        operator = self.environment.kuberay.namespace
        stand_ins.build(self._directory / "charts", self.plane.binaries)
        self.kubectl.apply(rendered(self.platform.kuberay_namespace, self.platform.kuberay_policies))
        self.kubectl.install(self.platform.kuberay)
        wait_started(self.plane, operator, OPERATOR)
        self.kubectl.apply(rendered(*self._ground()))
        wait_started(self.plane, operator, REAPER)

    def _ground(self) -> list[ProjectChart]:
        """What the ray stack applies before its RayClusters, but for the image build."""
        later = {"image_builder_account", "image_build", "clusters"}
        parts = [getattr(self.ray, field.name) for field in fields(self.ray) if field.name not in later]
        return [chart for part in parts for chart in (part.values() if isinstance(part, dict) else [part])]
