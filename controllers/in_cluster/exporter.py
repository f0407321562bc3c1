"""Export what the Leases of runs, the labels of nodes and the Jobs of image builds say, as gauges for Prometheus.

The job supervisor keeps the state of its run in the run's Lease, and HyperPod labels each node with its health. Runs
that are over are not exported: nothing about them can still go wrong.
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Self

from controllers.kubernetes_api import ApiServer, KubernetesApiError, Object, WatchCache, text
from controllers.lease import TRAINS, saved_state
from controllers.telemetry import Metrics, end_on_signals, log, serve

NAME: Final = "exporter"

# How long the API server may be silent before the kubelet restarts this program.
_DEAF_SECONDS: Final = 300.0

# HyperPod's labels of its nodes (AWS docs: sagemaker-hyperpod-eks-resiliency-node-labels).
_GROUP: Final = "sagemaker.amazonaws.com/instance-group-name"
_HEALTH: Final = "sagemaker.amazonaws.com/node-health-status"
_DEEP_HEALTH: Final = "sagemaker.amazonaws.com/deep-health-check-status"
# EKS and HyperPod write the type as their price lists do: HyperPod's with `ml.`.
_TYPE: Final = "node.kubernetes.io/instance-type"
_ROLE: Final = "ray-on-hyperpod/node-role"
_SYSTEM: Final = "system nodes"
"""In place of an instance group, whose name has no space."""

GAUGES: Final[Mapping[str, str]] = {
    "ray_run_trains": "1 if an attempt of the run has its resources and runs, otherwise 0.",
    "ray_run_progress": "Progress of the run in the job's own unit; -1 if the job prints none.",
    "ray_run_step": "Step that the job printed last.",
    "ray_run_steps_per_second": "Speed that the job printed last.",
    "ray_run_goodput_ratio": "Useful time of the run as a share of its paid time, as the job printed it last.",
    "ray_run_checkpoint_timestamp_seconds": "When the run's progress last grew: its newest checkpoint.",
    "ray_run_failures_without_progress": "Failures of the run in a row without progress.",
    "ray_run_lease_renewal_timestamp_seconds": "When the run's supervisor last renewed its Lease.",
    "hyperpod_node_ready": "1 if the node is Ready, otherwise 0.",
    "hyperpod_node_schedulable": "1 if HyperPod calls the node Schedulable, otherwise 0.",
    "hyperpod_node_deep_health_check": "1 for the state of the node's deep health check.",
    "hyperpod_node_usd_per_hour": "On-demand list price of the node in US dollars per hour, also while it fails.",
    "ray_image_build_failed": "1 if the newest build of the Ray image failed, otherwise 0.",
}
"""Every gauge with its help text."""

Sample = tuple[str, dict[str, str], float]


@dataclass(frozen=True)
class RunSample:
    """A run's Lease: its gauges without the run's name; none if the run is over or the Lease is not a run's."""

    gauges: Mapping[str, float]

    @classmethod
    def of(cls, lease: Object) -> Self:
        """Return the run of a Lease; any version of the supervisor may have written it."""
        metadata = lease["metadata"]
        state = saved_state(lease)
        if not state or state.get("exit_code") is not None:
            return cls({})
        figures = state.get("figures") or {}
        found = {
            "ray_run_trains": TRAINS in (metadata.get("labels") or {}),
            "ray_run_progress": state.get("progress", -1),
            "ray_run_failures_without_progress": state.get("stalled", 0),
            "ray_run_step": figures.get("step"),
            "ray_run_steps_per_second": figures.get("steps_per_second"),
            "ray_run_goodput_ratio": figures["goodput"] / 100 if "goodput" in figures else None,
            "ray_run_checkpoint_timestamp_seconds": _seconds(state.get("progress_at")),
            "ray_run_lease_renewal_timestamp_seconds": _seconds((lease.get("spec") or {}).get("renewTime")),
        }
        return cls({name: float(value) for name, value in found.items() if value is not None})


@dataclass(frozen=True)
class NodeSample:
    """A node: its instance group (empty: not HyperPod's), its health, whether it is Ready, and what it is."""

    group: str
    health: str
    deep_health: str
    ready: bool
    instance_type: str
    system: bool

    @classmethod
    def of(cls, node: Object) -> Self:
        """Return the node of an object."""
        labels = node["metadata"].get("labels") or {}
        conditions = (node.get("status") or {}).get("conditions") or []
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        return cls(
            group=text(labels.get(_GROUP, "")),
            health=text(labels.get(_HEALTH, "")),
            deep_health=text(labels.get(_DEEP_HEALTH, "")),
            ready=ready,
            instance_type=text(labels.get(_TYPE, "")),
            system=labels.get(_ROLE) == "system",
        )


@dataclass(frozen=True)
class Build:
    """A Job that builds the Ray image: when it was created (RFC 3339, in UTC), and whether it has failed for good."""

    created: str
    failed: bool

    @classmethod
    def of(cls, job: Object) -> Self:
        """Return the build of a Job."""
        conditions = (job.get("status") or {}).get("conditions") or []
        failed = any(each["type"] == "Failed" and each["status"] == "True" for each in conditions)
        return cls(text(job["metadata"].get("creationTimestamp") or ""), failed)


