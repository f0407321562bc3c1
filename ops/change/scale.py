"""`ops scale`: lower an instance group and drain its nodes before they are deleted.

When a plain deployment lowers a count, HyperPod chooses the nodes and does not drain them. `ops scale` chooses the
nodes, cordons and drains them, lowers Ray's replicas and calls BatchDeleteClusterNodes, in this order. The replicas
come after the drain because KubeRay 1.2.0 would otherwise delete workers that should stay (`ops.change.ray_workers`).
BatchDeleteClusterNodes also lowers the group's count (HyperPod would replace a node that merely ended), so `ops scale`
never calls UpdateCluster. Only the deployment does, and with the lowered environment file it finds nothing to change.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import kubernetes

from config import Environment, file_of
from config.findings import shown
from config.labels import INSTANCE_GROUP_LABEL
from ops import hyperpod
from ops.change.drain import DrainTimeoutError, Say, cordon, drain
from ops.change.ray_workers import WorkersNotLoweredError, lower
from ops.change.scale_plan import MARK, ScalePlan, plan
from ops.clients import REQUEST_TIMEOUT, Clients
from ops.durations import until_next_poll
from ops.errors import RefusedError
from ops.jobs.head_api import HeadUnreachableError
from ops.jobs.running import Jobs
from ops.readiness.nodes import CHECKING, list_nodes

NODES_PER_CALL: Final = 99
"""BatchDeleteClusterNodes takes up to 3,000 ids, but more than 99 need AWS Support's consent (API reference)."""


RAY_PODS: Final = "ray.io/is-ray-node=yes"
"""KubeRay's label of head and worker pods."""

_PATIENCE: Final[Mapping[str, Any]] = {"_request_timeout": REQUEST_TIMEOUT}


def plan_scale(environment: Environment, clients: Clients, group: str, wanted: int) -> ScalePlan:
    """Plan how to lower the group to `wanted` nodes. Raises RefusedError if `ops scale` must not or cannot do it."""
    _refuse_what_the_environment_forbids(environment, group, wanted)
    cluster = in_service(clients.sagemaker, environment.hyperpod.cluster_name)
    live = next((each for each in cluster["InstanceGroups"] if each["InstanceGroupName"] == group), None)
    if live is None:
        raise RefusedError(f"the cluster has no instance group {group} yet. Fix: deploy the hyperpod stack")
    if wanted > live["TargetCount"]:
        raise RefusedError(
            f"{group} has {live['TargetCount']} nodes, fewer than {wanted}. Fix: to add nodes, raise `count` in "
            f"{shown(file_of(environment.name))} and run `cdk deploy --all -c environment={environment.name}`"
        )
    nodes = list_nodes(clients.sagemaker, cluster["ClusterName"])
    refuse_deep_checks(nodes)
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    custom = kubernetes.client.CustomObjectsApi(clients.kubernetes)
    made = plan(
        group=group,
        wanted=wanted,
        target=live["TargetCount"],
        nodes=nodes,
        kubernetes_nodes=core.list_node(label_selector=f"{INSTANCE_GROUP_LABEL}={group}", **_PATIENCE).items,
        pods=core.list_pod_for_all_namespaces(label_selector=RAY_PODS, **_PATIENCE).items,
        ray_clusters=custom.list_cluster_custom_object("ray.io", "v1", "rayclusters", **_PATIENCE)["items"],
    )
    heads = [head for node in made.leaving for head in node.heads]
    if heads and not wanted:
        raise RefusedError(
            f"{group} runs {', '.join(heads)}, and these heads could run nowhere else. "
            "Fix: delete the RayClusters first"
        )
    return made


def _refuse_what_the_environment_forbids(environment: Environment, group: str, wanted: int) -> None:
    configured = next((each for each in environment.hyperpod.instance_groups if each.name == group), None)
    if configured is None:
        names = ", ".join(each.name for each in environment.hyperpod.instance_groups)
        raise RefusedError(f"{environment.name} has no instance group {group}. Allowed: {names}")
    if configured.sleep:
        raise RefusedError(
            f"{group} sleeps, so the sleeper sets its nodes and Ray's workers, and would undo this. "
            "Fix: change its count or its sleep.min in the environment, and deploy"
        )
    if wanted < (configured.min_count or 0):
        raise RefusedError(
            f"{group} has min_count {configured.min_count}. Fix: lower min_count in the environment and deploy, first"
        )


def in_service(sagemaker: Any, name: str) -> Mapping[str, Any]:
    """Return DescribeCluster's answer. Raises RefusedError unless the cluster exists and is InService."""
    cluster = hyperpod.find(sagemaker, name)
    if cluster is None:
        raise RefusedError(f"there is no HyperPod cluster {name}. Fix: deploy the hyperpod stack")
    if cluster["ClusterStatus"] != "InService":
        raise RefusedError(
            f"HyperPod cluster {name} is {cluster['ClusterStatus']}. Allowed: InService. Fix: `ops wait`"
        )
    return cluster


