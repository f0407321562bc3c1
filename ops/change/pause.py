"""`ops pause` and `ops resume`: no HyperPod node while nobody trains, and the file's counts afterwards.

A pause suspends the RayClusters, drains every node, and then lowers all instance groups to 0 in one UpdateCluster
(`handlers.group_counts.counts`): HyperPod has no choice of nodes left to make, and nodes that were never launched are
cancelled, too. Every step reads its state from the two APIs, so rerunning a command resumes it. Annotations record what
a pause suspended and cordoned, because a resume reverts only that.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import kubernetes
from kubernetes.client import ApiException

from config import EksEnvironment, Environment
from config.labels import INSTANCE_GROUP_LABEL, PAUSED
from handlers.group_counts.counts import Wanted, set_counts
from ops.change.drain import DrainTimeoutError, Say, cordon, drain, uncordon
from ops.change.ray_clusters import LiveRayCluster, until
from ops.change.scale import in_service, refuse_deep_checks
from ops.clients import REQUEST_TIMEOUT, Clients
from ops.errors import RefusedError
from ops.readiness.nodes import list_nodes
from ops.readiness.outdated_pods import is_paused, is_suspended

_PATIENCE: Final[Mapping[str, Any]] = {"_request_timeout": REQUEST_TIMEOUT}


@dataclass(frozen=True)
class _Groups:
    """The live cluster and its instance groups that the environment's file names; `others` are not in the file."""

    cluster: Mapping[str, Any]
    live: Mapping[str, Mapping[str, Any]]
    others: tuple[str, ...]
    missing: tuple[str, ...]
    """Groups of the file that the cluster lacks."""


@dataclass(frozen=True)
class Pause:
    """What a pause has to do: `nodes` are names in Kubernetes, `instances` HyperPod's ids of nodes that still exist."""

    groups: _Groups
    lowered: Mapping[str, Wanted]
    nodes: tuple[str, ...]
    instances: tuple[str, ...]
    ray_clusters: tuple[LiveRayCluster, ...]
    with_jobs: frozenset[tuple[str, str]]
    """The (namespace, name) of all RayClusters that could run a job, those of other people too."""

    @property
    def is_needed(self) -> bool:
        return bool(self.lowered or self.instances or self.ray_clusters)


@dataclass(frozen=True)
class Resumption:
    """What a resume has to do. `nodes` are cordoned by a pause that was interrupted."""

    groups: _Groups
    raised: Mapping[str, Wanted]
    nodes: tuple[str, ...]
    ray_clusters: tuple[LiveRayCluster, ...]

    @property
    def is_needed(self) -> bool:
        return bool(self.raised or self.nodes or self.ray_clusters)


def plan_pause(environment: EksEnvironment, clients: Clients) -> Pause:
    """Plan a pause. Raises RefusedError if HyperPod accepts no change now."""
    groups = _groups(environment, clients)
    lowered = {
        group.name: Wanted(0, image_id=group.image_id)
        for group in environment.hyperpod.instance_groups
        if group.name in groups.live and groups.live[group.name]["TargetCount"]
    }
    present = list_nodes(clients.sagemaker, environment.hyperpod.cluster_name)
    if lowered:
        refuse_deep_checks(present)
    custom = kubernetes.client.CustomObjectsApi(clients.kubernetes)
    everyone = custom.list_cluster_custom_object("ray.io", "v1", "rayclusters", **_PATIENCE)["items"]
    return Pause(
        groups,
        lowered,
        nodes=tuple(node.metadata.name for node in _nodes(clients.kubernetes, groups.live)),
        instances=tuple(node["InstanceId"] for node in present if node["InstanceGroupName"] in groups.live),
        ray_clusters=tuple(live for live, found in _ray_clusters(environment, clients) if not is_paused(found)),
        with_jobs=frozenset(
            (each["metadata"]["namespace"], each["metadata"]["name"]) for each in everyone if not is_suspended(each)
        ),
    )


def plan_resume(environment: EksEnvironment, clients: Clients) -> Resumption:
    """Plan a resume: counts below the file's are raised. Raises RefusedError if HyperPod accepts no change now."""
    groups = _groups(environment, clients)
    raised = {
        group.name: Wanted(group.count, group.min_count or 0, group.image_id)
        for group in environment.hyperpod.instance_groups
        if group.name in groups.live and groups.live[group.name]["TargetCount"] < group.count
    }
    if raised:
        refuse_deep_checks(list_nodes(clients.sagemaker, environment.hyperpod.cluster_name))
    cordoned = (
        node.metadata.name
        for node in _nodes(clients.kubernetes, groups.live)
        if PAUSED in (node.metadata.annotations or {})
    )
    paused = (live for live, found in _ray_clusters(environment, clients) if is_paused(found))
    return Resumption(groups, raised, tuple(cordoned), tuple(paused))


def describe(made: Pause) -> Iterator[str]:
    """Yield the steps of the pause, one line each."""
    for live in made.ray_clusters:
        yield f"{live}: suspend; its pods end"
    if made.nodes:
        yield f"cordon and drain {len(made.nodes)} nodes: every other pod on them ends, or moves to a system node"
    yield from _changes(made.groups, made.lowered)
    for name in made.groups.others:
        yield f"instance group {name} is not in the environment's file, and stays as it is"


