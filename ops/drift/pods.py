"""Find Ray pods with an old template, and RayClusters that are gone."""

from collections.abc import Iterator

import kubernetes
from kubernetes.client import ApiException

from config import EksEnvironment
from ops.clients import REQUEST_TIMEOUT
from ops.drift.finding import Drift
from ops.readiness.outdated_pods import outdated


def pod_drifts(environment: EksEnvironment, api: kubernetes.client.ApiClient) -> Iterator[Drift]:
    """Yield each RayCluster that is gone, or has pods that differ from its spec."""
    namespace = environment.ray.namespace
    custom, core = kubernetes.client.CustomObjectsApi(api), kubernetes.client.CoreV1Api(api)
    for cluster in environment.ray.clusters:
        name = f"{namespace}/{cluster.name}"
        try:
            found = custom.get_namespaced_custom_object(
                "ray.io", "v1", namespace, "rayclusters", cluster.name, _request_timeout=REQUEST_TIMEOUT
            )
        except ApiException as error:
            if error.status != 404:
                raise
            yield Drift("RayCluster", name, "is deleted")
            continue
        selector = f"ray.io/cluster={cluster.name}"
        pods = core.list_namespaced_pod(namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT).items
        for phrase in outdated(found, pods).phrases():
            yield Drift("RayCluster", name, f"{phrase}: `ops rollout {cluster.name} --env {environment.name}`")
