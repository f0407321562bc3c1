"""Check a new instance before it joins: its network interface, the EFA health check and its lifecycle scripts."""

from collections.abc import Iterable

from embedded_account.hyperpod.model import Node, SimulatedCluster, SimulatedGroup
from embedded_account.hyperpod.permissions import checks as permissions
from embedded_account.hyperpod.slurm.scripts import NodeScripts, resource_config
from embedded_account.hyperpod.surroundings import split_s3_uri
from embedded_account.hyperpod.world import SimulatorState
from embedded_account.services.iam.policies import UnsupportedPolicyError

EFA_CHECK_FAILED = (
    "EFA health checks did not run successfully. Ensure that your VPC and security groups are properly configured "
    "before attempting to create a new cluster."
)


class InstanceChecks:
    """Checks that use the group's execution role and the current state of the account."""

    def __init__(self, world: SimulatorState) -> None:
        self._world = world

    def lifecycle_failure(self, cluster: SimulatedCluster, group: SimulatedGroup, node: Node) -> str:
        """Run or simulate the lifecycle scripts and write their log stream; return why they failed, or ""."""
        config = group.specification.get("LifeCycleConfig")
        if not config:
            return ""
        bucket, prefix = split_s3_uri(config["SourceS3Uri"])
        script = config.get("OnCreate", "")
        key = f"{prefix}/{script}".strip("/")
        why = self._world.surroundings.unreachable(node) or self._download_failure(group, bucket, key)
        if not why and self._world.faults.take_lifecycle(group.name):
            why = f"{script} ended with exit code 1"
        lines: list[str] = []
        if not why:
            why, lines = self._run(cluster, group, node, script, (bucket, prefix))
        stream = f"LifecycleConfig/{group.name}/{node.instance_id}"
        message = f"[rehearsal] {why}" if why else f"[rehearsal] s3://{bucket}/{key}: simulated, not run; succeeded"
        self._write_log(cluster, stream, lines or [message])
        if not why:
            return ""
        return (
            f'Instance {node.instance_id} failed to provision with the following error: "Lifecycle scripts did not '
            f'run successfully: {why}." To view lifecycle script logs, visit log group {cluster.log_group} and '
            f"stream {stream}."
        )

    def _run(
        self, cluster: SimulatedCluster, group: SimulatedGroup, node: Node, script: str, source: tuple[str, str]
    ) -> tuple[str, list[str]]:
        """Let the account's caller run the scripts; return why they failed, or "", and the lines that they printed.

        On AWS the event does not quote the scripts: their last line is only in the log stream.
        """
        outcome = self._world.run_scripts(
            NodeScripts(
                cluster=cluster.name,
                group=group.specification,
                instance_id=node.instance_id,
                address=node.address,
                files=self._world.surroundings.objects(*source),
                resource_config=resource_config(cluster),
            )
        )
        if outcome is None:
            return "", []
        lines = outcome.output.splitlines() or ["[rehearsal] no output"]
        return (f"{script} ended with exit code {outcome.exit_code}: {lines[-1]}" if outcome.exit_code else ""), lines

    def _write_log(self, cluster: SimulatedCluster, stream: str, lines: Iterable[str]) -> None:
        milliseconds = int(self._world.timeline.now().timestamp() * 1000)
        for line in lines:
            self._world.surroundings.log(cluster, stream, line, milliseconds)

    def interface_refused(self, group: SimulatedGroup, node: Node) -> str:
        """Return why the execution role cannot create the node's network interface, or ""."""
        resources = [f"subnet/{node.subnet.subnet_id}", *(f"security-group/{g}" for g in node.security_groups)]
        world = self._world
        wanted = permissions.interface_needs(world.partition, world.region, world.account_id, resources)
        return self._role_refused(group, wanted)

    def _download_failure(self, group: SimulatedGroup, bucket: str, key: str) -> str:
        world = self._world
        wanted = [
            *permissions.script_needs(world.partition, bucket, key, world.account_id),
            *permissions.decryption_needs(world.region, world.account_id, bucket, key),
        ]
        refused = self._role_refused(group, wanted)
        if refused:
            return refused
        if not self._world.surroundings.object_exists(bucket, key):
            return f"s3://{bucket}/{key} does not exist"
        return ""

    def _role_refused(self, group: SimulatedGroup, wanted: Iterable[permissions.Need]) -> str:
        role = self._world.surroundings.role(group.execution_role)
        if role is None:
            return f"The execution role {group.execution_role} does not exist"
        try:
            refused = permissions.denied(role.grants, wanted)
        except UnsupportedPolicyError as error:
            return f"The rehearsal cannot evaluate the policies of {role.arn}: {error}"
        if refused is None:
            return ""
        need, reason = refused
        return f"{role.arn} is not authorized to perform: {need.action} on resource: {need.resource} ({reason.value})"

    def efa_failure(self, node: Node) -> str:
        """Return why the EFA health check fails, or "".

        Every security group of a node with EFA must allow all traffic from and to itself.
        """
        if not node.instance_type.efa:
            return ""
        groups = [self._world.surroundings.security_group(group_id) for group_id in node.security_groups]
        if all(group and group.self_ingress and group.self_egress for group in groups):
            return ""
        return EFA_CHECK_FAILED
