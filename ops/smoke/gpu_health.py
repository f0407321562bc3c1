"""Ask Prometheus whether the GPUs of nodes are healthy: what the alerts about GPUs ask, without their delay."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import urlencode

import kubernetes
from kubernetes.client import ApiException

from config import EksEnvironment
from k8s_charts.in_cluster.alerts import ALERTS
from k8s_charts.in_cluster.scrape import DCGM_JOB
from k8s_charts.shared.flows import PROMETHEUS_PODS
from k8s_charts.shared.names import PROMETHEUS_NAMESPACE, PROMETHEUS_PORT
from ops.clients import REQUEST_TIMEOUT
from ops.port_forward import open_port_forward

_EXPORTERS: Final = f'up{{job="{DCGM_JOB}"}} == 1'
# The exporter's own silence is no fault of a GPU: it is told as a node that nobody watches.
_FAULTS: Final = {alert.name: alert.expression for alert in ALERTS if alert.gpus and DCGM_JOB not in alert.value}


@dataclass(frozen=True)
class GpuHealth:
    """What is known of the nodes' GPUs: the nodes whose exporter answers, and the faults."""

    watched: frozenset[str]
    problems: tuple[str, ...]
    unknown: str | None = None
    """Why nothing is known; None if Prometheus answered."""


def health(environment: EksEnvironment, api: kubernetes.client.ApiClient, nodes: Collection[str]) -> GpuHealth:
    """Return the health of the GPUs of nodes, as Prometheus scraped it last. What cannot be asked is unknown."""
    if not environment.observed_gpu_groups:
        return GpuHealth(frozenset(), (), "nobody watches it: `observability.in_cluster` is off")
    core = kubernetes.client.CoreV1Api(api)
    try:
        pod = _prometheus(core)
        found = {name: _series(core, pod, asked) for name, asked in {"": _EXPORTERS, **_FAULTS}.items()}
    except (ApiException, OSError, HTTPException, ValueError, LookupError) as error:
        reason = error.reason if isinstance(error, ApiException) else error
        return GpuHealth(frozenset(), (), f"Prometheus does not answer: {reason or type(error).__name__}")
    return health_of(found.pop(""), found, nodes)


def health_of(
    exporters: Collection[Mapping[str, str]],
    faults: Mapping[str, Collection[Mapping[str, str]]],
    nodes: Collection[str],
) -> GpuHealth:
    """Return the health of the GPUs of nodes from the labels of series: exporters that answer, and faults by alert."""
    watched = frozenset(nodes) & {labels["node"] for labels in exporters}
    problems = sorted(
        f"{alert}{_xid(labels)} on GPU {labels['gpu']} of {labels['node']}"
        for alert, series in faults.items()
        for labels in series
        if labels["node"] in nodes
    )
    return GpuHealth(watched, tuple(problems))


def _xid(labels: Mapping[str, str]) -> str:
    return f" {labels['xid']}" if "xid" in labels else ""


def _prometheus(core: kubernetes.client.CoreV1Api) -> str:
    """Return the name of Prometheus' running pod. Raises LookupError and ApiException."""
    labels = ",".join(f"{name}={value}" for name, value in PROMETHEUS_PODS.items())
    pods = core.list_namespaced_pod(PROMETHEUS_NAMESPACE, label_selector=labels, _request_timeout=REQUEST_TIMEOUT).items
    for pod in pods:
        if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp:
            return str(pod.metadata.name)
    raise LookupError(f"namespace {PROMETHEUS_NAMESPACE} has no running pod of it")


def _series(core: kubernetes.client.CoreV1Api, pod: str, expression: str) -> list[Mapping[str, str]]:
    """Return the labels of the series that a query finds."""
    forward = open_port_forward(core, PROMETHEUS_NAMESPACE, pod, PROMETHEUS_PORT)
    try:
        connection = HTTPConnection("localhost", timeout=REQUEST_TIMEOUT[1])
        connection.sock = forward.socket(PROMETHEUS_PORT)
        connection.sock.settimeout(REQUEST_TIMEOUT[1])
        connection.request("GET", f"/api/v1/query?{urlencode({'query': expression})}", headers={"Connection": "close"})
        answered: Any = json.loads(connection.getresponse().read())
        return [each["metric"] for each in answered["data"]["result"]]
    finally:
        forward.close()
