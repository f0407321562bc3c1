"""Read the state of the HyperPod cluster, its instance groups and their Kubernetes nodes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import kubernetes

from config import Environment
from config.estimates import creation
from config.labels import DEEP_HEALTH_LABEL, INSTANCE_GROUP_LABEL, NODE_HEALTH_LABEL, NODE_SCHEDULABLE
from config.model import InstanceGroup
from ops.clients import REQUEST_TIMEOUT
from ops.readiness.asleep import NOTHING, SleepingGroups
from ops.readiness.conditions import is_ready
from ops.readiness.events import last_word
from ops.readiness.expected_end import after, of_nodes
from ops.readiness.item import ExpectedEnd, ReadinessItem, ReadinessState, Require, clock, counts, spoken

Answer = Mapping[str, Any]

_LOST: Final = "not Ready"
# Most node ids in one call of BatchReplaceClusterNodes.
_MOST_IDS: Final = 25

CHECKING: Final = "DeepHealthCheckInProgress"
"""InstanceStatus of a node in deep health checks."""


def hyperpod(
    environment: Environment,
    cluster: Answer | None,
    sagemaker: Any,
    require: Require,
    *,
    paused: bool = False,
    sleeping: SleepingGroups = NOTHING,
) -> Iterator[ReadinessItem]:
    """Yield the cluster (DescribeCluster; None if there is none), then each of its instance groups.

    `paused` says whether `ops pause` suspended Ray, `sleeping` what the sleeper knows of the groups.
    """
    name = environment.hyperpod.cluster_name
    if cluster is None:
        yield ReadinessItem(
            "HyperPod cluster", name, ReadinessState.WAITING, "does not exist: deploy the hyperpod stack"
        )
        return
    status = cluster["ClusterStatus"]
    state = {"InService": ReadinessState.READY, "Failed": ReadinessState.FAILED}.get(status, ReadinessState.WAITING)
    failure = cluster.get("FailureMessage")
    created = cluster.get("CreationTime") if status == "Creating" else None
    expected = after(created, creation.of_type("Custom::HyperPodCluster")) if created else None
    yield ReadinessItem("HyperPod cluster", name, state, f"{status}: {failure}" if failure else status, expected)
    nodes = list_nodes(sagemaker, name)
    groups = {group["InstanceGroupName"]: group for group in cluster["InstanceGroups"]}
    for wanted in environment.hyperpod.instance_groups:
        group = groups.get(wanted.name)
        if group is None:
            yield ReadinessItem(
                "instance group", wanted.name, ReadinessState.WAITING, "not in the cluster: deploy the hyperpod stack"
            )
        else:
            mine = [node for node in nodes if node["InstanceGroupName"] == wanted.name]
            resume = f"`ops resume --env {environment.name}`" if paused and group["TargetCount"] < wanted.count else ""
            yield _group(
                wanted,
                cluster,
                group,
                nodes=mine,
                sagemaker=sagemaker,
                require=require,
                resume=resume,
                sleeping=sleeping,
            )


def list_nodes(sagemaker: Any, cluster: str) -> list[Answer]:
    """Return every node of the cluster, as ListClusterNodes describes it."""
    pages = sagemaker.get_paginator("list_cluster_nodes").paginate(ClusterName=cluster)
    return [node for page in pages for node in page["ClusterNodeSummaries"]]


def goals(environment: Environment, cluster: Answer | None) -> dict[str, int]:
    """Return how many nodes each instance group should have now: the file's count, or what a sleeping group has."""
    live = {group["InstanceGroupName"]: group["TargetCount"] for group in (cluster or {}).get("InstanceGroups", ())}
    return {
        group.name: live[group.name] if _is_asleep(group, live.get(group.name)) else group.count
        for group in environment.hyperpod.instance_groups
    }


def _is_asleep(group: InstanceGroup, target: int | None) -> bool:
    return group.sleep is not None and target is not None and group.sleep.min <= target < group.count


def _group(
    wanted: InstanceGroup,
    cluster: Answer,
    group: Answer,
    *,
    nodes: Sequence[Answer],
    sagemaker: Any,
    require: Require,
    resume: str,
    sleeping: SleepingGroups,
) -> ReadinessItem:
    """Return the group's count and its nodes' states; while nodes are missing, also the reason from its events.

    `resume` is the command that ends the group's pause, or "". CurrentCount also counts nodes in deep health checks, so
    it does not prove that the group is ready.
    """
    current, target = group["CurrentCount"], group["TargetCount"]
    statuses = Counter(node["InstanceStatus"]["Status"] for node in nodes)
    asleep = _is_asleep(wanted, target)
    goal = target if asleep else wanted.count
    least = min(least_nodes(wanted), goal) if require is Require.MIN else goal
    required = f" ({least} required)" if least < goal and current != target else ""
    details = [f"{current} of {target} nodes{required}" + (f": {counts(statuses)}" if nodes else "")]
    details += _since(nodes)
    details += spoken({node["InstanceId"]: node["InstanceStatus"].get("Message", "") for node in nodes})
    update = group.get("SoftwareUpdateStatus", "Succeeded")
    if update not in {"Succeeded", "RollbackComplete"}:
        details.append(f"software update: {update}")
    if resume:
        details.append(f"paused; {resume} raises it to {wanted.count}")
    elif asleep:
        details.append(sleeping.asleep(wanted))
    elif target != wanted.count:
        details.append(f"the environment says {wanted.count}: deploy the hyperpod stack, or change the environment")
    if current != target:
        woken = "" if asleep else sleeping.wakes(wanted.name)
        details += filter(None, [woken, last_word(sagemaker, cluster, wanted.name)])
        if wanted.sleep and wanted.sleep.wake and not asleep:
            details.append(f"after 30 minutes {wanted.sleep.wake[0]} wakes, too")
    everything = current == target == goal == statuses["Running"]
    done = statuses["Running"] >= least if require is Require.MIN else everything
    state = ReadinessState.READY if done else ReadinessState.PAUSED if resume else ReadinessState.WAITING
    expected = _expected(wanted, cluster, nodes, least) if target == wanted.count else None
    return ReadinessItem("instance group", wanted.name, state, "; ".join(details), expected)


