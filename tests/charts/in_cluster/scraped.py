"""The cluster that a real Prometheus of a test scrapes: real controllers, and what real Ray said."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

from config.labels import INSTANCE_GROUP_LABEL, INSTANCE_TYPE_LABEL, SYSTEM_NODE_LABEL, SYSTEM_NODE_ROLE
from controllers.aws_api import AwsApi
from controllers.group_users import SleepingGroup
from controllers.in_cluster.efa_exporter import EfaExporter
from controllers.in_cluster.exporter import RunExporter
from controllers.job_decision import Limits
from controllers.job_run import RunState, SupervisedRun
from controllers.kubernetes_api import ApiServer
from controllers.lease import STATE, TRAINS
from controllers.reaper import Reaper
from controllers.sleeper import GroupMetrics, Sleeper
from controllers.supervision import Supervisor
from controllers.telemetry import Metrics, serve
from embedded_account.kubernetes import pki
from k8s_charts.in_cluster.scrape import DCGM_JOB, EFA_JOB, configuration
from k8s_charts.shared.names import (
    DCGM_EXPORTER,
    DCGM_PORT,
    EFA_EXPORTER,
    JOB_SUPERVISOR,
    METRICS_PORT,
    REAPER,
    SLEEPER,
)
from tests.support import efa_sysfs, fake_kubernetes
from tests.support.fake_kubernetes import BUILDS, JOBS, LEASES, NODES, FakeKubernetes

SAMPLES = Path(__file__).parent / "samples"
PRICES = {"ml.p5.48xlarge": 63.296, "m5.xlarge": 0.192}
SCRAPED = {"ray", JOB_SUPERVISOR, "reaper", SLEEPER, "kuberay", "exporter", DCGM_JOB, EFA_JOB}
_META = "__meta_kubernetes_pod"
_RAY_LABELS = {"ray.io/is-ray-node": "yes", "ray.io/cluster": "rayml"}


class Said(Metrics):
    """A page of metrics that somebody else said before."""

    def __init__(self, *files: str) -> None:
        super().__init__()
        self._text = "".join((SAMPLES / file).read_text() for file in files)

    def render(self) -> str:
        """Return the page."""
        return self._text


def _labels(of: str, labels: Mapping[str, str]) -> dict[str, str]:
    return {f"{of}_label_{key.translate(str.maketrans('./-', '___'))}": value for key, value in labels.items()}


def a_pod(labels: Mapping[str, str], phase: str = "Running") -> dict[str, str]:
    """Return what Prometheus discovers about a pod with these labels."""
    named = _labels(_META, labels)
    return {f"{_META}_ip": "127.0.0.1", f"{_META}_phase": phase, f"{_META}_name": "pod", **named}


ON_NODE = {
    f"{_META}_node_name": "hyperpod-i-0",
    **_labels("__meta_kubernetes_node", {INSTANCE_GROUP_LABEL: "gpus"}),
}
PODS = {
    "head": a_pod({**_RAY_LABELS, "ray.io/node-type": "head"}),
    "worker": a_pod({**_RAY_LABELS, "ray.io/node-type": "worker", "ray.io/group": "gpu-group"}),
    "supervisor": a_pod({"app.kubernetes.io/name": JOB_SUPERVISOR}),
    "reaper": a_pod({"app.kubernetes.io/name": REAPER}),
    "sleeper": a_pod({"app.kubernetes.io/name": SLEEPER}),
    "gpus": {**a_pod({"app.kubernetes.io/name": DCGM_EXPORTER}), **ON_NODE},
    "efa": {**a_pod({"app.kubernetes.io/name": EFA_EXPORTER}), **ON_NODE},
    "operator": a_pod({"app.kubernetes.io/name": "kuberay-operator"}),
    "starting": a_pod({**_RAY_LABELS, "ray.io/node-type": "worker"}, phase="Pending"),
    "stranger": a_pod({"app.kubernetes.io/name": "shell"}),
}
"""Pods of both namespaces by name."""


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, int]]:
    """Yield the port of each job's metrics."""
    keys = pki.create(folder / "pki", service_ip="10.100.0.1")
    with ExitStack() as stack:
        fake = stack.enter_context(fake_kubernetes.serve(keys, folder / "account"))
        _fill(fake)
        exporter, reaped, supervised, slept = (
            RunExporter(fake.cluster, namespace="ray", builds="image-build", prices=PRICES),
            Metrics(),
            Metrics(),
            GroupMetrics(),
        )
        reaper = Reaper(fake.cluster, reaped, namespace="ray", unready_seconds=30, unwell_seconds=240, dry_run=False)
        _supervisor(fake.cluster, supervised)
        _sleeper(fake.cluster, slept)
        exporter.start()
        reaper.poll()
        stack.callback(exporter.stop)
        pages = {
            "exporter": exporter,
            "reaper": reaped,
            SLEEPER: slept,
            JOB_SUPERVISOR: supervised,
            "ray": Said("ray-2.42.1.txt", "gpu.txt"),
            "kuberay": Metrics(),
            DCGM_JOB: Said("dcgm-4.8.2.txt"),
            EFA_JOB: EfaExporter(folder / "sys"),
        }
        efa_sysfs.add_device(folder / "sys", "rdmap79s0", efa_sysfs.NEWER)
        yield {job: _port(stack, page) for job, page in pages.items()}


