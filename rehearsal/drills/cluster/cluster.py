"""Run a cluster with an environment's objects: control plane, nodes, KubeRay, the reaper, its first RayCluster."""

import logging
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Final

from rich.console import Console

from config import EksEnvironment
from embedded_account.kubernetes import watching
from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.kubernetes.nodes import Nodes
from k8s_charts.shared.chart import ProjectChart
from k8s_charts.shared.names import REAPER
from rehearsal import programs, stand_ins
from rehearsal.drills.cluster import objects
from rehearsal.drills.cluster.auditor import Auditor
from rehearsal.drills.cluster.kubectl import StrictKubectl, rendered
from rehearsal.drills.cluster.started import is_available, wait_started
from rehearsal.drills.cluster.subject import HERE, Subject, wait
from rehearsal.drills.cluster.upgrade import newer
from rehearsal.drills.cluster.world import ClusterHistory
from rehearsal.report.progress import StepProgress
from rehearsal.run.steps import RehearsalError
from rehearsal.watch import Watch

OPERATOR: Final = "kuberay-operator"
DETECTION_SECONDS: Final = 16
"""The node-monitor-grace-period of this control plane, shorter than EKS's (report.py)."""


class DrillCluster:
    """A cluster in its own directory; `start` fills it, `stop` ends all processes."""

    def __init__(
        self, environment: EksEnvironment, directory: Path, console: Console, plane: ControlPlane | None = None
    ) -> None:
        """Describe the cluster; `plane` replaces the usual control plane. It uses `directory`, and is not started."""
        ray = environment.ray.model_copy(update={"clusters": environment.ray.clusters[:1]})
        self.environment = environment.model_copy(update={"ray": ray})
        self.platform = objects.platform_objects(self.environment)
        self.ray = objects.ray_objects(self.environment)
        [self.manifest] = rendered(*self.ray.clusters.values())
        self.progress = StepProgress(console)
        self._directory = directory
        shutil.rmtree(directory, ignore_errors=True)
        self.plane = plane or ControlPlane(
            directory,
            programs.built(environment, console.print),
            name="drills",
            node_monitor_grace_period=DETECTION_SECONDS,
            kubernetes=environment.kubernetes_version,
        )
        self.watch = Watch()
        self.plane.failed = self.watch.failed
        self.kubectl = StrictKubectl(self.plane, directory / "charts")

    def start(self, *, workers: int) -> None:
        """Start everything except the RayCluster, with nodes for workers. Raises RehearsalError if a part fails."""
        with self.progress.step("control plane and nodes") as step:
            self.plane.start()
            self.api = self.plane.api
            self.nodes = Nodes(self.api)
            # A drill makes the API server unavailable for a while.
            logging.getLogger(watching.__name__).setLevel(logging.ERROR)
            self.world = ClusterHistory(self.api)
            self.world.start()
            self.auditor = Auditor(self.world, self.plane.pod_deletions)
            self.nodes.add_all([*objects.system_nodes(), *objects.hyperpod_nodes(self.environment, workers=workers)])
            step.see(f"Kubernetes {self.api.get('/version')['gitVersion']}")
            step.see(f"{workers} worker nodes, a head node and a spare one, 2 system nodes")
        with self.progress.step("KubeRay and the reaper") as step:
            self._install()
            step.see(f"KubeRay {self.environment.kuberay_version} with the environment's Helm values")
            step.see("reaper: all replicas have the rights that they need")

    def own_subject(self) -> Subject:
        """Return the environment's RayCluster, which `manifest` creates."""
        metadata, zone = self.manifest["metadata"], self.environment.network.node_zones[0]
        replicas = self.environment.ray.clusters[0].workers[0].replicas
        return Subject(HERE, metadata["namespace"], metadata["name"], replicas, self.world, zone)

    def stop(self) -> None:
        """End all processes."""
        if hasattr(self, "world"):
            self.world.stop()
        self.plane.stop()

    def scale_operator(self, replicas: int) -> None:
        """Stop or restart the operator, and wait for it."""
        namespace = self.environment.kuberay.namespace
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{OPERATOR}"
        self.api.patch(path, {"spec": {"replicas": replicas}})
        if replicas:
            wait_started(self.plane, namespace, OPERATOR)
        else:
            wait("the operator, gone", lambda: not self.operators())

    def upgrade_controllers(self) -> None:
        """Apply a version with changed controllers' code as a deployment does, and wait for the reaper.

        Raises RehearsalError if no replica of the reaper is available meanwhile.
        """
        upgraded = newer(rendered(*self._ground()))
        self.kubectl.apply([each for each in upgraded if each["kind"] == "ConfigMap"])
        self.kubectl.apply([each for each in upgraded if each["kind"] != "ConfigMap"])
        path = f"/apis/apps/v1/namespaces/{self.environment.kuberay.namespace}/deployments/{REAPER}"

        def is_upgraded() -> bool:
            found = self.api.get(path)
            if not found["status"].get("availableReplicas"):
                raise RehearsalError("the upgrade must keep a replica of the reaper available")
            return is_available(found)

        wait("the upgraded reaper", is_upgraded)

    def operators(self) -> list[Object]:
        """Return the operator's pods."""
        pods = self.world.pods(self.environment.kuberay.namespace)
        return [pod for pod in pods if pod["metadata"]["name"].startswith(OPERATOR)]

    def _install(self) -> None:
        """Install in the order of a deployment. Raises RehearsalError if operator or reaper do not start."""
        operator = self.environment.kuberay.namespace
        stand_ins.build(self._directory / "charts", self.plane.binaries, self.environment.kuberay_version)
        # Viewers read in the namespace of the image build, too.
        namespaces = (self.platform.kuberay_namespace, self.platform.image_build_namespace)
        self.kubectl.apply(rendered(*namespaces, self.platform.kuberay_policies))
        self.kubectl.install(self.platform.kuberay)
        wait_started(self.plane, operator, OPERATOR)
        self.kubectl.apply(rendered(*self._ground()))
        wait_started(self.plane, operator, REAPER)

    def _ground(self) -> list[ProjectChart]:
        """Return what the ray stack applies before its RayClusters, except the image build."""
        later = {"image_builder_account", "image_build", "clusters"}
        parts = [getattr(self.ray, field.name) for field in fields(self.ray) if field.name not in later]
        return [chart for part in parts for chart in (part.values() if isinstance(part, dict) else [part])]
