"""Convert the simulator's objects to responses of SageMaker's API; a key without a value is omitted."""

from collections.abc import Sequence
from typing import Any

from embedded_account.hyperpod.errors import ValidationFailedError
from embedded_account.hyperpod.model import (
    ClusterEvent,
    ClusterStatus,
    Node,
    NodeStatus,
    Operation,
    SimulatedCluster,
    SimulatedGroup,
)

ECHOED = ("NodeRecovery", "NodeProvisioningMode", "VpcConfig", "Orchestrator", "TieredStorageConfig", "ClusterRole")
ECHOED_OF_GROUPS = (
    "InstanceType",
    "LifeCycleConfig",
    "ExecutionRole",
    "InstanceStorageConfigs",
    "OnStartDeepHealthChecks",
    "OverrideVpcConfig",
    "CapacityRequirements",
    "NetworkInterface",
    "TrainingPlanArn",
    "SlurmConfig",
)
DEFAULT_PAGE = 100

View = dict[str, Any]


def cluster_view(cluster: SimulatedCluster) -> View:
    """Return the DescribeCluster response."""
    view = {
        "ClusterArn": cluster.arn,
        "ClusterName": cluster.name,
        "ClusterStatus": str(cluster.status),
        "CreationTime": cluster.created,
        "InstanceGroups": [_group_view(cluster, group) for group in cluster.groups.values()],
        **{key: cluster.request[key] for key in ECHOED if key in cluster.request},
    }
    if cluster.failure:
        view["FailureMessage"] = cluster.failure
    return view


def cluster_summary(cluster: SimulatedCluster) -> View:
    """Return an entry of ListClusters."""
    return {
        "ClusterArn": cluster.arn,
        "ClusterName": cluster.name,
        "ClusterStatus": str(cluster.status),
        "CreationTime": cluster.created,
    }


def _group_view(cluster: SimulatedCluster, group: SimulatedGroup) -> View:
    specification = group.specification
    view = {
        "InstanceGroupName": group.name,
        "CurrentCount": cluster.current_count(group.name),
        "TargetCount": group.target,
        "ThreadsPerCore": group.threads_per_core,
        "Status": _group_status(cluster, group),
        # The simulator does not track which image a node runs, so both ids are the same.
        "CurrentImageId": group.image_id,
        "DesiredImageId": group.image_id,
        "ImageVersionStatus": group.image_version,
        **{key: specification[key] for key in ECHOED_OF_GROUPS if key in specification},
    }
    if group.minimum:
        view["MinCount"] = group.minimum
    if "InstanceRequirements" in specification:
        names = specification["InstanceRequirements"]["InstanceTypes"]
        view["InstanceRequirements"] = {"CurrentInstanceTypes": names, "DesiredInstanceTypes": names}
    if "KubernetesConfig" in specification:
        config = specification["KubernetesConfig"]
        view["KubernetesConfig"] = {
            f"{when}{key}": value for key, value in config.items() for when in ("Current", "Desired")
        }
    if group.software_status:
        view["SoftwareUpdateStatus"] = group.software_status
    return view


def _group_status(cluster: SimulatedCluster, group: SimulatedGroup) -> str:
    if group.deleting or cluster.status is ClusterStatus.DELETING:
        return "Deleting"
    if cluster.status is ClusterStatus.FAILED:
        return "Failed"
    if cluster.status is ClusterStatus.SYSTEM_UPDATING and group.software_status == "InProgress":
        return "SystemUpdating"
    if group.shortage:
        return "Degraded"
    if cluster.current_count(group.name) != group.target:
        return "Creating" if cluster.status is ClusterStatus.CREATING else "Updating"
    return "InService"


def node_summary(cluster: SimulatedCluster, node: Node, *, logical_id: bool) -> View:
    """Return an entry of ListClusterNodes."""
    status: View = {"Status": str(node.status)}
    if node.message:
        status["Message"] = node.message
    view: View = {
        "InstanceGroupName": node.group,
        "InstanceId": node.instance_id,
        "InstanceType": node.instance_type.name,
        "LaunchTime": node.launched,
        "InstanceStatus": status,
    }
    if node.software_updated:
        view["LastSoftwareUpdateTime"] = node.software_updated
    if logical_id:
        view["NodeLogicalId"] = node.logical_id
    if node.address and node.status is not NodeStatus.FAILURE:
        view["PrivateDnsHostname"] = f"ip-{node.address.replace('.', '-')}.{cluster.arn.split(':')[3]}.compute.internal"
    return view


def node_details(cluster: SimulatedCluster, node: Node) -> View:
    """Return the NodeDetails of DescribeClusterNode."""
    view = node_summary(cluster, node, logical_id=True)
    group = cluster.groups.get(node.group)
    if group:
        keys = ("LifeCycleConfig", "InstanceStorageConfigs", "OverrideVpcConfig")
        view |= {key: group.specification[key] for key in keys if key in group.specification}
    view["ThreadsPerCore"] = node.threads_per_core
    view["Placement"] = {"AvailabilityZone": node.subnet.zone, "AvailabilityZoneId": node.subnet.zone_id}
    if node.address and node.status is not NodeStatus.FAILURE:
        view["PrivatePrimaryIp"] = node.address
    return view


def event_view(cluster: SimulatedCluster, event: ClusterEvent, *, details: bool) -> View:
    """Return an entry of ListClusterEvents or, with `details`, the EventDetails of DescribeClusterEvent."""
    view = {
        "EventId": event.event_id,
        "ClusterArn": cluster.arn,
        "ClusterName": cluster.name,
        "ResourceType": event.resource_type,
        "EventTime": event.time,
        "Description": event.description,
        "EventLevel": event.level,
    }
    optional = {
        "InstanceGroupName": event.group,
        "InstanceId": event.instance_id,
        "OperationId": event.operation_id,
    }
    view |= {key: value for key, value in optional.items() if value}
    if details and event.metadata:
        view["EventDetails"] = {"EventMetadata": dict(event.metadata)}
    return view


def operation_view(cluster: SimulatedCluster, operation: Operation, *, details: bool) -> View:
    """Return an entry of ListClusterOperations or, with `details`, the DescribeClusterOperation response."""
    view: View = {
        "OperationId": operation.operation_id,
        "ClusterArn": cluster.arn,
        "Type": "Scaling",
        "Status": operation.status,
        "CreationTime": operation.created,
    }
    if details:
        view["ScalingDetails"] = [
            {
                "InstanceGroupName": name,
                "Status": operation.status,
                "Original": dict(
                    zip(("CurrentCount", "TargetCount"), operation.original.get(name, (0, 0)), strict=True)
                ),
                "Desired": {"TargetCount": target},
            }
            for name, target in operation.desired.items()
        ]
    return view


def page(items: Sequence[View], request: View, key: str) -> View:
    """Return one page of a list under `key`: `MaxResults` entries from the position in `NextToken`."""
    token = request.get("NextToken", "0")
    if not token.isdecimal():
        raise ValidationFailedError(f"NextToken {token!r} is invalid. Allowed: a token from an earlier response.")
    first = int(token)
    last = first + request.get("MaxResults", DEFAULT_PAGE)
    view: View = {key: list(items[first:last])}
    if last < len(items):
        view["NextToken"] = str(last)
    return view
