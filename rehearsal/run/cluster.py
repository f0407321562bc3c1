"""Observe the environment's Kubernetes cluster, as the administrator of the control plane."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import kubernetes

from config import EksEnvironment, labels
from ops.readiness.conditions import is_ready


class TimedOutError(Exception):
    """The rehearsal waited for something that did not happen in time."""


T = TypeVar("T")

PATIENCE_SECONDS: Final = 600
"""The timeout of waits that take a sixtieth of it on a quiet machine. CI's may take ten times as long."""


def wait_for(
    what: str, observe: Callable[[], T], reached: Callable[[T], bool], *, timeout: float = PATIENCE_SECONDS
) -> T:
    """Observe ten times a second until `reached`; return the last observation.

    Raises TimedOutError with the last observation after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while not reached(seen := observe()):
        if time.monotonic() > deadline:
            raise TimedOutError(f"{what} was not reached in {timeout:.0f} s; last seen: {seen}")
        time.sleep(0.1)
    return seen


def has(count: int) -> Callable[[list[str]], bool]:
    """Return a check whether a list has `count` entries."""
    return lambda found: len(found) == count


def is_whole(workers: int) -> Callable[[dict[str, Any]], bool]:
    """Return a check whether a RayCluster's status is ready, with `workers` workers."""
    return lambda status: status.get("state") == "ready" and status.get("availableWorkerReplicas") == workers


class ClusterView:
    """The rehearsal's view of one environment's Kubernetes."""

    def __init__(self, environment: EksEnvironment, kubeconfig: Path) -> None:
        self._environment = environment
        api = kubernetes.config.new_client_from_config(str(kubeconfig))
        self._core = kubernetes.client.CoreV1Api(api)
        self._version = kubernetes.client.VersionApi(api)
        self._custom = kubernetes.client.CustomObjectsApi(api)

    def version(self) -> str:
        """Return the version of the API server that runs, such as `v1.34.4`."""
        return str(self._version.get_code().git_version)

    def nodes(self, selector: str) -> list[str]:
        """Return the names of the Ready nodes with these labels."""
        nodes = self._core.list_node(label_selector=selector).items
        return sorted(node.metadata.name for node in nodes if is_ready(node))

    def group_nodes(self, group: str) -> list[str]:
        """Return the names of the Ready nodes of one HyperPod instance group."""
        return self.nodes(f"{labels.INSTANCE_GROUP_LABEL}={group}")

    def volume_of(self, claim: str) -> dict[str, Any]:
        """Return the `csi` part of the volume to which a claim of Ray's namespace is bound."""
        found = self._core.read_namespaced_persistent_volume_claim(claim, self._environment.ray.namespace)
        csi = self._core.read_persistent_volume(found.spec.volume_name).spec.csi
        return {"volumeHandle": csi.volume_handle, "volumeAttributes": csi.volume_attributes}

    def images(self) -> dict[str, str]:
        """Return image → a pod that uses it (`namespace/name`)."""
        pods = self._core.list_pod_for_all_namespaces().items
        return {
            container.image: f"{pod.metadata.namespace}/{pod.metadata.name}"
            for pod in pods
            for container in (*(pod.spec.init_containers or ()), *pod.spec.containers)
        }

    def ray_status(self, name: str) -> dict[str, Any]:
        """Return the RayCluster's status, empty while it has none."""
        try:
            found = self._custom.get_namespaced_custom_object(
                "ray.io", "v1", self._environment.ray.namespace, "rayclusters", name
            )
        except kubernetes.client.ApiException as error:
            if error.status == 404:
                return {}
            raise
        status: dict[str, Any] = found.get("status", {})
        return status

    def ray_pods(self, name: str) -> dict[str, list[str]]:
        """Return group → nodes of the running pods of a RayCluster (`headgroup` is the head's group)."""
        pods = self._core.list_namespaced_pod(
            self._environment.ray.namespace, label_selector=f"ray.io/cluster={name}"
        ).items
        groups: dict[str, list[str]] = {}
        for pod in pods:
            if pod.status.phase == "Running":
                groups.setdefault(pod.metadata.labels["ray.io/group"], []).append(pod.spec.node_name)
        return groups

    def ray_pod_names(self, name: str) -> set[str]:
        """Return the names of the running pods of a RayCluster."""
        selector = f"ray.io/cluster={name}"
        pods = self._core.list_namespaced_pod(self._environment.ray.namespace, label_selector=selector).items
        return {pod.metadata.name for pod in pods if pod.status.phase == "Running"}
