"""Read the state of the workloads: the volume claim, the controllers, the RayClusters."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any

import kubernetes
from kubernetes.client import ApiException

from config import EksEnvironment
from config.estimates import creation
from config.model import RayCluster, RayWorkers
from k8s_charts.shared.names import REAPER, SLEEPER
from ops.clients import REQUEST_TIMEOUT
from ops.readiness.conditions import is_ready
from ops.readiness.expected_end import after
from ops.readiness.item import ExpectedEnd, ReadinessItem, ReadinessState, Require, spoken
from ops.readiness.outdated_pods import counted, is_paused, is_suspended, is_worker, outdated


def claim(environment: EksEnvironment, api: kubernetes.client.ApiClient) -> ReadinessItem:
    """Return the state of the claim that Ray's pods mount, with its newest event until it is bound."""
    name, namespace = environment.fsx.claim, environment.ray.namespace
    core = kubernetes.client.CoreV1Api(api)
    read = core.read_namespaced_persistent_volume_claim
    found = _or_none(partial(read, name, namespace, _request_timeout=REQUEST_TIMEOUT))
    title = f"{namespace}/{name}"
    if found is None:
        return ReadinessItem("volume claim", title, ReadinessState.WAITING, "does not exist: deploy the ray stack")
    if found.status.phase == "Bound":
        return ReadinessItem("volume claim", title, ReadinessState.READY, "Bound")
    details = _newest_event(core, namespace, name)
    state, detail = ReadinessState.WAITING, "; ".join([found.status.phase, *details])
    # The driver makes a file system for a dynamic claim; another one is bound at once.
    began = found.metadata.creation_timestamp if environment.fsx.dynamic else None
    expected = after(began, creation.of_type("AWS::FSx::FileSystem")) if began else None
    return ReadinessItem("volume claim", title, state, detail, expected)


def _newest_event(core: kubernetes.client.CoreV1Api, namespace: str, claim: str) -> list[str]:
    selector = f"involvedObject.kind=PersistentVolumeClaim,involvedObject.name={claim}"
    listed = core.list_namespaced_event(namespace, field_selector=selector, _request_timeout=REQUEST_TIMEOUT).items
    by_time = sorted(listed, key=lambda event: str(event.last_timestamp or event.metadata.creation_timestamp))
    return [str(event.message) for event in by_time[-1:] if event.message]


def controllers(
    environment: EksEnvironment, api: kubernetes.client.ApiClient, require: Require
) -> Iterator[ReadinessItem]:
    """Yield the reaper, which deletes Ray pods on lost nodes, and the sleeper if a group sleeps."""
    yield _controller("reaper", REAPER, environment, api, require)
    if environment.hyperpod.sleeping_groups:
        yield _controller("sleeper", SLEEPER, environment, api, require)


def _controller(
    kind: str, name: str, environment: EksEnvironment, api: kubernetes.client.ApiClient, require: Require
) -> ReadinessItem:
    """Return the state of a controller; `Require.MIN` needs one replica."""
    namespace = environment.kuberay.namespace
    title = f"{namespace}/{name}"
    read = kubernetes.client.AppsV1Api(api).read_namespaced_deployment
    found = _or_none(partial(read, name, namespace, _request_timeout=REQUEST_TIMEOUT))
    if found is None:
        return ReadinessItem(kind, title, ReadinessState.WAITING, "does not exist: deploy the ray stack")
    wanted, available = found.spec.replicas, found.status.available_replicas or 0
    details = [f"{available} of {wanted} replicas"]
    if available >= (1 if require is Require.MIN else wanted):
        return ReadinessItem(kind, title, ReadinessState.READY, details[0])
    core, selector = kubernetes.client.CoreV1Api(api), f"app.kubernetes.io/name={name}"
    pods = core.list_namespaced_pod(namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT).items
    details += spoken({pod.metadata.name: blocking_reason(pod) for pod in pods})
    details.append(f"see `kubectl logs -n {namespace} -l {selector}`")
    return ReadinessItem(kind, title, ReadinessState.WAITING, "; ".join(details))


def ray_clusters(
    environment: EksEnvironment, api: kubernetes.client.ApiClient, require: Require
) -> Iterator[ReadinessItem]:
    """Yield each RayCluster, with the reasons why its pods are pending."""
    custom, core = kubernetes.client.CustomObjectsApi(api), kubernetes.client.CoreV1Api(api)
    namespace = environment.ray.namespace
    nodes = cache(partial(_node_names, core))
    for wanted in environment.ray.clusters:
        read = partial(custom.get_namespaced_custom_object, "ray.io", "v1", namespace, "rayclusters", wanted.name)
        found = _or_none(partial(read, _request_timeout=REQUEST_TIMEOUT))
        if found is None:
            detail = "does not exist: deploy the ray stack"
            yield ReadinessItem("RayCluster", f"{namespace}/{wanted.name}", ReadinessState.WAITING, detail)
        else:
            selector = f"ray.io/cluster={wanted.name}"
            pods = core.list_namespaced_pod(namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT).items
            yield _ray_cluster(environment, wanted, found, pods, _without_node(pods, nodes), require=require)


