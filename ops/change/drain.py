"""Cordon and drain nodes, as `kubectl cordon` and `kubectl drain --ignore-daemonsets` do."""

import time
from collections.abc import Callable
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiException

from ops.clients import REQUEST_TIMEOUT
from ops.durations import until_next_poll
from ops.readiness.conditions import is_ready

_MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of a static pod, which the kubelet runs without the API server (Kubernetes docs: static pods)."""

Say = Callable[[str], None]


class DrainTimeoutError(Exception):
    """A node still runs pods at the deadline; the message names them."""


def cordon(core: kubernetes.client.CoreV1Api, node: str, mark: str) -> None:
    """Cordon the node and set the annotation `mark` on it; do nothing if the node no longer exists."""
    change = {"metadata": {"annotations": {mark: "true"}}, "spec": {"unschedulable": True}}
    merge = {"_content_type": "application/merge-patch+json"}
    _unless_gone(lambda: core.patch_node(node, change, _request_timeout=REQUEST_TIMEOUT, **merge))


def uncordon(core: kubernetes.client.CoreV1Api, node: str, mark: str) -> None:
    """Revert `cordon`; do nothing if the node no longer exists."""
    change = {"metadata": {"annotations": {mark: None}}, "spec": {"unschedulable": None}}
    merge = {"_content_type": "application/merge-patch+json"}
    _unless_gone(lambda: core.patch_node(node, change, _request_timeout=REQUEST_TIMEOUT, **merge))


def drain(core: kubernetes.client.CoreV1Api, node: str, say: Say, *, deadline: float, interval: float) -> None:
    """Evict the node's pods, except those of DaemonSets, and wait until they are gone.

    An eviction that a PodDisruptionBudget refuses is retried. Raises DrainTimeoutError at `deadline` (a value of
    `time.monotonic`). On a node that is not Ready no kubelet confirms an end: terminating pods there count as gone.
    """
    started = time.monotonic()
    reported: set[str] = set()
    while pods := _pods(core, node):
        for pod in pods:
            refusal = "" if pod.metadata.deletion_timestamp else _evict(core, pod)
            line = f"{node}: {pod.metadata.namespace}/{pod.metadata.name} {refusal or 'is terminating'}"
            if line not in reported:
                reported.add(line)
                say(line)
        if all(pod.metadata.deletion_timestamp for pod in pods) and not _is_ready(core, node):
            return
        if time.monotonic() >= deadline:
            names = ", ".join(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods)
            raise DrainTimeoutError(
                f"{node} still runs {names}. Fix: find out why they do not end, then rerun this command"
            )
        time.sleep(until_next_poll(time.monotonic() - started, interval))


def _pods(core: kubernetes.client.CoreV1Api, node: str) -> list[Any]:
    selector = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
    pods = core.list_pod_for_all_namespaces(field_selector=selector, _request_timeout=REQUEST_TIMEOUT).items
    return [pod for pod in pods if not _stays(pod)]


def _stays(pod: Any) -> bool:
    owners = pod.metadata.owner_references or []
    return _MIRROR in (pod.metadata.annotations or {}) or any(owner.kind == "DaemonSet" for owner in owners)


def _evict(core: kubernetes.client.CoreV1Api, pod: Any) -> str:
    """Evict the pod; return why a PodDisruptionBudget refuses it, or ""."""
    name, namespace = pod.metadata.name, pod.metadata.namespace
    eviction = kubernetes.client.V1Eviction(metadata={"name": name, "namespace": namespace})
    create = core.create_namespaced_pod_eviction
    try:
        _unless_gone(lambda: create(name, namespace, eviction, _request_timeout=REQUEST_TIMEOUT))
    except ApiException as error:
        if error.status != 429:
            raise
        return "is protected by a PodDisruptionBudget"
    return ""


def _is_ready(core: kubernetes.client.CoreV1Api, node: str) -> bool:
    found = _unless_gone(lambda: core.read_node(node, _request_timeout=REQUEST_TIMEOUT))
    return found is not None and is_ready(found)


def _unless_gone(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ApiException as error:
        if error.status != 404:
            raise
        return None
