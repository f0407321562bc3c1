"""Take nodes through their lifecycle: launch, check, join, deep health check, fault, replace, reboot, shut down.

Module `state` keeps the status of the whole cluster; the callbacks `on_change` and `on_failure` inform it.
"""

from collections.abc import Callable

from embedded_account.hyperpod.instance_types import NodeType
from embedded_account.hyperpod.instances.checks import InstanceChecks
from embedded_account.hyperpod.model import (
    JOINED,
    ClusterStatus,
    DeepCheck,
    Node,
    NodeHealth,
    NodeStatus,
    SimulatedCluster,
    SimulatedGroup,
    new_instance_id,
)
from embedded_account.hyperpod.nodes import as_kubernetes
from embedded_account.hyperpod.world import SimulatorState


class NodeTransitions:
    """The transitions of nodes, scheduled on the world's timeline."""

    def __init__(
        self,
        world: SimulatorState,
        on_change: Callable[[SimulatedCluster], None],
        on_failure: Callable[[SimulatedCluster, str], None],
    ) -> None:
        self._world = world
        self._checks = InstanceChecks(world)
        self._on_change = on_change
        self._on_failure = on_failure

    def fill(self, cluster: SimulatedCluster, group: SimulatedGroup) -> None:
        """Scale the group to its target: launch missing instances, shut down surplus ones."""
        staying = cluster.staying(group.name)
        for node in _first_to_leave(staying, len(staying) - group.target):
            self.shut_down(cluster, node)
        missing = group.target - len(staying)
        group.shortage = ""
        launched = 0
        while launched < missing and not group.shortage:
            group.shortage = self._launch(cluster, group)
            launched += not group.shortage
        if launched > 0:
            self._world.event(
                cluster,
                f"Launching {launched} of {missing} missing instances of instance group {group.name}.",
                group=group.name,
                metadata=self._scaling(cluster, group),
            )
        if group.shortage:
            self._out_of_capacity(cluster, group)
        if missing > 0:
            self._on_change(cluster)

    def shut_down(self, cluster: SimulatedCluster, node: Node) -> None:
        """Start the shutdown, which also removes network interface and Kubernetes node. HyperPod does not drain."""
        node.status = NodeStatus.SHUTTING_DOWN
        self._plan(cluster, node, self._world.minutes.shut_down, self._gone)
        self._world.event(
            cluster, f"Instance {node.instance_id} is shutting down.", group=node.group, instance=node.instance_id
        )

    def running_node(self, cluster: SimulatedCluster, group: str, instance_id: str) -> Node | None:
        """Return a healthy running node, or None; "" matches any group or instance id."""
        found = (
            node
            for node in cluster.nodes.values()
            if node.status is NodeStatus.RUNNING
            and not node.fault
            and group in {"", node.group}
            and instance_id in {"", node.instance_id}
        )
        return next(found, None)

    def hardware_fault(self, cluster: SimulatedCluster, node: Node, reason: str, *, heartbeat: bool) -> None:
        """Cause a hardware fault on the node.

        On accelerated types the health monitoring agent detects the fault and labels the node. With NodeRecovery
        Automatic, HyperPod then replaces the node. A CPU node is not even labelled (AWS docs,
        sagemaker-hyperpod-eks-prerequisites: automatic replacement is not supported for CPU instances).
        """
        if not heartbeat:
            self._world.orchestrators.stop_heartbeat(cluster.eks_name, node.kubernetes_name)
        if not node.instance_type.accelerated:
            return
        node.fault = reason
        self._plan(cluster, node, self._world.minutes.detect, self._detected)

    def request_replacement(self, cluster: SimulatedCluster, node: Node) -> None:
        """Replace the node for BatchReplaceClusterNodes, whatever its type."""
        self._plan(cluster, node, 0, self._replace)

    def request_reboot(self, cluster: SimulatedCluster, node: Node) -> None:
        """Reboot the node for BatchRebootClusterNodes; the node keeps its id."""
        self._plan(cluster, node, 0, self._reboot)

    def start_deep_check(self, cluster: SimulatedCluster, node: Node) -> None:
        """Start deep health checks on a running node for StartClusterHealthCheck; it takes no pods meanwhile.

        A node that fails them is replaced, as a new node is.
        """
        node.status, node.deep_check = NodeStatus.DEEP_HEALTH_CHECK, DeepCheck.IN_PROGRESS
        self._world.orchestrators.mark(cluster.eks_name, as_kubernetes(cluster, node))
        self._plan(cluster, node, self._world.minutes.deep_check, self._deep_checked)
        self._world.event(
            cluster,
            f"Deep health checks started on instance {node.instance_id}.",
            group=node.group,
            instance=node.instance_id,
        )

    def rerun_lifecycle(self, cluster: SimulatedCluster, group: SimulatedGroup, node: Node) -> str:
        """Run the lifecycle scripts on a node that UpdateClusterSoftware has wiped; return why they failed, or ""."""
        return self._checks.lifecycle_failure(cluster, group, node)

    def _replace(self, cluster: SimulatedCluster, node: Node) -> None:
        """Label the node for replacement, then shut it down; a new instance with a new id takes its place."""
        node.health = NodeHealth.PENDING_REPLACEMENT
        self._world.orchestrators.mark(cluster.eks_name, as_kubernetes(cluster, node))
        self._plan(cluster, node, self._world.minutes.drain, self.shut_down)
        self._world.event(
            cluster,
            f"Instance {node.instance_id} is going to be replaced.",
            level="Warn",
            group=node.group,
            instance=node.instance_id,
            metadata={"Instance": {"FailureMessage": node.fault}} if node.fault else {},
        )

    def _reboot(self, cluster: SimulatedCluster, node: Node) -> None:
        """Label the node for its reboot; `_rebooted` labels it schedulable again."""
        node.health = NodeHealth.PENDING_REBOOT
        self._world.orchestrators.mark(cluster.eks_name, as_kubernetes(cluster, node))
        self._plan(cluster, node, self._world.minutes.reboot, self._rebooted)

    def _launch(self, cluster: SimulatedCluster, group: SimulatedGroup) -> str:
        """Launch one instance; return why the launch failed, or ""."""
        surroundings = self._world.surroundings
        vpc_config = cluster.vpc_config(group)
        subnet = surroundings.subnet(vpc_config["Subnets"][0])
        if subnet is None:
            return f"The subnet '{vpc_config['Subnets'][0]}' does not exist"
        instance_type = next((each for each in group.instance_types if self._room_for(each) > 0), None)
        if instance_type is None:
            names = ", ".join(each.name for each in group.instance_types)
            return (
                f"We currently do not have sufficient {names} capacity in the Availability Zone {subnet.zone} "
                f"({subnet.zone_id}). Our system will be working on provisioning additional capacity."
            )
        node = Node(
            instance_id=new_instance_id(),
            group=group.name,
            instance_type=instance_type,
            threads_per_core=group.threads_per_core,
            launched=self._world.timeline.now(),
            subnet=subnet,
            security_groups=tuple(vpc_config["SecurityGroupIds"]),
        )
        failure = self._checks.interface_refused(group, node) or surroundings.attach_interface(cluster, node)
        if failure:
            return failure
        cluster.nodes[node.instance_id] = node
        self._plan(cluster, node, self._world.minutes.provision, self._provisioned)
        return ""

    def _room_for(self, instance_type: NodeType) -> int:
        limit = self._world.faults.capacity.get(instance_type.name)
        if limit is None:
            return 1
        everywhere = (node for cluster in self._world.clusters.values() for node in cluster.nodes.values())
        return limit - sum(node.instance_type == instance_type for node in everywhere)

    def _provisioned(self, cluster: SimulatedCluster, node: Node) -> None:
        group = cluster.groups[node.group]
        not_healthy = self._checks.efa_failure(node)  # before the scripts: if it fails, their log stays empty
        not_set_up = "" if not_healthy else self._checks.lifecycle_failure(cluster, group, node)
        if not_healthy or not_set_up:
            self._fail(cluster, node, not_healthy or not_set_up, scripts_failed=bool(not_set_up))
            return
        if group.deep_checks:
            node.deep_check = DeepCheck.IN_PROGRESS
        self._world.orchestrators.join(cluster.eks_name, as_kubernetes(cluster, node))
        if group.deep_checks:
            node.status = NodeStatus.DEEP_HEALTH_CHECK
            self._plan(cluster, node, self._world.minutes.deep_check, self._deep_checked)
        else:
            node.status = NodeStatus.RUNNING
        self._world.event(
            cluster,
            f"Instance {node.instance_id} joined the cluster; its status is {node.status}.",
            group=node.group,
            instance=node.instance_id,
            metadata={"Instance": {"CustomerEni": node.interface_id, "LcsExecutionState": "Succeeded"}},
        )
        self._on_change(cluster)

    def _deep_checked(self, cluster: SimulatedCluster, node: Node) -> None:
        if self._world.faults.take_deep_check(node.group):
            node.deep_check, node.fault = DeepCheck.FAILED, "DeepHealthCheckFailed"
            self._world.event(
                cluster,
                f"Deep health checks failed on instance {node.instance_id}.",
                level="Error",
                group=node.group,
                instance=node.instance_id,
                metadata={"Instance": {"FailureMessage": "Deep health checks failed."}},
            )
            self._replace(cluster, node)
            return
        node.deep_check, node.status = DeepCheck.PASSED, NodeStatus.RUNNING
        self._world.orchestrators.mark(cluster.eks_name, as_kubernetes(cluster, node))
        self._world.event(
            cluster,
            f"Deep health checks passed on instance {node.instance_id}.",
            group=node.group,
            instance=node.instance_id,
        )
        self._on_change(cluster)

    def _detected(self, cluster: SimulatedCluster, node: Node) -> None:
        if cluster.recovers:
            self._replace(cluster, node)
            return
        node.health = NodeHealth.PENDING_REPLACEMENT
        self._world.orchestrators.mark(cluster.eks_name, as_kubernetes(cluster, node))

    def _rebooted(self, cluster: SimulatedCluster, node: Node) -> None:
        node.health = NodeHealth.SCHEDULABLE
        self._world.orchestrators.mark(cluster.eks_name, as_kubernetes(cluster, node))

    def _fail(self, cluster: SimulatedCluster, node: Node, message: str, *, scripts_failed: bool) -> None:
        node.status, node.message = NodeStatus.FAILURE, message
        details = {"FailureMessage": message, "CustomerEni": node.interface_id}
        if scripts_failed:
            details["LcsExecutionState"] = "Failed"
        where = f"Cluster {cluster.name} and InstanceGroup {node.group}"
        # Two, of which the first is sure to have the reason (awslabs/awsome-distributed-ai, hyperpod-mental-model.md).
        for description, known in (
            (f"Failed to provision EC2 Instance in {where}", details),
            (f"Instance creation in {where} failed", {"CustomerEni": node.interface_id}),
        ):
            self._world.event(
                cluster,
                description,
                level="Error",
                group=node.group,
                instance=node.instance_id,
                metadata={"Instance": known},
            )
        self._plan(cluster, node, self._world.minutes.shut_down, self._gone)
        self._on_failure(cluster, message)

    def _gone(self, cluster: SimulatedCluster, node: Node) -> None:
        """Remove the terminated instance, then fill its group: at once, or after the retry delay if it had failed."""
        self._world.orchestrators.leave(cluster.eks_name, node.kubernetes_name)
        if not cluster.orphaned:
            self._world.surroundings.detach_interface(node)
        del cluster.nodes[node.instance_id]
        group = cluster.groups[node.group]
        if cluster.status not in {ClusterStatus.DELETING, ClusterStatus.FAILED}:
            wait = self._world.minutes.retry if node.status is NodeStatus.FAILURE else 0
            self.fill_later(cluster, group, wait)
        self._on_change(cluster)

    def fill_later(self, cluster: SimulatedCluster, group: SimulatedGroup, minutes: float) -> None:
        """Fill the group after `minutes`; this replaces an earlier plan to fill it."""
        self._world.plan(cluster, ("group", group.name), minutes, lambda: self.fill(cluster, group))

    def _out_of_capacity(self, cluster: SimulatedCluster, group: SimulatedGroup) -> None:
        self._world.event(
            cluster,
            f"Instance group {group.name} cannot be scaled to {group.target} instances now.",
            level="Error",
            group=group.name,
            metadata=self._scaling(cluster, group, failure=group.shortage),
        )
        if cluster.continuous:
            self.fill_later(cluster, group, self._world.minutes.retry)
        self._on_failure(cluster, group.shortage)

    def _scaling(self, cluster: SimulatedCluster, group: SimulatedGroup, failure: str = "") -> dict[str, object]:
        details: dict[str, object] = {
            "InstanceCount": cluster.current_count(group.name),
            "TargetCount": group.target,
        }
        if failure:
            details["FailureMessage"] = failure
        return {"InstanceGroupScaling": details}

    def _plan(
        self,
        cluster: SimulatedCluster,
        node: Node,
        minutes: float,
        transition: Callable[[SimulatedCluster, Node], None],
    ) -> None:
        """Make `transition` the node's next one; it does not run if the node is gone by then."""

        def run() -> None:
            if node.instance_id in cluster.nodes:
                transition(cluster, node)

        self._world.plan(cluster, ("node", node.instance_id), minutes, run)


def _first_to_leave(nodes: list[Node], count: int) -> list[Node]:
    """Return the `count` nodes to remove: first nodes that have not joined, then by id.

    On AWS the service chooses; the order of the ids is as good as random.
    """
    in_order = sorted(nodes, key=lambda node: (node.status in JOINED, node.instance_id))
    return in_order[: max(0, count)]
