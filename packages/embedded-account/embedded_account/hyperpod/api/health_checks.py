"""Decide what StartClusterHealthCheck may check: running nodes of accelerated groups in a cluster that is InService.

SIMULATED: the kinds of checks make no difference, and no operation of type DeepHealthCheck is listed.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from embedded_account.hyperpod.errors import ValidationFailedError
from embedded_account.hyperpod.model import ClusterStatus, Node, NodeStatus, SimulatedCluster


def nodes_to_check(cluster: SimulatedCluster, configurations: Iterable[Mapping[str, Any]]) -> list[Node]:
    """Return the nodes that the request names; a group without InstanceIds means all its running nodes.

    The service model lists no error for a wrong state, so every refusal is a ValidationFailedError.
    """
    if cluster.status is not ClusterStatus.IN_SERVICE:
        raise ValidationFailedError(f"Cluster {cluster.arn} is in status {cluster.status}, not InService.")
    found = [node for each in configurations for node in _of_group(cluster, each)]
    if len({node.instance_id for node in found}) != len(found):
        raise ValidationFailedError("An instance or an instance group is listed twice.")
    return found


def _of_group(cluster: SimulatedCluster, configuration: Mapping[str, Any]) -> list[Node]:
    name = configuration["InstanceGroupName"]
    if name not in cluster.groups:
        raise ValidationFailedError(f"Instance group {name} was not found in cluster {cluster.name}.")
    mine = {node.instance_id: node for node in cluster.nodes_of(name)}
    ids = configuration.get("InstanceIds")
    if unknown := [each for each in ids or () if each not in mine]:
        raise ValidationFailedError(f"Instances {unknown} were not found in instance group {name}.")
    chosen = [mine[each] for each in ids] if ids else [n for n in mine.values() if n.status is NodeStatus.RUNNING]
    for node in chosen:
        # AWS docs, sagemaker-hyperpod-eks-resiliency-deep-health-checks: GPU and Trainium instances only.
        if not node.instance_type.accelerated:
            raise ValidationFailedError(f"Deep health checks do not support {node.instance_type.name}.")
        if node.status is not NodeStatus.RUNNING:
            raise ValidationFailedError(f"Instance {node.instance_id} is in status {node.status}, not Running.")
    if not chosen:
        raise ValidationFailedError(f"Instance group {name} has no running instance.")
    return chosen