def _ray_cluster(
    environment: EksEnvironment,
    wanted: RayCluster,
    found: Mapping[str, Any],
    pods: Sequence[Any],
    lost: Container[str],
    *,
    require: Require,
) -> ReadinessItem:
    name = f"{environment.ray.namespace}/{wanted.name}"
    status = found.get("status", {})
    awake = {group.name: _awake(environment, group, found) for group in wanted.workers}
    replicas = sum(awake.values())
    asleep = sum(group.replicas for group in wanted.workers) - replicas
    if wanted.autoscaling:
        # The autoscaler changes the groups' replicas in the object, and KubeRay adds them up in its status.
        replicas = status.get("desiredWorkerReplicas", replicas)
    # availableWorkerReplicas also counts orphans and Terminating pods (kuberay#4078); the node items show the latter.
    stale = outdated(found, pods)
    available = status.get("availableWorkerReplicas", 0) - sum(pod.status.phase == "Running" for pod in stale.orphans)
    mend = f"`ops rollout {wanted.name} --env {environment.name}`"
    old = [f"{', '.join(stale.phrases())}: {mend}"] if stale.old or stale.orphans else []
    if is_suspended(found):
        paused = is_paused(found)
        how, resumes = ("paused", f"`ops resume --env {environment.name}`") if paused else ("suspended", mend)
        detail = f"{how}, {available} of {replicas} workers; {resumes} resumes it"
        return ReadinessItem("RayCluster", name, ReadinessState.PAUSED if paused else ReadinessState.WAITING, detail)
    state = status.get("state")
    # KubeRay keeps the state `suspended` until all pods are ready.
    details = [f"{'starting' if state in (None, '', 'suspended') else state}, {available} of {replicas} workers"]
    details += [f"{asleep} asleep"] if asleep else []
    # KubeRay's status counts a worker that is ending, and one whose node is gone: the reaper deletes such a pod after
    # 10 s, Kubernetes after 40 to 60 s. With a late cache 1.2.0 makes one pod too many and ends a healthy one.
    moving = [pod for pod in pods if is_worker(pod) and pod not in stale.orphans and _starts_or_ends(pod, lost)]
    if state == "ready" and available == replicas and not moving:
        return ReadinessItem("RayCluster", name, ReadinessState.READY, "; ".join([*details, *old]))
    if reason := status.get("reason"):
        details.append(reason)
    if moving and available == replicas:
        details.append(f"KubeRay replaces {counted(moving)}")
    details += [*spoken({pod.metadata.name: blocking_reason(pod) for pod in pods}), *old]
    enough = False
    if require is Require.MIN:
        least = sum(min(awake[group.name], group.min_replicas) for group in wanted.workers)
        details[0] += f" ({least} required)"
        enough = available >= least and any(map(_is_ready_head, pods))
    waits = ReadinessState.READY if enough else ReadinessState.WAITING
    return ReadinessItem("RayCluster", name, waits, "; ".join(details), _pulled(pods))


def _awake(environment: EksEnvironment, group: RayWorkers, found: Mapping[str, Any]) -> int:
    """Return how many workers a group should have now: the file's, or what the sleeper left of them."""
    live = {each["groupName"]: each.get("replicas", 0) for each in found.get("spec", {}).get("workerGroupSpecs", ())}
    sleeps = group.instance_group in environment.hyperpod.sleeping_groups
    return min(group.replicas, live.get(group.name, group.replicas)) if sleeps else group.replicas


def _pulled(pods: Sequence[Any]) -> ExpectedEnd | None:
    """Return when the pending pods have pulled their image; None without one, or if one has no node yet."""
    started: list[datetime | None] = [pod.status.start_time for pod in pods if pod.status.phase == "Pending"]
    known = [moment for moment in started if moment]
    return after(max(known), creation.later(ray=True)[creation.PULL]) if known and len(known) == len(started) else None


def _node_names(core: kubernetes.client.CoreV1Api) -> frozenset[str]:
    return frozenset(node.metadata.name for node in core.list_node(_request_timeout=REQUEST_TIMEOUT).items)


def _without_node(pods: Sequence[Any], nodes: Callable[[], Container[str]]) -> set[str]:
    """Return the names of the pods whose node does not exist any more; ask for `nodes` only if a pod has one."""
    placed = {pod.metadata.name: pod.spec.node_name for pod in pods if pod.spec and pod.spec.node_name}
    return {pod for pod, node in placed.items() if node not in nodes()}


def _starts_or_ends(pod: Any, lost: Container[str]) -> bool:
    return bool(pod.metadata.deletion_timestamp) or pod.metadata.name in lost or pod.status.phase == "Pending"


def _is_ready_head(pod: Any) -> bool:
    return is_ready(pod) and (pod.metadata.labels or {}).get("ray.io/node-type") == "head"


def blocking_reason(pod: Any) -> str:
    """Return why a pod is not running, in the scheduler's or the kubelet's words, or ""."""
    for condition in pod.status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            # The sentences after the first are about preemption, which nothing here uses.
            return str(condition.message or condition.reason).partition(". ")[0].rstrip(".")
    for container in [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]:
        waiting = container.state.waiting
        if waiting and waiting.reason != "PodInitializing":
            return f"{waiting.reason}: {waiting.message}" if waiting.message else str(waiting.reason)
    return ""


def _or_none(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except ApiException as error:
        if error.status == 404:
            return None
        raise
