"""Run the state machine of clusters: each call starts transitions that end in a stable status.

With Continuous provisioning, Creating ends in InService as soon as the request is accepted, and the groups fill
afterwards. A capacity shortage or a failing node does not change that status; only events report it. Without
Continuous provisioning, Creating and Updating last until every node runs. A failure then ends a creation in Failed
and rolls an update back.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from secrets import choice
from string import ascii_lowercase, digits
from threading import RLock
from typing import Any, Final
from uuid import uuid4

from embedded_account.hyperpod import rules
from embedded_account.hyperpod.errors import ConflictError, not_found
from embedded_account.hyperpod.instances.provisioning import NodeTransitions
from embedded_account.hyperpod.model import (
    UP_TO_DATE,
    ClusterStatus,
    Node,
    NodeStatus,
    Operation,
    SimulatedCluster,
    SimulatedGroup,
    Specification,
)
from embedded_account.hyperpod.permissions.required import SERVICE_LINKED_ROLE
from embedded_account.hyperpod.slurm import clusters as slurm
from embedded_account.hyperpod.world import SimulatorState
from embedded_account.tags import tag_map

UPDATABLE: Final = ("NodeRecovery", "NodeProvisioningMode", "ClusterRole", "TieredStorageConfig")
NOT_DELETABLE: Final = frozenset(
    {
        ClusterStatus.CREATING,
        ClusterStatus.UPDATING,
        ClusterStatus.ROLLING_BACK,
        ClusterStatus.SYSTEM_UPDATING,
        ClusterStatus.DELETING,
    }
)


class HyperPodService:
    """The simulator of one account and region. Callers hold `lock` during every call; `tick` runs due transitions."""

    def __init__(self, world: SimulatorState) -> None:
        self.world = world
        self.lock = RLock()
        self.nodes = NodeTransitions(world, on_change=self._settle, on_failure=self._fail)

    def tick(self) -> None:
        """Carry out every transition that is due."""
        with self.lock:
            self.world.timeline.run_due()

    def cluster(self, name_or_arn: str) -> SimulatedCluster:
        """Return the cluster with this name or ARN; raise NotFoundError if there is none."""
        for cluster in self.world.clusters.values():
            if name_or_arn in {cluster.name, cluster.arn}:
                return cluster
        raise not_found(name_or_arn)

    def new_arn(self) -> str:
        """Return an ARN for a new cluster; its id consists of twelve letters and digits."""
        cluster_id = "".join(choice(ascii_lowercase + digits) for _ in range(12))
        world = self.world
        return f"arn:{world.partition}:sagemaker:{world.region}:{world.account_id}:cluster/{cluster_id}"

    def create(self, arn: str, request: Specification) -> SimulatedCluster:
        """Start to create a cluster and return it; raise the errors of `rules` before any change."""
        eks = rules.check_create(self.world, request)
        request = deepcopy(request)
        groups = [SimulatedGroup(specification) for specification in request.pop("InstanceGroups", [])]
        cluster = SimulatedCluster(
            name=request["ClusterName"],
            arn=arn,
            request=request,
            groups={group.name: group for group in groups},
            created=self.world.timeline.now(),
            eks_name=eks.name if eks else slurm.NO_EKS,
            tag_values=tag_map(request.pop("Tags", [])),
        )
        self.world.clusters[cluster.name] = cluster
        self._begin_operation(cluster, {group.name: (0, 0) for group in groups})
        self._let_in(cluster, self.world.surroundings.ensure_service_linked_role())
        entries = {
            "EksRoleAccessEntries": sorted({group.execution_role for group in groups}),
            "SlrAccessEntry": SERVICE_LINKED_ROLE,
        }
        metadata = {"Cluster": entries} if eks else {}
        self.world.event(cluster, f"Cluster {cluster.name} is being created.", metadata=metadata)
        failure = self.world.faults.take_creation()
        if failure:
            self._plan(cluster, self.world.minutes.accept, lambda: self._end_in_failure(cluster, failure))
        elif cluster.continuous:
            self._plan(cluster, self.world.minutes.accept, lambda: self._accepted(cluster))
        else:
            self._plan(cluster, self.world.minutes.accept, lambda: self._fill_all(cluster))
        return cluster

    def update(self, cluster: SimulatedCluster, request: Specification) -> None:
        """Start to update the cluster; raise the errors of `rules` before any change."""
        rules.check_update(self.world, cluster, request)
        request = deepcopy(request)
        original = {name: (cluster.current_count(name), group.target) for name, group in cluster.groups.items()}
        cluster.previous = {
            name: deepcopy(group.specification) for name, group in cluster.groups.items() if not group.deleting
        }
        cluster.previous_request = dict(cluster.request)
        cluster.request |= {key: request[key] for key in UPDATABLE if key in request}
        for specification in request.get("InstanceGroups", []):
            name = specification["InstanceGroupName"]
            if name in cluster.groups:
                cluster.groups[name].change(specification)
            else:
                cluster.groups[name] = SimulatedGroup(specification)
        for name in request.get("InstanceGroupsToDelete", []):
            cluster.groups[name].mark_deleted()
        self._begin_operation(cluster, original)
        cluster.status = ClusterStatus.UPDATING
        self.world.event(cluster, f"Cluster {cluster.name} is being updated.")
        self._let_in(cluster)
        twice = slurm.configured_twice(self.world.surroundings, [g.specification for g in cluster.groups.values()])
        failure = self.world.faults.take_update() or twice
        if failure:
            self._plan(cluster, self.world.minutes.update, lambda: self._roll_back(cluster, failure))
            return
        then = self._accepted if cluster.continuous else self._fill_all
        self._plan(cluster, self.world.minutes.update, lambda: then(cluster))

    def delete(self, cluster: SimulatedCluster) -> None:
        """Start to delete the cluster with all its nodes; raise ConflictError during another change."""
        if cluster.status in NOT_DELETABLE:
            raise ConflictError(f"Cluster {cluster.arn} cannot be deleted in status {cluster.status}.")
        cluster.status = ClusterStatus.DELETING
        failure = self.world.faults.take_deletion()
        if failure:
            self._plan(cluster, self.world.minutes.remove, lambda: self._not_deleted(cluster, failure))
            return
        of_eks = cluster.eks_name != slurm.NO_EKS
        cluster.orphaned = of_eks and self.world.orchestrators.cluster(cluster.eks_name) is None
        self.world.event(cluster, f"Cluster {cluster.name} is being deleted.")
        for group in cluster.groups.values():
            self.world.forget(cluster, "group", group.name)
            self.world.forget(cluster, "minimum", group.name)
        for node in cluster.nodes.values():
            self.nodes.shut_down(cluster, node)
        self._settle(cluster)

    def update_software(self, cluster: SimulatedCluster, names: Iterable[str]) -> None:
        """Start to rewrite the root volumes of the nodes of these groups, or of all groups if `names` is empty."""
        rules.check_takes_changes(cluster)
        groups = [cluster.groups[name] for name in names] or list(cluster.groups.values())
        cluster.status = ClusterStatus.SYSTEM_UPDATING
        for group in groups:
            group.software_status = "InProgress"
            for node in cluster.staying(group.name):
                node.status = NodeStatus.SYSTEM_UPDATING
        self.world.event(cluster, f"The software of cluster {cluster.name} is being updated.")
        self._plan(cluster, self.world.minutes.software, lambda: self._software_updated(cluster, groups))

    def delete_nodes(self, cluster: SimulatedCluster, nodes: Iterable[Node]) -> None:
        """Shut down these nodes and lower their groups' targets, so that HyperPod does not replace them."""
        for node in nodes:
            group = cluster.groups[node.group]
            group.target = max(0, group.target - 1)
            self.nodes.shut_down(cluster, node)

    def _let_in(self, cluster: SimulatedCluster, service_linked_role: str = "") -> None:
        """Create the missing access entries; leave entries that others created before as they are."""
        roles = {group.execution_role: {"type": "HYPERPOD_LINUX"} for group in cluster.groups.values()}
        if service_linked_role:
            roles[service_linked_role] = {"type": "STANDARD", "username": "hyperpod-service-linked-role"}
        for principal, properties in roles.items():
            if principal in cluster.access_entries:
                continue
            if self.world.orchestrators.add_access_entry(cluster.eks_name, principal, **properties):
                cluster.access_entries.append(principal)

    def _begin_operation(self, cluster: SimulatedCluster, original: Mapping[str, tuple[int, int]]) -> None:
        for operation in cluster.operations:
            if operation.status == "InProgress":
                operation.status = "Superseded"
        desired = {group.name: group.target for group in cluster.groups.values()}
        now = self.world.timeline.now()
        cluster.operations.append(Operation(str(uuid4()), now, dict(original), desired))

    def _accepted(self, cluster: SimulatedCluster) -> None:
        """Set the cluster InService and start to fill its groups (Continuous provisioning).

        A new Slurm cluster first waits for its controller and its login node.
        """
        first = slurm.waits_for(cluster) if cluster.status is ClusterStatus.CREATING else []
        if any(group.target and not cluster.current_count(group.name) for group in first):
            for group in first:
                self.nodes.fill(cluster, group)
            return
        self._serve(cluster)
        previous = cluster.previous or {}
        cluster.previous = None
        for group in list(cluster.groups.values()):
            if group.minimum:
                before = previous.get(group.name, {}).get("InstanceCount", 0)
                self._watch_minimum(cluster, group, before)
            self.nodes.fill(cluster, group)
        self._settle(cluster)

    def _fill_all(self, cluster: SimulatedCluster) -> None:
        for group in list(cluster.groups.values()):
            if cluster.status in {ClusterStatus.CREATING, ClusterStatus.UPDATING}:
                self.nodes.fill(cluster, group)
        self._settle(cluster)

    def _watch_minimum(self, cluster: SimulatedCluster, group: SimulatedGroup, before: int) -> None:
        """Restore the earlier target `before` if the group misses MinInstanceCount for three hours.

        Source: SageMaker API reference, MinInstanceCount.
        """

        def read_state() -> None:
            if cluster.current_count(group.name) >= group.minimum:
                return
            text = f"MinInstanceCount {group.minimum} was not reached in time; the target is reset to {before}."
            scaling = {"TargetCount": before, "MinCount": group.minimum, "FailureMessage": text}
            group.target = before
            group.specification["MinInstanceCount"] = min(group.minimum, before)
            self.world.event(cluster, text, level="Error", group=group.name, metadata={"InstanceGroupScaling": scaling})
            self.nodes.fill(cluster, group)

        self.world.plan(cluster, ("minimum", group.name), self.world.minutes.minimum, read_state)

    def _settle(self, cluster: SimulatedCluster) -> None:
        """Update the groups, the last operation and the cluster's status after a change of its nodes."""
        for group in [group for group in cluster.groups.values() if group.deleting]:
            if not any(cluster.nodes_of(group.name)):
                del cluster.groups[group.name]
        filled = all(
            cluster.current_count(group.name) == group.target == len(list(cluster.nodes_of(group.name)))
            for group in cluster.groups.values()
        )
        if filled and cluster.operations and cluster.status is not ClusterStatus.DELETING:
            cluster.operations[-1].status = "Done"
        if cluster.status is ClusterStatus.DELETING:
            if not cluster.nodes:
                self._plan(cluster, self.world.minutes.remove, lambda: self._remove(cluster))
            return
        checking = any(node.status is NodeStatus.DEEP_HEALTH_CHECK for node in cluster.nodes.values())
        if cluster.continuous and cluster.status is ClusterStatus.CREATING and self._first_nodes_run(cluster):
            self._accepted(cluster)
            return
        waiting = cluster.status in {ClusterStatus.CREATING, ClusterStatus.UPDATING} and not cluster.continuous
        if waiting and filled and not checking and not self.world.planned(cluster, "cluster"):
            cluster.previous = None
            self._serve(cluster)

    def _first_nodes_run(self, cluster: SimulatedCluster) -> bool:
        first = slurm.waits_for(cluster)
        return bool(first) and all(cluster.current_count(group.name) for group in first if group.target)

    def _fail(self, cluster: SimulatedCluster, message: str) -> None:
        """End a creation in Failed, or roll back an update, after a node or a launch failed.

        With Continuous provisioning a failure does not change the cluster, except that of Slurm's controller.
        """
        if cluster.continuous:
            if cluster.status is ClusterStatus.CREATING and slurm.without_controller(cluster):
                self._end_in_failure(cluster, message)
            return
        if cluster.status is ClusterStatus.CREATING:
            self._end_in_failure(cluster, message)
        elif cluster.status is ClusterStatus.UPDATING:
            self._roll_back(cluster, message)

    def _end_in_failure(self, cluster: SimulatedCluster, message: str) -> None:
        cluster.status, cluster.failure = ClusterStatus.FAILED, message
        self.world.event(
            cluster,
            f"Cluster {cluster.name} could not be created.",
            level="Error",
            metadata={"Cluster": {"FailureMessage": message}},
        )
        for group in cluster.groups.values():
            self.world.forget(cluster, "group", group.name)
        for node in cluster.nodes.values():
            if node.status is not NodeStatus.FAILURE:
                self.nodes.shut_down(cluster, node)

    def _not_deleted(self, cluster: SimulatedCluster, message: str) -> None:
        cluster.status, cluster.failure = ClusterStatus.FAILED, message
        self.world.event(
            cluster,
            f"Cluster {cluster.name} could not be deleted.",
            level="Error",
            metadata={"Cluster": {"FailureMessage": message}},
        )

    def _roll_back(self, cluster: SimulatedCluster, message: str) -> None:
        cluster.status = ClusterStatus.ROLLING_BACK
        cluster.request = cluster.previous_request
        before = cluster.previous or {}
        self.world.event(
            cluster,
            f"The update of cluster {cluster.name} is rolled back.",
            level="Error",
            metadata={"Cluster": {"FailureMessage": message}},
        )
        for group in cluster.groups.values():
            if group.name in before:
                group.specification, group.deleting = before[group.name], False
            else:
                group.mark_deleted()

        def end() -> None:
            cluster.previous = None
            self._serve(cluster)
            for group in list(cluster.groups.values()):
                self.nodes.fill(cluster, group)
            self._settle(cluster)

        self._plan(cluster, self.world.minutes.roll_back, end)

    def _software_updated(self, cluster: SimulatedCluster, groups: Iterable[SimulatedGroup]) -> None:
        failed = False
        for group in groups:
            group.software_status = "Succeeded"
            for node in cluster.staying(group.name):
                if self.nodes.rerun_lifecycle(cluster, group, node):
                    group.software_status, failed = "Failed", True
                else:
                    node.software_updated = self.world.timeline.now()
                node.status = NodeStatus.RUNNING
            if group.software_status == "Succeeded":
                group.image_version = UP_TO_DATE
        if failed:
            self.world.event(cluster, "The software update failed and was rolled back.", level="Error")
        self._serve(cluster)

    def _serve(self, cluster: SimulatedCluster) -> None:
        cluster.status = ClusterStatus.IN_SERVICE
        self.world.event(cluster, f"Cluster {cluster.name} is InService.")

    def _remove(self, cluster: SimulatedCluster) -> None:
        for principal in cluster.access_entries:
            self.world.orchestrators.remove_access_entry(cluster.eks_name, principal)
        del self.world.clusters[cluster.name]
        self.world.record("hyperpod", action="deleted", cluster=cluster.name, arn=cluster.arn)

    def _plan(self, cluster: SimulatedCluster, minutes: float, action: Any) -> None:
        self.world.plan(cluster, ("cluster",), minutes, action)
