"""Lower the replicas of a worker group without ending a running worker."""

import time
from collections.abc import Sequence
from typing import Any

import kubernetes
from kubernetes.client import ApiException

from ops.change.drain import Say
from ops.change.scale_plan import Replicas
from ops.clients import REQUEST_TIMEOUT
from ops.durations import until_next_poll


class WorkersNotLoweredError(Exception):
    """A worker group was not lowered in time, or somebody else changed it; the message names the group."""


def lower(change: Replicas, api: kubernetes.client.ApiClient, say: Say, *, deadline: float, interval: float) -> None:
    """Lower the group's replicas one by one; each time remove a pod that no node has room for.

    The nodes are already drained, so KubeRay has replaced their pods by such pending pods. KubeRay 1.2.0 cannot take
    the final number at once: while its cache still holds an ended pod of `workersToDelete`, it counts that pod as
    running and deletes another one "randomly" (raycluster_controller.go, reconcilePods; seen in the drill scale-down).
    A pending pod ends at once, so cache and number agree. Raises WorkersNotLoweredError.
    """
    core = kubernetes.client.CoreV1Api(api)
    for replicas in range(change.before, change.after, -1):
        waiting = _settled(core, change, replicas, deadline=deadline, interval=interval)
        if not waiting:
            say(f"{change}: keeps {replicas} replicas: all their pods found a node")
            return
        _patch(api, change, replicas, waiting[0])
        say(f"{change}: {replicas - 1} replicas, without {waiting[0]}")
    _settled(core, change, change.after, deadline=deadline, interval=interval)


def _settled(
    core: kubernetes.client.CoreV1Api, change: Replicas, replicas: int, *, deadline: float, interval: float
) -> Sequence[str]:
    """Wait for exactly `replicas` pods, each scheduled or unschedulable; return the names of the unschedulable ones."""
    selector = f"ray.io/cluster={change.cluster},ray.io/group={change.group},ray.io/node-type=worker"
    started = time.monotonic()
    while True:
        pods = core.list_namespaced_pod(
            change.namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT
        ).items
        waiting = sorted(pod.metadata.name for pod in pods if _is_unschedulable(pod))
        decided = len(waiting) + sum(bool(pod.spec.node_name) for pod in pods)
        ending = [pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp]
        if len(pods) == decided == replicas and not ending:
            return waiting
        if time.monotonic() >= deadline:
            still = f", {', '.join(ending)} still terminating" if ending else ""
            reason = f"{change} has {len(pods)} pods instead of {replicas}{still}"
            raise WorkersNotLoweredError(f"{reason}. Fix: find out why, then rerun this command")
        time.sleep(until_next_poll(time.monotonic() - started, interval))


def _is_unschedulable(pod: Any) -> bool:
    return not pod.spec.node_name and any(
        condition.type == "PodScheduled" and condition.reason == "Unschedulable"
        for condition in pod.status.conditions or []
    )


def _patch(api: kubernetes.client.ApiClient, change: Replicas, replicas: int, pod: str) -> None:
    path = f"/spec/workerGroupSpecs/{change.index}"
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": f"{path}/groupName", "value": change.group},
        {"op": "test", "path": f"{path}/replicas", "value": replicas},
        {"op": "add", "path": f"{path}/scaleStrategy", "value": {"workersToDelete": [pod]}},
        {"op": "add", "path": f"{path}/minReplicas", "value": min(change.minimum, replicas - 1)},
        {"op": "replace", "path": f"{path}/replicas", "value": replicas - 1},
    ]
    if change.autoscaled:
        # Without a lower maximum, Ray's autoscaler would request the nodes again. The CRD accepts no maximum below 1.
        patch.append({"op": "add", "path": f"{path}/maxReplicas", "value": max(1, replicas - 1)})
    custom = kubernetes.client.CustomObjectsApi(api)
    try:
        custom.patch_namespaced_custom_object(
            *("ray.io", "v1", change.namespace, "rayclusters", change.cluster),
            patch,
            # By default the client would send this list as a merge patch.
            _content_type="application/json-patch+json",
            _request_timeout=REQUEST_TIMEOUT,
        )
    except ApiException as error:
        if error.status != 422:
            raise
        raise WorkersNotLoweredError(
            f"{change} was changed by somebody else meanwhile. Fix: rerun this command"
        ) from error
