"""Hand the lifecycle scripts of a new node to a caller of the account who can run them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from embedded_account.hyperpod.model import NodeStatus, SimulatedCluster
from embedded_account.hyperpod.slurm.clusters import node_type
from embedded_account.resource_config import ListedInstance, cluster_file, slurm_config


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

    Of KubernetesConfig only the cluster's name is simulated.
    """
    groups = {
        group.name: (group.instance_types[0].name, _instances(cluster, group.name)) for group in cluster.groups.values()
    }
    if cluster.eks_name:
        orchestrator = {"ClusterType": "Kubernetes", "KubernetesConfig": {"EksClusterName": cluster.eks_name}}
    else:
        controllers = [name for name, group in cluster.groups.items() if node_type(group.specification) == "Controller"]
        orchestrator = slurm_config(each.address for name in controllers for each in groups[name][1])
    return cluster_file(cluster.name, cluster.arn, groups) | orchestrator


def _instances(cluster: SimulatedCluster, group: str) -> list[ListedInstance]:
    known = [node for node in cluster.nodes_of(group) if node.address and node.status is not NodeStatus.FAILURE]
    return [
        ListedInstance(
            node.kubernetes_name if cluster.eks_name else f"{group}-{number}", node.instance_id, node.address
        )
        for number, node in enumerate(known, 1)
    ]
