"""Answer HyperPod's List calls: filter, sort and paginate."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar

from embedded_account.hyperpod.errors import ValidationFailedError
from embedded_account.hyperpod.model import SimulatedCluster
from embedded_account.hyperpod.views import (
    View,
    cluster_summary,
    event_view,
    node_summary,
    operation_view,
    page,
)

Item = TypeVar("Item")


def list_clusters(clusters: Iterable[SimulatedCluster], request: View) -> View:
    """Answer ListClusters."""
    kept = [
        cluster
        for cluster in _between(clusters, request, lambda cluster: cluster.created)
        if request.get("NameContains", "") in cluster.name and "TrainingPlanArn" not in request
    ]
    by_name = request.get("SortBy") == "NAME"
    kept.sort(
        key=lambda cluster: (cluster.name if by_name else "", cluster.created),
        reverse=request.get("SortOrder") == "Descending",
    )
    return page([cluster_summary(cluster) for cluster in kept], request, "ClusterSummaries")


def list_nodes(cluster: SimulatedCluster, request: View) -> View:
    """Answer ListClusterNodes."""
    kept = [
        node
        for node in _between(cluster.nodes.values(), request, lambda node: node.launched)
        if request.get("InstanceGroupNameContains", "") in node.group
    ]
    by_name = request.get("SortBy") == "NAME"
    kept.sort(
        key=lambda node: (node.group if by_name else "", node.launched),
        reverse=request.get("SortOrder") == "Descending",
    )
    logical_id = bool(request.get("IncludeNodeLogicalIds"))
    return page([node_summary(cluster, node, logical_id=logical_id) for node in kept], request, "ClusterNodeSummaries")


def list_events(cluster: SimulatedCluster, request: View) -> View:
    """Answer ListClusterEvents, the latest event first by default."""
    require_events(cluster)
    wanted = {
        "group": request.get("InstanceGroupName"),
        "instance_id": request.get("NodeId"),
        "resource_type": request.get("ResourceType"),
        "operation_id": request.get("OperationId"),
    }
    kept = [
        event
        for event in _between(cluster.events, request, lambda event: event.time, "EventTime")
        if all(value in {None, getattr(event, name)} for name, value in wanted.items())
    ]
    if request.get("SortOrder", "Descending") == "Descending":
        kept.reverse()
    return page([event_view(cluster, event, details=False) for event in kept], request, "Events")


def list_operations(cluster: SimulatedCluster, request: View) -> View:
    """Answer ListClusterOperations, the latest operation first by default."""
    kept = [
        operation
        for operation in _between(cluster.operations, request, lambda operation: operation.created)
        if request.get("Status") in {None, operation.status} and request.get("Type") in {None, "Scaling"}
    ]
    if request.get("SortOrder", "Descending") == "Descending":
        kept.reverse()
    views = [operation_view(cluster, operation, details=False) for operation in kept]
    return page(views, request, "ClusterOperationSummaries")


def require_events(cluster: SimulatedCluster) -> None:
    """Raise ValidationFailedError unless the cluster uses Continuous provisioning: only then it has events."""
    if not cluster.continuous:
        raise ValidationFailedError(
            "Cluster events are available for clusters with NodeProvisioningMode Continuous only."
        )


def _between(
    items: Iterable[Item], request: View, time_of: Callable[[Item], datetime], prefix: str = "CreationTime"
) -> Iterable[Item]:
    after: Any = request.get(f"{prefix}After", float("-inf"))
    before: Any = request.get(f"{prefix}Before", float("inf"))
    return (item for item in items if after < time_of(item).timestamp() < before)
