"""Hand the lifecycle scripts of a new node to a caller of the account who can run them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from embedded_account.hyperpod.model import Node, NodeStatus, SimulatedCluster


@dataclass(frozen=True)
class NodeScripts:
    """What HyperPod gives a new node: the files below SourceS3Uri, and resource_config.json."""

    cluster: str
    group: Mapping[str, Any]
    """The instance group, in the form of a request."""
    instance_id: str
    address: str
    files: Mapping[str, bytes]
    """Content by path below the prefix."""
    resource_config: Mapping[str, Any]


@dataclass(frozen=True)
class ScriptsOutcome:
    """How the scripts ended, and what they printed."""

    exit_code: int
    output: str


RunScripts = Callable[[NodeScripts], ScriptsOutcome | None]
"""Run the scripts of a node, and return their outcome; None: they were not run, which counts as a success."""


def resource_config(cluster: SimulatedCluster) -> dict[str, Any]:
    """Return what HyperPod writes to /opt/ml/config/resource_config.json.

    Sources: AWS docs, sagemaker-hyperpod-lifecycle-best-practices-slurm-slurm-base-config; of a group without
    instances, awslabs/awsome-distributed-ai 2b673935.
    """
    return {
        "ClusterConfig": {"ClusterArn": cluster.arn, "ClusterName": cluster.name},
        "InstanceGroups": [
            {
                "Name": group.name,
                "InstanceType": group.instance_types[0].name,
                "Instances": [
                    {
                        "InstanceName": f"{group.name}-{number}",
                        "AgentIpAddress": node.address,
                        "CustomerIpAddress": node.address,
                        "InstanceId": node.instance_id,
                    }
                    for number, node in enumerate(_known(cluster, group.name), 1)
                ]
                or None,
            }
            for group in cluster.groups.values()
        ],
    }


def _known(cluster: SimulatedCluster, group: str) -> list[Node]:
    return [node for node in cluster.nodes_of(group) if node.address and node.status is not NodeStatus.FAILURE]