def files(ports: Mapping[str, int], rules: Mapping[str, Any]) -> dict[str, str]:
    """Return the project's configuration of Prometheus, with `PODS` in place of a cluster's, scraped each second.

    Debian's Prometheus is built without Kubernetes' discovery: the labels are what Prometheus' documentation says.
    """
    whole = configuration(
        ray_namespace="ray", operator_namespace="kuberay", alertmanager=False, gpus=True, efa=True, sleep=True
    )
    whole["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    whole["scrape_configs"] = [_with_pods(job, ports) for job in whole["scrape_configs"] if job["job_name"] in ports]
    return {"prometheus.yaml": json.dumps(whole), "rules.yaml": json.dumps(rules)}


def _with_pods(job: dict[str, Any], ports: Mapping[str, int]) -> dict[str, Any]:
    own = DCGM_PORT if job["job_name"] == DCGM_JOB else METRICS_PORT
    text = json.dumps(job).replace(f":{own}", f":{ports[job['job_name']]}")
    moved: dict[str, Any] = json.loads(text)
    if moved.pop("kubernetes_sd_configs", None):
        # Each target needs an address of its own until the rules replace it.
        moved["static_configs"] = [{"targets": [f"{name}:1"], "labels": labels} for name, labels in PODS.items()]
    return moved


def _fill(fake: FakeKubernetes) -> None:
    fake.live |= {LEASES, NODES, BUILDS}
    now = datetime.now(UTC).isoformat()
    figures = {"step": 120.0, "steps_per_second": 2.5, "goodput": 93.1}
    state = asdict(RunState(attempt=1, progress=100, progress_at=now, figures=figures))
    metadata = {"name": "train-1", "labels": {TRAINS: "rayml"}, "annotations": {STATE: json.dumps(state)}}
    fake.put(LEASES, {"metadata": metadata, "spec": {"renewTime": now}})
    job = {"name": "train-1", "uid": "1", "creationTimestamp": now, "resourceVersion": "1"}
    fake.put(JOBS, {"metadata": job})
    fake.put(BUILDS, {"metadata": {"name": "ray-image-1", "creationTimestamp": now}, "status": {}})
    prefix = "sagemaker.amazonaws.com"
    labels = {
        f"{prefix}/instance-group-name": "gpus",
        f"{prefix}/node-health-status": "Schedulable",
        f"{prefix}/deep-health-check-status": "Passed",
        INSTANCE_TYPE_LABEL: "ml.p5.48xlarge",
    }
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    fake.put(NODES, {"metadata": {"name": "hyperpod-i-0", "labels": labels}, "status": ready})
    system = {SYSTEM_NODE_LABEL: SYSTEM_NODE_ROLE, INSTANCE_TYPE_LABEL: "m5.xlarge"}
    fake.put(NODES, {"metadata": {"name": "system", "labels": system}, "status": ready})


def _supervisor(server: ApiServer, metrics: Metrics) -> None:
    run = SupervisedRun("train-1", "ray", "rayml", "python train.py", "/fsx", None, 1)
    Supervisor(server, metrics, run, Limits(attempts=1, stalled=1, seconds=1.0), holder="pod")


def _sleeper(server: ApiServer, metrics: GroupMetrics) -> None:
    known = {"group": "gpus", "count": 1, "min": 0, "after_seconds": 1800, "hours": None, "workers": []}
    Sleeper(
        server,
        metrics,
        [SleepingGroup.read(json.dumps(known))],
        create_autospec(AwsApi),
        function="counts",
        namespace="ray",
        own_namespace="kuberay",
        holder="pod",
        tokens={},
        dry_run=False,
    )
    metrics.set("ray_sleeper_last_look_timestamp_seconds", time.time())
    metrics.set_of("ray_sleeper_wanted_nodes", "gpus", 1)


def _port(stack: ExitStack, page: Metrics) -> int:
    server: ThreadingHTTPServer = serve("127.0.0.1:0", page, {})
    stack.callback(server.shutdown)
    return int(server.server_address[1])
