"""The HyperPod cluster, its instance groups, and their nodes as Kubernetes sees them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import kubernetes
from botocore.exceptions import ClientError

from config import Environment
from config.labels import DEEP_HEALTH_LABEL, INSTANCE_GROUP_LABEL, NODE_HEALTH_LABEL, NODE_SCHEDULABLE
from config.model import InstanceGroup
from ops.clients import REQUEST_TIMEOUT
from ops.items import Item, State

Answer = Mapping[str, Any]


def hyperpod(environment: Environment, sagemaker: Any) -> Iterator[Item]:
    """The cluster, then each of its groups."""
    name = environment.hyperpod.cluster_name
    try:
        cluster = sagemaker.describe_cluster(ClusterName=name)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFound":
            raise
        yield Item("HyperPod cluster", name, State.WAITING, "does not exist: deploy the hyperpod stack")
        return
    status = cluster["ClusterStatus"]
    state = {"InService": State.READY, "Failed": State.FAILED}.get(status, State.WAITING)
    failure = cluster.get("FailureMessage")
    yield Item("HyperPod cluster", name, state, f"{status}: {failure}" if failure else status)
    nodes = _nodes(sagemaker, name)
    groups = {group["InstanceGroupName"]: group for group in cluster["InstanceGroups"]}
    for wanted in environment.hyperpod.instance_groups:
        group = groups.get(wanted.name)
        if group is None:
            yield Item("instance group", wanted.name, State.WAITING, "not in the cluster: deploy the hyperpod stack")
        else:
            mine = [node for node in nodes if node["InstanceGroupName"] == wanted.name]
            yield _group(wanted, cluster, group, mine, sagemaker)


def _group(wanted: InstanceGroup, cluster: Answer, group: Answer, nodes: Sequence[Answer], sagemaker: Any) -> Item:
    """The group's count, its nodes' states, and the newest event while nodes are missing.

    CurrentCount counts nodes in deep health checks too, so that it alone does not say ready.
    """
    current, target = group["CurrentCount"], group["TargetCount"]
    statuses = Counter(node["InstanceStatus"]["Status"] for node in nodes)
    told = [f"{current} of {target} nodes" + (f": {_counts(statuses)}" if nodes else "")]
    told += _messages(nodes)
    if target != wanted.count:
        told.append(f"the environment says {wanted.count}: deploy the hyperpod stack")
    if current != target:
        told += _newest_event(sagemaker, cluster, wanted.name)
    done = current == target == wanted.count == statuses["Running"]
    return Item("instance group", wanted.name, State.READY if done else State.WAITING, "; ".join(told))


def _nodes(sagemaker: Any, cluster: str) -> list[Answer]:
    pages = sagemaker.get_paginator("list_cluster_nodes").paginate(ClusterName=cluster)
    return [node for page in pages for node in page["ClusterNodeSummaries"]]


def _messages(nodes: Sequence[Answer]) -> list[str]:
    """What HyperPod says of the first node that has something to say."""
    said = [(node["InstanceId"], node["InstanceStatus"].get("Message")) for node in nodes]
    return [f"{instance}: {message}" for instance, message in said if message][:1]


def _newest_event(sagemaker: Any, cluster: Answer, group: str) -> list[str]:
    """Under Continuous provisioning a shortage does not fail the cluster; only its events tell. Others have none."""
    if cluster.get("NodeProvisioningMode") != "Continuous":
        return []
    events = sagemaker.list_cluster_events(
        ClusterName=cluster["ClusterName"],
        InstanceGroupName=group,
        SortBy="EventTime",
        SortOrder="Descending",
        MaxResults=1,
    )["Events"]
    return [f"{event['EventTime']:%H:%M} {event['Description']}" for event in events if event.get("Description")]


def kubernetes_nodes(environment: Environment, api: kubernetes.client.ApiClient) -> Iterator[Item]:
    """Each group's nodes that pods can run on."""
    core = kubernetes.client.CoreV1Api(api)
    for group in environment.hyperpod.instance_groups:
        selector = f"{INSTANCE_GROUP_LABEL}={group.name}"
        nodes = core.list_node(label_selector=selector, _request_timeout=REQUEST_TIMEOUT).items
        hindrances = Counter(hindrance for node in nodes if (hindrance := _hindrance(node)))
        usable = len(nodes) - hindrances.total()
        detail = f"{usable} of {group.count} Ready and {NODE_SCHEDULABLE}"
        if hindrances:
            detail += f"; {_counts(hindrances)}"
        yield Item("Kubernetes nodes", group.name, State.READY if usable == group.count else State.WAITING, detail)


def _hindrance(node: Any) -> str:
    """What keeps pods from a node; empty when nothing does."""
    labels = node.metadata.labels
    if labels.get(DEEP_HEALTH_LABEL) == "InProgress":
        return "in deep health checks"
    if not any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or []):
        return "not Ready"
    health = labels.get(NODE_HEALTH_LABEL, "without a health status")
    return "" if health == NODE_SCHEDULABLE else str(health)


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counter.most_common())
