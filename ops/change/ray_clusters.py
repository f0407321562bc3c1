"""Read, suspend and resume RayClusters, and wait for their pods.

Suspending a RayCluster makes KubeRay 1.2.0 delete all of its pods, orphans too; resuming it creates new ones. Its
services stay. No manifest contains `spec.suspend`, so a deployment in between (kubectl apply) does not change it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiException

from config.labels import PAUSED
from ops.change.drain import Say
from ops.clients import REQUEST_TIMEOUT
from ops.durations import until_next_poll
from ops.errors import NoAnswerError, RefusedError, in_plain_words
from ops.readiness.conditions import is_ready_to_stay
from ops.readiness.outdated_pods import Json, counted, is_paused, outdated

_KIND: Final = ("ray.io", "v1")
_PLURAL: Final = "rayclusters"
# Not the field's removal: KubeRay 1.3.0 and later (calculateStatus) keep a RayCluster without it suspended.
_RESUMED: Final = False
_Body = Mapping[str, Any]


@dataclass(frozen=True)
class LiveRayCluster:
    """A RayCluster in the Kubernetes API; `str()` names it for people."""

    api: kubernetes.client.ApiClient
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"RayCluster {self.namespace}/{self.name}"

    def read(self) -> Mapping[str, Any]:
        """Return the object."""
        read = kubernetes.client.CustomObjectsApi(self.api).get_namespaced_custom_object
        found: Mapping[str, Any] = read(*self._path, _request_timeout=REQUEST_TIMEOUT)
        return found

    def pods(self) -> Sequence[Any]:
        """Return all of its pods, terminating ones too."""
        core = kubernetes.client.CoreV1Api(self.api)
        selector = f"ray.io/cluster={self.name}"
        listed = core.list_namespaced_pod(self.namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT)
        items: Sequence[Any] = listed.items
        return items

    def unpaused(self) -> tuple[Mapping[str, Any], Sequence[Any]]:
        """Return the object and its pods. Raises RefusedError if it does not exist or is paused."""
        try:
            cluster, pods = self.read(), self.pods()
        except ApiException as error:
            if error.status != 404:
                raise
            raise RefusedError(f"{self} does not exist. Fix: deploy the ray stack") from None
        if is_paused(cluster):
            raise RefusedError(f"{self} is paused, and new pods would find no node. Fix: `ops resume`")
        return cluster, pods

    def delete(self, pods: Sequence[Any]) -> None:
        """Delete the pods with their grace period; a pod that is gone already is no error."""
        core = kubernetes.client.CoreV1Api(self.api)
        for pod in pods:
            try:
                core.delete_namespaced_pod(pod.metadata.name, self.namespace, _request_timeout=REQUEST_TIMEOUT)
            except ApiException as error:
                if error.status != 404:
                    raise

    def suspend(self) -> None:
        """Make KubeRay delete all of its pods."""
        self._patch({"spec": {"suspend": True}})

    def resume(self) -> None:
        """Make KubeRay create its pods again."""
        self._patch({"spec": {"suspend": _RESUMED}})

    def pause(self) -> None:
        """Suspend it, and record that `ops pause` did."""
        self._patch({"metadata": {"annotations": {PAUSED: "true"}}, "spec": {"suspend": True}})

    def unpause(self) -> None:
        """Revert `pause`."""
        self._patch({"metadata": {"annotations": {PAUSED: None}}, "spec": {"suspend": _RESUMED}})

    def annotate(self, key: str, value: str) -> None:
        """Set an annotation."""
        self._patch({"metadata": {"annotations": {key: value}}})

    def unfinished_suspension(self) -> str:
        """Return which pods must go before a resume, or "": KubeRay counts a terminating pod as a running one."""
        if pods := self.pods():
            return f"{counted(pods)} still terminating"
        state = self.read().get("status", {}).get("state")
        return "" if state == "suspended" else "KubeRay's operator has not yet noticed that all pods are gone"

    def not_ready(self) -> str:
        """Return how many pods are ready, or "" if all are and have the current template."""
        cluster, pods = self.read(), self.pods()
        stale = outdated(cluster, pods)
        current = [pod for pod in pods if not any(pod is each for each in (*stale.old, *stale.orphans))]
        ready = sum(map(is_ready_to_stay, current))
        wanted = 1 + sum(map(replicas, cluster["spec"].get("workerGroupSpecs", [])))
        return "" if ready >= wanted and len(current) == len(pods) else f"{ready} of {wanted} pods are ready"

    @property
    def _path(self) -> tuple[str, ...]:
        return (*_KIND, self.namespace, _PLURAL, self.name)

    def _patch(self, change: _Body) -> None:
        kubernetes.client.CustomObjectsApi(self.api).patch_namespaced_custom_object(
            *self._path,
            change,
            _content_type="application/merge-patch+json",
            _request_timeout=REQUEST_TIMEOUT,
        )


def replicas(group: Json) -> int:
    """Return the replicas within the group's bounds, as KubeRay computes them (utils.GetWorkerGroupDesiredReplicas)."""
    return int(min(max(group.get("replicas", 0), group["minReplicas"]), group["maxReplicas"]))


def until(missing: Callable[[], str], say: Say, *, deadline: float, interval: float) -> str:
    """Call `missing` until it returns "" or `deadline` (a value of `time.monotonic`) passes; return its last answer.

    Requests without an answer are retried: giving up would leave a RayCluster suspended.
    """
    started, reported = time.monotonic(), ""
    while True:
        try:
            with in_plain_words():
                answer = missing()
        except NoAnswerError as error:
            answer = f"no answer, retrying: {error.what}"
        if not answer or time.monotonic() >= deadline:
            return answer
        if answer != reported:
            reported = answer
            say(answer)
        time.sleep(until_next_poll(time.monotonic() - started, interval))
