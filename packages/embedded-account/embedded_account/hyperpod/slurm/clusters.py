"""Clusters that Slurm orchestrates: their rules, and an orchestrator without Kubernetes.

Sources: AWS docs, sagemaker-hyperpod-slurm-api-config-migration (messages), sagemaker-hyperpod-scaling-slurm
(continuous provisioning); SageMaker API reference, ClusterSlurmConfig. Slurm itself is not simulated.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from embedded_account.hyperpod.eks import EksDescription, Orchestrators
from embedded_account.hyperpod.errors import ValidationFailedError
from embedded_account.hyperpod.model import NodeStatus, SimulatedCluster, SimulatedGroup, Specification
from embedded_account.hyperpod.nodes import KubernetesNode
from embedded_account.hyperpod.surroundings import AccountServices, split_s3_uri

NO_EKS: Final = ""
"""The name of the EKS cluster of a cluster that Slurm orchestrates."""
PARAMETERS: Final = "provisioning_parameters.json"
BOTH: Final = (
    "The LifeCycleConfig cannot include both a SLURM Orchestrator Config and a provisioning_parameters.json file "
    "simultaneously."
)
FIRST: Final = ("Controller", "Login")
"""The nodes that must run before a cluster with continuous provisioning is InService."""


class OrWithout:
    """The orchestrators of all clusters: the account's EKS clusters, and nothing for a cluster without one."""

    def __init__(self, eks: Orchestrators) -> None:
        self._eks = eks

    def cluster(self, name: str) -> EksDescription | None:
        return self._eks.cluster(name)

    def missing_dependencies(self, name: str) -> list[str]:
        return self._eks.missing_dependencies(name)

    def add_access_entry(self, name: str, principal_arn: str, **properties: Any) -> bool:
        return name != NO_EKS and self._eks.add_access_entry(name, principal_arn, **properties)

    def remove_access_entry(self, name: str, principal_arn: str) -> None:
        if name != NO_EKS:
            self._eks.remove_access_entry(name, principal_arn)

    def join(self, name: str, node: KubernetesNode) -> None:
        if name != NO_EKS:
            self._eks.join(name, node)

    def mark(self, name: str, node: KubernetesNode) -> None:
        if name != NO_EKS:
            self._eks.mark(name, node)

    def leave(self, name: str, node_name: str) -> None:
        if name != NO_EKS:
            self._eks.leave(name, node_name)

    def stop_heartbeat(self, name: str, node_name: str) -> None:
        if name != NO_EKS:
            self._eks.stop_heartbeat(name, node_name)


def node_type(specification: Mapping[str, Any]) -> str:
    """Return the NodeType of a group; "" if the API does not configure Slurm."""
    return str(specification.get("SlurmConfig", {}).get("NodeType", ""))


def check_cluster(request: Mapping[str, Any], groups: Iterable[Specification]) -> None:
    """Raise ValidationFailedError unless the groups are those of a Slurm cluster; all of its groups are given."""
    groups = list(groups)
    continuous = request.get("NodeProvisioningMode") == "Continuous"
    if "VpcConfig" not in request:
        raise ValidationFailedError("The rehearsal simulates Slurm clusters with VpcConfig only.")
    strategy = request.get("Orchestrator", {}).get("Slurm", {}).get("SlurmConfigStrategy")
    if continuous and strategy:
        raise ValidationFailedError("SlurmConfigStrategy is not supported with NodeProvisioningMode Continuous.")
    by_api = [group for group in groups if node_type(group)]
    if not by_api:
        if continuous:
            raise ValidationFailedError("NodeProvisioningMode Continuous needs SlurmConfig in each instance group.")
        return
    if len(by_api) < len(groups):
        missing = [group["InstanceGroupName"] for group in groups if not node_type(group)]
        raise ValidationFailedError(f"Instance groups without SlurmConfig: {', '.join(missing)}.")
    controllers = [group for group in groups if node_type(group) == "Controller"]
    if not controllers:
        raise ValidationFailedError(f"Cluster {request['ClusterName']} has no InstanceGroup with Controller node type.")
    if len(controllers) > 1:
        raise ValidationFailedError(
            f"{len(controllers)} Controller Groups found: SlurmConfig for InstanceGroups may only have one Controller "
            "Group."
        )
    if continuous and controllers[0]["InstanceCount"] > 1:
        raise ValidationFailedError("Continuous provisioning does not support several controller nodes.")


def check_group(group: Specification, *, of_eks: bool) -> None:
    """Raise ValidationFailedError if a group has a field of the other orchestrator, or partitions without jobs."""
    name = group["InstanceGroupName"]
    if of_eks:
        if "SlurmConfig" in group:
            raise ValidationFailedError(f"Instance group {name}: SlurmConfig needs Slurm as the orchestrator.")
        return
    if "KubernetesConfig" in group:
        raise ValidationFailedError(f"Instance group {name}: KubernetesConfig needs Amazon EKS as the orchestrator.")
    if group.get("SlurmConfig", {}).get("PartitionNames") and node_type(group) != "Compute":
        raise ValidationFailedError("Partitions can only be assigned to Compute node types")


def check_unchanged(group: SimulatedGroup, wanted: Specification) -> None:
    """Raise ValidationFailedError for another NodeType. The rehearsal's own rule: no page says what a change does."""
    before = node_type(group.specification)
    if node_type(wanted) not in {"", before}:
        raise ValidationFailedError(
            f"Instance group {group.name}: SlurmConfig.NodeType cannot be changed. Delete the group and add another."
        )


def configured_twice(surroundings: AccountServices, groups: Iterable[Specification]) -> str:
    """Return the message about a file beside the scripts of a group that the API configures; "" if there is none."""
    for group in groups:
        if node_type(group) and (config := group.get("LifeCycleConfig")):
            bucket, prefix = split_s3_uri(config["SourceS3Uri"])
            if surroundings.object_exists(bucket, f"{prefix}/{PARAMETERS}".strip("/")):
                return BOTH
    return ""


def has_health_events(cluster: SimulatedCluster) -> bool:
    """Return whether events tell the health of Slurm: HyperPod configures it, and a cluster has events at all."""
    return cluster.eks_name == NO_EKS and cluster.continuous


def waits_for(cluster: SimulatedCluster) -> list[SimulatedGroup]:
    """Return the groups that a new cluster waits for until it is InService: those of controller and login nodes."""
    if cluster.eks_name != NO_EKS or not cluster.continuous:
        return []
    return [group for group in cluster.groups.values() if node_type(group.specification) in FIRST]


def without_controller(cluster: SimulatedCluster) -> bool:
    """Return whether the controller could not start, which ends the creation of a cluster."""
    controllers = [group for group in waits_for(cluster) if node_type(group.specification) == "Controller"]
    return any(
        group.shortage or any(node.status is NodeStatus.FAILURE for node in cluster.nodes_of(group.name))
        for group in controllers
    )