def _expected(wanted: InstanceGroup, cluster: Answer, nodes: Sequence[Answer], least: int) -> ExpectedEnd | None:
    """Return when `least` nodes take work; None while fewer are launched, as nobody knows when capacity comes."""
    steps = of_nodes(deep_checks=bool(wanted.deep_health_checks))
    missing = least - sum(node["InstanceStatus"]["Status"] == "Running" for node in nodes)
    launched = sorted(_underway(nodes))
    if 0 < missing <= len(launched):
        return after(launched[missing - 1], *steps)
    created = cluster.get("CreationTime") if cluster["ClusterStatus"] == "Creating" else None
    return after(created, *steps) if created else None


def least_nodes(group: InstanceGroup) -> int:
    """Return how many nodes `--require min` needs."""
    return min(group.count, group.min_count or 1)


def _since(nodes: Sequence[Answer]) -> list[str]:
    """Return when the oldest node in progress was launched: deep health checks may take hours."""
    underway = _underway(nodes)
    return [f"launched from {clock(min(underway))}"] if underway else []


def _underway(nodes: Sequence[Answer]) -> list[datetime]:
    """Return when the nodes in progress were launched."""
    return [n["LaunchTime"] for n in nodes if n["InstanceStatus"]["Status"] in {"Pending", CHECKING}]


def kubernetes_nodes(
    environment: Environment, api: kubernetes.client.ApiClient, require: Require, wanted: Mapping[str, int]
) -> Iterator[ReadinessItem]:
    """Yield how many nodes of each group can run pods, of as many as are `wanted`."""
    core = kubernetes.client.CoreV1Api(api)
    for group in environment.hyperpod.instance_groups:
        selector = f"{INSTANCE_GROUP_LABEL}={group.name}"
        nodes = core.list_node(label_selector=selector, _request_timeout=REQUEST_TIMEOUT).items
        hindered = {node.metadata.name: reason for node in nodes if (reason := blocking_reason(node))}
        reasons = Counter(hindered.values())
        usable = len(nodes) - reasons.total()
        goal = wanted[group.name]
        detail = f"{usable} of {goal} Ready and {NODE_SCHEDULABLE}"
        least = min(least_nodes(group), goal) if require is Require.MIN else goal
        if usable < goal and least < goal:
            detail += f" ({least} required)"
        if reasons:
            detail += f"; {counts(reasons)}"
        if lost := [name for name, reason in hindered.items() if reason == _LOST]:
            detail += f"; {_replacement(environment, group, lost)}"
        done = usable >= least if require is Require.MIN else usable == goal
        yield ReadinessItem(
            "Kubernetes nodes", group.name, ReadinessState.READY if done else ReadinessState.WAITING, detail
        )


def _replacement(environment: Environment, group: InstanceGroup, lost: Sequence[str]) -> str:
    """Return how lost nodes are replaced (AWS docs, sagemaker-hyperpod-eks-prerequisites: CPU nodes only by hand).

    BatchReplaceClusterNodes needs one earlier UpdateClusterSoftware (awsome-distributed-ai, hyperpod-mental-model.md).
    """
    by_itself = environment.hyperpod.node_recovery == "Automatic" and group.type.accelerators
    ids = " ".join(name.removeprefix("hyperpod-") for name in lost[:_MOST_IDS])
    command = f"aws sagemaker batch-replace-cluster-nodes --cluster-name {environment.hyperpod.cluster_name}"
    lead = "HyperPod replaces it automatically" if by_itself else "HyperPod does not replace it automatically"
    return f"{lead}; to replace it now: `{command} --node-ids {ids}`"


def blocking_reason(node: Any) -> str:
    """Return why pods cannot run on a node, or ""."""
    labels = node.metadata.labels
    if labels.get(DEEP_HEALTH_LABEL) == "InProgress":
        return "in deep health checks"
    if labels.get(DEEP_HEALTH_LABEL) == "Failed":
        return "failed deep health checks"
    if not is_ready(node):
        return _LOST
    health = labels.get(NODE_HEALTH_LABEL, "without a health status")
    if health != NODE_SCHEDULABLE:
        return str(health)
    return "cordoned" if node.spec and node.spec.unschedulable else ""