def describe_resume(made: Resumption) -> Iterator[str]:
    """Yield the steps of the resume, one line each."""
    yield from _changes(made.groups, made.raised)
    for name in made.groups.missing:
        yield f"instance group {name} is not in the cluster: deploy the hyperpod stack to create it"
    if made.nodes:
        yield f"uncordon {', '.join(made.nodes)}"
    for live in made.ray_clusters:
        yield f"{live}: resume"


def carry_out(made: Pause, clients: Clients, say: Say, *, timeout: float, interval: float) -> None:
    """Carry out the pause and report each step. Raises RefusedError if the steps are not done in `timeout` seconds."""
    deadline = time.monotonic() + timeout
    for live in made.ray_clusters:
        live.pause()
        say(f"{live}: suspended")
    for live in made.ray_clusters:
        if left := until(live.unfinished_suspension, say, deadline=deadline, interval=interval):
            raise RefusedError(
                f"{live} is not suspended yet. Fix: check that KubeRay's operator runs, then rerun this command. "
                f"Last seen: {left}"
            )
    _empty(made.nodes, clients.kubernetes, say, deadline=deadline, interval=interval)
    name = made.groups.cluster["ClusterName"]
    if made.lowered:
        # A drain can take hours, and UpdateCluster takes every group's count.
        set_counts(clients.sagemaker, in_service(clients.sagemaker, name), made.lowered)
        say(f"UpdateCluster: 0 nodes in {', '.join(made.lowered)}")

    def shutting_down() -> str:
        left = [node for node in list_nodes(clients.sagemaker, name) if node["InstanceGroupName"] in made.groups.live]
        return f"{len(left)} nodes are still shutting down" if left else ""

    if left := until(shutting_down, say, deadline=deadline, interval=interval):
        raise RefusedError(f"{left}. They end without this command. Fix: rerun this command to follow them")
    say("no node is left")


def carry_out_resume(made: Resumption, clients: Clients, say: Say) -> None:
    """Carry out the resume and report each step; it does not wait for nodes or pods."""
    if made.raised:
        # Somebody may have raised a group since the plan was shown.
        cluster = in_service(clients.sagemaker, made.groups.cluster["ClusterName"])
        targets = {group["InstanceGroupName"]: group["TargetCount"] for group in cluster["InstanceGroups"]}
        raised = {name: wanted for name, wanted in made.raised.items() if targets.get(name, 0) < wanted.count}
        if raised:
            set_counts(clients.sagemaker, cluster, raised)
            say(f"UpdateCluster: nodes: {', '.join(f'{wanted.count} in {name}' for name, wanted in raised.items())}")
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    for node in made.nodes:
        uncordon(core, node, PAUSED)
        say(f"uncordoned {node}")
    for live in made.ray_clusters:
        live.unpause()
        say(f"{live}: resumed")


def _changes(groups: _Groups, wanted: Mapping[str, Wanted]) -> Iterator[str]:
    for name, each in wanted.items():
        yield f"instance group {name}: from {groups.live[name]['TargetCount']} to {each.count} nodes"


def _groups(environment: Environment, clients: Clients) -> _Groups:
    cluster = in_service(clients.sagemaker, environment.hyperpod.cluster_name)
    live = {
        group["InstanceGroupName"]: group for group in cluster["InstanceGroups"] if group.get("Status") != "Deleting"
    }
    named = [group.name for group in environment.hyperpod.instance_groups]
    return _Groups(
        cluster,
        {name: live[name] for name in named if name in live},
        others=tuple(name for name in live if name not in named),
        missing=tuple(name for name in named if name not in live),
    )


def _nodes(api: kubernetes.client.ApiClient, groups: Mapping[str, Any]) -> Sequence[Any]:
    listed = kubernetes.client.CoreV1Api(api).list_node(label_selector=INSTANCE_GROUP_LABEL, **_PATIENCE).items
    return [node for node in listed if node.metadata.labels[INSTANCE_GROUP_LABEL] in groups]


def _ray_clusters(environment: EksEnvironment, clients: Clients) -> Iterator[tuple[LiveRayCluster, Mapping[str, Any]]]:
    """Yield the environment's RayClusters that exist, with the object."""
    for each in environment.ray.clusters:
        live = LiveRayCluster(clients.kubernetes, environment.ray.namespace, each.name)
        try:
            yield live, live.read()
        except ApiException as error:
            if error.status != 404:
                raise


def _empty(
    nodes: Sequence[str], api: kubernetes.client.ApiClient, say: Say, *, deadline: float, interval: float
) -> None:
    core = kubernetes.client.CoreV1Api(api)
    for node in nodes:
        cordon(core, node, PAUSED)
    for node in nodes:
        try:
            drain(core, node, say, deadline=deadline, interval=interval)
        except DrainTimeoutError as error:
            raise RefusedError(str(error)) from error
        say(f"drained {node}")
