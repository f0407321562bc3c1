"""`ops rollout`: replace a RayCluster's pods with an old template, and delete pods of removed worker groups.

KubeRay 1.2.0 replaces no pod when its template changes. Suspending a RayCluster deletes all of its pods, orphans too;
resuming it creates new ones. Its services stay. No manifest contains `spec.suspend`, so a deployment in between
(kubectl apply) does not change it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiException

from config import Environment
from ops.change.drain import Say
from ops.change.scale import RefusedError
from ops.clients import REQUEST_TIMEOUT, Clients
from ops.errors import NoAnswerError, in_plain_words
from ops.readiness.conditions import is_ready_to_stay
from ops.readiness.item import State
from ops.readiness.one_off_jobs import image
from ops.readiness.outdated_pods import Json, Outdated, counted, is_suspended, outdated

_KIND: Final = ("ray.io", "v1")
_PLURAL: Final = "rayclusters"


@dataclass(frozen=True)
class Rollout:
    """The rollout that one RayCluster needs; `pods` are all its pods."""

    namespace: str
    name: str
    suspended: bool
    pods: Sequence[Any]
    outdated: Outdated

    @property
    def restarts(self) -> bool:
        """Whether all of its pods are replaced."""
        return self.suspended or bool(self.outdated.old)

    @property
    def is_needed(self) -> bool:
        return self.restarts or bool(self.outdated.orphans)

    def __str__(self) -> str:
        return f"RayCluster {self.namespace}/{self.name}"


def look(environment: Environment, api: kubernetes.client.ApiClient, name: str | None) -> list[Rollout]:
    """Plan the rollout of the RayCluster `name`; None means all. Raises RefusedError if one does not exist."""
    names = [cluster.name for cluster in environment.ray.clusters]
    if name is not None and name not in names:
        raise RefusedError(f"{environment.name} has no RayCluster {name}. Allowed: {', '.join(names)}")
    return [_plan(api, environment.ray.namespace, each) for each in ([name] if name else names)]


def _plan(api: kubernetes.client.ApiClient, namespace: str, name: str) -> Rollout:
    try:
        cluster, pods = _cluster(api, namespace, name), _pods(api, namespace, name)
    except ApiException as error:
        if error.status != 404:
            raise
        raise RefusedError(f"RayCluster {namespace}/{name} does not exist. Fix: deploy the ray stack") from None
    return Rollout(namespace, name, is_suspended(cluster), pods, outdated(cluster, pods))


def refuse_missing_image(environment: Environment, clients: Clients) -> None:
    """Raise RefusedError while the Ray image is missing: new pods could not start (deployments wait for no build)."""
    item = image(environment, clients)
    if item.state is not State.READY:
        raise RefusedError(
            f"the Ray image {item.name} is missing ({item.detail}): new pods could not start. "
            f"Fix: `ops wait --env {environment.name}`, or override with `--force`"
        )


def describe(made: Rollout) -> Iterator[str]:
    """Yield the steps of the rollout, one line each."""
    if not made.is_needed:
        yield f"{made}: no pod has an old template or a removed group"
        return
    yield from (f"{made}: {line}" for line in made.outdated.said())
    if made.suspended:
        yield f"{made}: is suspended and will be resumed"
    elif made.restarts:
        yield f"{made}: suspend until its {counted(made.pods)} are gone, then resume; its jobs end"
    else:
        yield f"{made}: delete the pods of removed groups; all others stay"


def carry_out(made: Rollout, api: kubernetes.client.ApiClient, say: Say, *, timeout: float, interval: float) -> None:
    """Carry out the rollout and report each step. Rerunning the command resumes an interrupted rollout.

    Raises RefusedError if the steps are not done in `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    if not made.restarts:
        _remove(made, api, say, deadline=deadline, interval=interval)
        return
    try:
        _suspend(api, made, True)
        say(f"{made}: suspended")
        left = _until(lambda: _still_there(api, made) or _resume(api, made), say, deadline=deadline, interval=interval)
        if left:
            fix = "Fix: check that KubeRay's operator runs, then rerun this command"
            raise RefusedError(f"{made} is not suspended yet. {fix}. Last seen: {left}")
    except BaseException:
        # Its pods are gone or terminating, and only a resume brings them back: say so whatever the reason.
        say(f"{made} may still be suspended (see `ops status`); rerun this command to resume it")
        raise
    say(f"{made}: resumed")
    left = _until(lambda: _not_ready(api, made), say, deadline=deadline, interval=interval)
    if left:
        raise RefusedError(
            f"{made} is not ready yet; it continues without this command. Fix: `ops wait`. Last seen: {left}"
        )
    say(f"{made}: every pod is ready and has the current template")


def _remove(made: Rollout, api: kubernetes.client.ApiClient, say: Say, *, deadline: float, interval: float) -> None:
    core = kubernetes.client.CoreV1Api(api)
    for pod in made.outdated.orphans:
        try:
            core.delete_namespaced_pod(pod.metadata.name, made.namespace, _request_timeout=REQUEST_TIMEOUT)
        except ApiException as error:
            if error.status != 404:
                raise
        say(f"{made}: {pod.metadata.name} is terminating")
    names = {pod.metadata.name for pod in made.outdated.orphans}

    def ending() -> str:
        left = [pod for pod in _pods(api, made.namespace, made.name) if pod.metadata.name in names]
        return f"{counted(left)} of a removed group still terminating" if left else ""

    if left := _until(ending, say, deadline=deadline, interval=interval):
        raise RefusedError(
            f"{made} still has such pods. Fix: rerun this command, or see docs/explain/recovery.md if "
            "their node is "
            f"lost. Last seen: {left}"
        )
    say(f"{made}: no pod of a removed group is left")


def _still_there(api: kubernetes.client.ApiClient, made: Rollout) -> str:
    """Return which pods must go before a resume, or "": KubeRay counts a terminating pod as a running one."""
    if pods := _pods(api, made.namespace, made.name):
        return f"{counted(pods)} still terminating"
    state = _cluster(api, made.namespace, made.name).get("status", {}).get("state")
    return "" if state == "suspended" else "KubeRay's operator has not yet noticed that all pods are gone"


def _resume(api: kubernetes.client.ApiClient, made: Rollout) -> str:
    _suspend(api, made, None)
    return ""


def _not_ready(api: kubernetes.client.ApiClient, made: Rollout) -> str:
    cluster, pods = _cluster(api, made.namespace, made.name), _pods(api, made.namespace, made.name)
    stale = outdated(cluster, pods)
    current = [pod for pod in pods if not any(pod is each for each in (*stale.old, *stale.orphans))]
    ready = sum(map(is_ready_to_stay, current))
    wanted = 1 + sum(map(_replicas, cluster["spec"].get("workerGroupSpecs", [])))
    return "" if ready >= wanted and len(current) == len(pods) else f"{ready} of {wanted} pods are ready"


def _replicas(group: Json) -> int:
    """Return the replicas within the group's bounds, as KubeRay computes them (utils.GetWorkerGroupDesiredReplicas)."""
    return int(min(max(group.get("replicas", 0), group["minReplicas"]), group["maxReplicas"]))


def _until(missing: Callable[[], str], say: Say, *, deadline: float, interval: float) -> str:
    """Call `missing` until it returns "" or `deadline` (a value of `time.monotonic`) passes; return its last answer.

    Requests without an answer are retried: giving up would leave the RayCluster suspended.
    """
    told = ""
    while True:
        try:
            with in_plain_words():
                answer = missing()
        except NoAnswerError as error:
            answer = f"no answer, retrying: {error.what}"
        if not answer or time.monotonic() >= deadline:
            return answer
        if answer != told:
            told = answer
            say(answer)
        time.sleep(interval)


def _cluster(api: kubernetes.client.ApiClient, namespace: str, name: str) -> Mapping[str, Any]:
    custom = kubernetes.client.CustomObjectsApi(api)
    read = custom.get_namespaced_custom_object
    found: Mapping[str, Any] = read(*_KIND, namespace, _PLURAL, name, _request_timeout=REQUEST_TIMEOUT)
    return found


def _pods(api: kubernetes.client.ApiClient, namespace: str, name: str) -> Sequence[Any]:
    core = kubernetes.client.CoreV1Api(api)
    selector = f"ray.io/cluster={name}"
    listed = core.list_namespaced_pod(namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT)
    items: Sequence[Any] = listed.items
    return items


def _suspend(api: kubernetes.client.ApiClient, made: Rollout, suspend: bool | None) -> None:
    """Set `spec.suspend`, or remove it if `suspend` is None."""
    kubernetes.client.CustomObjectsApi(api).patch_namespaced_custom_object(
        *(*_KIND, made.namespace, _PLURAL, made.name),
        {"spec": {"suspend": suspend}},
        _content_type="application/merge-patch+json",
        _request_timeout=REQUEST_TIMEOUT,
    )
