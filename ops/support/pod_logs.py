"""Read the ends of pods' logs, those of earlier starts included."""

from collections.abc import Iterator
from typing import Any, Final

import kubernetes

from ops.clients import REQUEST_TIMEOUT
from ops.errors import UnreachableError, in_plain_words
from ops.readiness.conditions import is_ready
from ops.readiness.simulated import explanation
from ops.support.bundle import CollectedFile
from ops.support.tails import LINES
from ops.watch.logs import Pods

PODS: Final = 50
"""Pods of a source whose logs are read; those that are not ready come first."""


def read(core: kubernetes.client.CoreV1Api, name: str, pods: Pods) -> Iterator[CollectedFile]:
    """Yield a file for each start of each container. Raises ApiException if the pods cannot be listed."""
    listed = core.list_namespaced_pod(
        pods.namespace, label_selector=pods.selector, _request_timeout=REQUEST_TIMEOUT
    ).items
    ordered = sorted(listed, key=is_ready)
    if not ordered:
        yield CollectedFile(f"logs/{name}", "", f"no pod {pods.selector} in namespace {pods.namespace}")
    for pod in ordered[:PODS]:
        for status in [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]:
            if pods.container in {"", status.name}:
                yield from _of_container(core, f"logs/{name}/{pod.metadata.name}.{status.name}", pod, status)
    if len(ordered) > PODS:
        yield CollectedFile(f"logs/{name}", "", f"{len(ordered) - PODS} of {len(ordered)} pods are left out")


def _of_container(core: kubernetes.client.CoreV1Api, file: str, pod: Any, status: Any) -> Iterator[CollectedFile]:
    if status.state.running or status.state.terminated:
        yield _tail(core, f"{file}.log", pod, status.name, previous=False)
    if status.restart_count:
        yield _tail(core, f"{file}.previous.log", pod, status.name, previous=True)


def _tail(core: kubernetes.client.CoreV1Api, file: str, pod: Any, container: str, *, previous: bool) -> CollectedFile:
    options = {"previous": True} if previous else {}
    try:
        with in_plain_words():
            answer = core.read_namespaced_pod_log(
                pod.metadata.name,
                pod.metadata.namespace,
                container=container,
                tail_lines=LINES,
                _preload_content=False,
                _request_timeout=REQUEST_TIMEOUT,
                **options,
            )
            return CollectedFile(file, answer.data.decode(errors="replace"))
    except UnreachableError as error:
        cause = error.__cause__
        reason = explanation(cause) if isinstance(cause, kubernetes.client.ApiException) else ""
        return CollectedFile(file, "", reason or str(error))
