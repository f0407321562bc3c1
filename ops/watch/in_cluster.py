"""Serve the pages of `observability.in_cluster`: Prometheus, Alertmanager, and Grafana beside Ray's dashboard."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import kubernetes

from k8s_charts.shared.flows import ALERTMANAGER_PODS, GRAFANA_PODS, PROMETHEUS_PODS
from k8s_charts.shared.names import ALERTMANAGER_PORT, GRAFANA_PORT, PROMETHEUS_NAMESPACE, PROMETHEUS_PORT
from ops.clients import REQUEST_TIMEOUT
from ops.watch.browser_access import BrowserAccess
from ops.watch.dashboard import DashboardServer, DashboardSource
from ops.watch.logs import Say
from ops.watch.page import Page


def source(core: kubernetes.client.CoreV1Api, page: Page) -> DashboardSource:
    """Return the source of a page that is none of a head."""
    return prometheus(core) if page is Page.PROMETHEUS else alertmanager(core)


def prometheus(core: kubernetes.client.CoreV1Api) -> DashboardSource:
    """Return the Prometheus of `observability.in_cluster`."""
    return _observing(core, "Prometheus", PROMETHEUS_PODS, PROMETHEUS_PORT)


def alertmanager(core: kubernetes.client.CoreV1Api) -> DashboardSource:
    """Return the Alertmanager of `observability.alerts`."""
    return _observing(core, "Alertmanager", ALERTMANAGER_PODS, ALERTMANAGER_PORT)


def grafana(core: kubernetes.client.CoreV1Api) -> DashboardSource:
    """Return the Grafana of `observability.in_cluster`."""
    return _observing(core, "Grafana", GRAFANA_PODS, GRAFANA_PORT)


def _observing(core: kubernetes.client.CoreV1Api, title: str, labels: Mapping[str, str], port: int) -> DashboardSource:
    selector = ",".join(f"{key}={value}" for key, value in labels.items())

    def find() -> list[str]:
        pods = core.list_namespaced_pod(
            PROMETHEUS_NAMESPACE, label_selector=selector, _request_timeout=REQUEST_TIMEOUT
        ).items
        return [str(pod.metadata.name) for pod in pods if pod.status.phase == "Running"]

    missing = f"{title} does not run. Fix: kubectl get pods -n {PROMETHEUS_NAMESPACE}"
    return DashboardSource(title, PROMETHEUS_NAMESPACE, find, port, missing)


@contextmanager
def with_grafana(
    core: kubernetes.client.CoreV1Api, say: Say, access: BrowserAccess, port: int = GRAFANA_PORT
) -> Iterator[None]:
    """Serve Grafana during the block, at the port where pages of Ray's dashboard look for their charts.

    Another program at the port is no error: it may be a port-forward to Grafana, and the dashboard works without.
    """
    try:
        served = DashboardServer(core, grafana(core), say, port, access)
    except OSError as error:
        say(f"port {port} is not free ({error.strerror}): the dashboard shows the charts of what serves there")
        yield
        return
    with served:
        thread = threading.Thread(target=served.serve, name="grafana", daemon=True)
        thread.start()
        say(f"{served.address}  Grafana, whose charts the dashboard shows")
        try:
            yield
        finally:
            served.stop()
            thread.join()