class RunExporter(Metrics):
    """The gauges of a namespace's runs, of the cluster's nodes, and of image builds, as they are at each scrape.

    Without `builds`, the namespace of the image's builds, there is no gauge of them. `prices` maps instance types to
    US dollars per hour; a node of another type has no gauge of its price.
    """

    def __init__(
        self, cluster: ApiServer, *, namespace: str, builds: str = "", prices: Mapping[str, float] | None = None
    ) -> None:
        super().__init__()
        self._prices = prices or {}
        self.describe("exporter_errors_total", "counter", "Requests to the API server that failed.")
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._runs = WatchCache(cluster, leases, RunSample.of, self._failed)
        self._nodes = WatchCache(cluster, "/api/v1/nodes", NodeSample.of, self._failed)
        self._builds = WatchCache(cluster, f"/apis/batch/v1/namespaces/{builds}/jobs", Build.of, self._failed)
        self._mirrors: list[WatchCache[RunSample] | WatchCache[NodeSample] | WatchCache[Build]] = [
            self._runs,
            self._nodes,
        ]
        self._mirrors += [self._builds] if builds else []

    def start(self) -> None:
        """Start watching."""
        for mirror in self._mirrors:
            mirror.start()

    def stop(self) -> None:
        """Stop watching."""
        for mirror in self._mirrors:
            mirror.stop()

    def deafness(self) -> str:
        """Return why the API server's answers are missing; empty if they are not."""
        if ended := [mirror.name for mirror in self._mirrors if mirror.ended]:
            return f"ended: {', '.join(ended)}"
        silence = max(mirror.silence() for mirror in self._mirrors)
        return f"no answer from the API server for {silence:.0f} seconds" if silence > _DEAF_SECONDS else ""

    def render(self) -> str:
        """Return the metrics in Prometheus' text format."""
        families: dict[str, list[str]] = {}
        for name, labels, number in self._samples():
            inside = ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items())
            families.setdefault(name, []).append(f"{name}{{{inside}}} {number:.15g}\n")
        gauges = (f"# HELP {name} {GAUGES[name]}\n# TYPE {name} gauge\n{''.join(families[name])}" for name in families)
        return super().render() + "".join(gauges)

    def _samples(self) -> Iterator[Sample]:
        for run, saved in sorted(self._runs.snapshot().items()):
            for name, value in saved.gauges.items():
                yield name, {"run": run}, value
        for name, node in sorted(self._nodes.snapshot().items()):
            if node.group:
                yield from _health(name, node)
            if (node.group or node.system) and node.instance_type in self._prices:
                labels = {"node": name, "instance_group": node.group or _SYSTEM, "instance_type": node.instance_type}
                yield "hyperpod_node_usd_per_hour", labels, self._prices[node.instance_type]
        # A failed build stays beside the one that repeats it.
        if builds := self._builds.snapshot():
            name, build = max(builds.items(), key=lambda item: item[1].created)
            yield "ray_image_build_failed", {"build": name}, float(build.failed)

    def _failed(self, error: KubernetesApiError) -> None:
        self.add("exporter_errors_total")
        log("no answer", controller=NAME, error=str(error))


def _health(name: str, node: NodeSample) -> Iterator[Sample]:
    labels = {"node": name, "instance_group": node.group}
    yield "hyperpod_node_ready", labels, float(node.ready)
    if node.health:
        yield "hyperpod_node_schedulable", {**labels, "status": node.health}, float(node.health == "Schedulable")
    if node.deep_health:
        yield "hyperpod_node_deep_health_check", {**labels, "status": node.deep_health}, 1.0


def _seconds(text: str | None) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=NAME, description="Export the state of runs, nodes and builds for Prometheus."
    )
    parser.add_argument("--namespace", required=True, help="namespace of the runs")
    parser.add_argument("--builds", default="", help="namespace of the image's builds, if there are any")
    parser.add_argument("--prices", type=json.loads, default={}, help="US dollars per hour by instance type, in JSON")
    parser.add_argument("--service-account", type=Path, required=True, help="folder with `token` and `ca.crt`")
    parser.add_argument("--listen", required=True, help="HOST:PORT of /metrics and /healthz")
    return parser.parse_args()


def main() -> None:
    """Export until SIGTERM or SIGINT."""
    arguments = _arguments()
    ending = threading.Event()
    end_on_signals(ending)
    cluster = ApiServer.of_pod(arguments.service_account)
    exporter = RunExporter(cluster, namespace=arguments.namespace, builds=arguments.builds, prices=arguments.prices)
    started = time.monotonic()
    exporter.start()
    # Before the first answer the silence is infinite: the kubelet gives a start the same patience.
    checks = {"/healthz": lambda: exporter.deafness() if time.monotonic() - started > _DEAF_SECONDS else ""}
    serve(arguments.listen, exporter, checks)
    log("started", controller=NAME, namespace=arguments.namespace)
    ending.wait()
    exporter.stop()
    log("ended", controller=NAME)


if __name__ == "__main__":
    main()
