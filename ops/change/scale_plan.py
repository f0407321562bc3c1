"""Plan `ops scale`: which nodes and which Ray workers are removed. Nothing here calls an API."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from config.labels import INSTANCE_GROUP_LABEL

MARK: Final = "ray-on-hyperpod/scale-down"
"""Annotation of a chosen node: a rerun after an interruption resumes with the same nodes."""

_GONE: Final = {"ShuttingDown", "Failure", "NotFound"}
"""InstanceStatus values of a node that no longer counts towards its group's target."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class GroupNode:
    """A node of the group. `workers` and `heads` are the names of its Ray pods that are not terminating.

    `clusters` are the (namespace, name) of the RayClusters that own these pods.
    """

    instance: str
    launched: datetime
    workers: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    clusters: frozenset[tuple[str, str]] = frozenset()
    marked: bool = False

    @property
    def name(self) -> str:
        """The node's name in Kubernetes (AWS docs: HyperPod names a node after its instance)."""
        return f"hyperpod-{self.instance}"


@dataclass(frozen=True)
class Replicas:
    """The new replicas of one worker group, the `index`-th of its RayCluster. `minimum` is its minReplicas."""

    namespace: str
    cluster: str
    index: int
    group: str
    before: int
    after: int
    minimum: int
    autoscaled: bool

    def __str__(self) -> str:
        return f"RayCluster {self.namespace}/{self.cluster}, {self.group}"


@dataclass(frozen=True)
class ScalePlan:
    """The plan of `ops scale`: HyperPod's current count `target`, the new count `wanted`, and the `leaving` nodes.

    `never_launched` is the rest of the difference: nodes that HyperPod could not launch. No API call can delete them.
    """

    group: str
    target: int
    wanted: int
    leaving: tuple[GroupNode, ...]
    replicas: tuple[Replicas, ...]

    @property
    def never_launched(self) -> int:
        return self.target - self.wanted - len(self.leaving)

    @property
    def clusters(self) -> set[tuple[str, str]]:
        """The (namespace, name) of the RayClusters that lose a pod or a replica."""
        losing = {(change.namespace, change.cluster) for change in self.replicas}
        return losing | {cluster for node in self.leaving for cluster in node.clusters}


def plan(
    *,
    group: str,
    wanted: int,
    target: int,
    nodes: Sequence[Json],
    kubernetes_nodes: Sequence[Any],
    pods: Sequence[Any],
    ray_clusters: Sequence[Json],
) -> ScalePlan:
    """Choose the nodes to remove, and the Ray workers to remove with them.

    `nodes` come from ListClusterNodes; `kubernetes_nodes`, `pods` (Ray's) and `ray_clusters` from the Kubernetes API.
    Nodes that an earlier run chose come first, then nodes without a Ray pod, nodes without a head, and the newest.
    """
    marked = {node.metadata.name for node in kubernetes_nodes if _is_marked(node)}
    staying = [
        _node(node, pods, marked)
        for node in nodes
        if node["InstanceGroupName"] == group and node["InstanceStatus"]["Status"] not in _GONE
    ]
    in_order = sorted(staying, key=lambda node: -node.launched.timestamp())
    in_order.sort(key=lambda node: (not node.marked, bool(node.heads), bool(node.workers)))
    # HyperPod can list more nodes than the target, and each deleted one lowers the target.
    leaving = tuple(in_order[: max(0, min(len(staying), target) - wanted)])
    unlaunched = target - wanted - len(leaving)
    empty = [not node.clusters for node in in_order]
    without_node = max(0, unlaunched + sum(empty[: len(leaving)]) - sum(empty[len(leaving) :]))
    # A pod on a node that is gone is still there until Kubernetes deletes it.
    names = {_name(node) for node in nodes}
    alive = [pod for pod in pods if not pod.spec.node_name or pod.spec.node_name in names]
    changes = tuple(_replicas(group, leaving, without_node, alive, ray_clusters))
    return ScalePlan(group, target, wanted, leaving, changes)


def _is_marked(node: Any) -> bool:
    # Uncordoning a node cancels the earlier choice.
    return bool(node.spec and node.spec.unschedulable and MARK in (node.metadata.annotations or {}))


def _name(node: Json) -> str:
    """Return the name in Kubernetes of a node of ListClusterNodes."""
    return f"hyperpod-{node['InstanceId']}"


def _node(node: Json, pods: Sequence[Any], marked: set[str]) -> GroupNode:
    name = _name(node)
    here = [pod for pod in pods if pod.spec.node_name == name and not pod.metadata.deletion_timestamp]
    return GroupNode(
        instance=node["InstanceId"],
        launched=node["LaunchTime"],
        workers=tuple(pod.metadata.name for pod in here if _kind(pod) == "worker"),
        heads=tuple(pod.metadata.name for pod in here if _kind(pod) == "head"),
        clusters=frozenset((pod.metadata.namespace, pod.metadata.labels["ray.io/cluster"]) for pod in here),
        marked=name in marked,
    )


def _replicas(
    group: str, leaving: Sequence[GroupNode], without_node: int, pods: Sequence[Any], ray_clusters: Sequence[Json]
) -> Iterator[Replicas]:
    """Yield the new replicas of each worker group that runs on the instance group.

    A group loses one replica for each of its pods on the `leaving` nodes, and one for each of up to `without_node`
    pending pods, whose nodes leave without a pod or were never launched.
    """
    going = {worker for node in leaving for worker in node.workers}
    for cluster in ray_clusters:
        for index, workers in enumerate(cluster["spec"].get("workerGroupSpecs", [])):
            if workers["template"]["spec"].get("nodeSelector", {}).get(INSTANCE_GROUP_LABEL) != group:
                continue
            mine = [pod for pod in pods if _belongs(pod, cluster, workers["groupName"])]
            before = int(workers.get("replicas", 0))
            placed = sum(bool(pod.spec.node_name) for pod in mine)
            waiting = min(without_node, max(0, before - placed))
            without_node -= waiting
            after = max(0, before - waiting - sum(pod.metadata.name in going for pod in mine))
            if after < before:
                yield Replicas(
                    namespace=cluster["metadata"]["namespace"],
                    cluster=cluster["metadata"]["name"],
                    index=index,
                    group=workers["groupName"],
                    before=before,
                    after=after,
                    minimum=int(workers.get("minReplicas", 0)),
                    autoscaled=bool(cluster["spec"].get("enableInTreeAutoscaling")),
                )


def _belongs(pod: Any, cluster: Json, group: str) -> bool:
    labels = pod.metadata.labels or {}
    return (
        not pod.metadata.deletion_timestamp
        and pod.metadata.namespace == cluster["metadata"]["namespace"]
        and labels.get("ray.io/cluster") == cluster["metadata"]["name"]
        and labels.get("ray.io/group") == group
        and _kind(pod) == "worker"
    )


def _kind(pod: Any) -> str:
    return str((pod.metadata.labels or {}).get("ray.io/node-type"))