def refuse_deep_checks(nodes: Sequence[Mapping[str, Any]]) -> None:
    """Raise RefusedError during deep health checks: HyperPod accepts no change then (API reference, UpdateCluster)."""
    checked = [node for node in nodes if node["InstanceStatus"]["Status"] == CHECKING]
    if checked:
        groups = ", ".join(sorted({node["InstanceGroupName"] for node in checked}))
        raise RefusedError(
            f"{len(checked)} nodes are in deep health checks ({groups}), and HyperPod takes no change meanwhile. "
            "Fix: wait until they have passed (`ops wait`)"
        )


def refuse_jobs(clusters: set[tuple[str, str]], jobs: Jobs, *, instead: str = "", force: bool = True) -> None:
    """Raise RefusedError if one of the RayClusters (namespace, name) has unfinished jobs, or its head does not answer.

    `instead` is one more thing to do about a job, for the message; without `force` the command has no such option.
    """
    for namespace, name in sorted(clusters):
        try:
            found = jobs(namespace, name)
        except HeadUnreachableError as error:
            override = " (override with `--force`)" if force else ""
            raise RefusedError(f"running jobs are unknown{override}: {error}") from error
        if found:
            raise RefusedError(
                f"RayCluster {namespace}/{name} has unfinished jobs: {', '.join(found)}. "
                f"Fix: wait for their end or stop them{f', {instead}' if instead else ''}"
                f"{', or override with `--force`, which takes its workers away' if force else ''}"
            )


def describe(made: ScalePlan) -> Iterator[str]:
    """Yield the steps of the plan, one line each."""
    yield f"{made.group}: from {made.target} to {made.wanted} nodes"
    for node in made.leaving:
        runs = [f"worker {name}" for name in node.workers] + [f"HEAD {name}" for name in node.heads]
        yield f"node {node.name}: cordon, drain, delete ({', '.join(runs) or 'no Ray pod'})"
    for change in made.replicas:
        yield f"{change}: from {change.before} to {change.after} replicas"
    if made.never_launched:
        yield (
            f"{made.never_launched} nodes were never launched, and no API call can delete them: deploying the "
            "lowered count cancels them"
        )


def carry_out(made: ScalePlan, clients: Clients, cluster: str, say: Say, *, timeout: float, interval: float) -> None:
    """Carry out the plan and report each step. Rerunning the command resumes an interrupted plan.

    Raises RefusedError if the steps are not done in `timeout` seconds, or HyperPod refuses to delete a node.
    """
    core = kubernetes.client.CoreV1Api(clients.kubernetes)
    deadline = time.monotonic() + timeout
    for node in made.leaving:
        cordon(core, node.name, MARK)
        say(f"cordoned {node.name}")
    try:
        for node in made.leaving:
            drain(core, node.name, say, deadline=deadline, interval=interval)
            say(f"drained {node.name}")
        for change in made.replicas:
            lower(change, clients.kubernetes, say, deadline=deadline, interval=interval)
    except (DrainTimeoutError, WorkersNotLoweredError) as error:
        raise RefusedError(str(error)) from error
    for instances in _slices([node.instance for node in made.leaving]):
        _delete(clients.sagemaker, cluster, instances)
        say(f"BatchDeleteClusterNodes: {', '.join(instances)}")
    _wait_until_gone(made, clients.sagemaker, cluster, say, deadline=deadline, interval=interval)


def _slices(instances: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(instances), NODES_PER_CALL):
        yield instances[first : first + NODES_PER_CALL]


def _delete(sagemaker: Any, cluster: str, instances: Sequence[str]) -> None:
    answer = sagemaker.batch_delete_cluster_nodes(ClusterName=cluster, NodeIds=list(instances))
    if failed := answer.get("Failed", []):
        reasons = "; ".join(f"{each['NodeId']}: {each['Code']}: {each['Message']}" for each in failed)
        raise RefusedError(f"HyperPod refuses to delete {reasons}. Fix: solve this, then rerun this command")


def _wait_until_gone(
    made: ScalePlan, sagemaker: Any, cluster: str, say: Say, *, deadline: float, interval: float
) -> None:
    leaving = {node.instance for node in made.leaving}
    started, reported = time.monotonic(), -1
    while left := leaving & {node["InstanceId"] for node in list_nodes(sagemaker, cluster)}:
        if len(left) != reported:
            reported = len(left)
            say(f"{reported} of {len(leaving)} nodes are still shutting down")
        if time.monotonic() >= deadline:
            raise RefusedError(
                f"{reported} nodes are still shutting down. They end without this command. Fix: `ops wait`"
            )
        time.sleep(until_next_poll(time.monotonic() - started, interval))
    say("the nodes are gone")


def count_now(sagemaker: Any, cluster: str, group: str) -> int:
    """Return the group's TargetCount."""
    groups = sagemaker.describe_cluster(ClusterName=cluster)["InstanceGroups"]
    return int(next(each["TargetCount"] for each in groups if each["InstanceGroupName"] == group))
