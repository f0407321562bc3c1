"""The steps of a rehearsal of a cluster that Slurm orchestrates: no Kubernetes, no charts, and nothing to build."""

from functools import partial
from typing import Any, Final

import config
from config import naming
from embedded_account.machine import isolation
from embedded_account.machine.processes import ProcessError
from rehearsal.run.account import rehearsal_account
from rehearsal.run.cdk import Cdk, changed_stacks, require_node
from rehearsal.run.cluster import has, wait_for
from rehearsal.run.project import Project
from rehearsal.run.steps import Rehearsal, RehearsalError
from rehearsal.slurm import jobs, programs, proof
from rehearsal.slurm.cluster import SlurmCluster

_ROLLED_BACK: Final = "the rehearsal rolls this update back"


class SlurmRehearsal(Rehearsal):
    """A rehearsal whose nodes run Slurm: the embedded account simulates the nodes, real Slurm runs beside it."""

    slurm: programs.Programs | None = None
    """None where this machine cannot run Slurm."""

    def make_project(self) -> None:
        """Fetch Slurm if this machine can run it, and copy the project; no program is built."""
        require_node()
        with self.progress.step("Slurm from Debian's packages (fetched once, then cached)") as step:
            try:
                self.slurm = programs.ensure(progress=self.console.print)
                step.see(f"Slurm {self.slurm.version}")
            except ProcessError as error:
                step.see(f"no real Slurm in this rehearsal: {error}")
        with self.progress.step("project"):
            environment = self.environment
            self.account = rehearsal_account(
                self.directory / "account",
                self.directory / "no-programs",
                account_id=environment.account,
                region=environment.region,
            )
            isolation.enter(self.child_environment())
            self.project = Project(self.directory / "project")
            self.cdk = Cdk(
                self.project.directory,
                self.supervisor.logs,
                self.child_environment(),
                context={"environment": environment.name},
                echo=self.progress.echo,
                spans=self.spans,
            )

    def nodes_run(self) -> None:
        """Check that every group has its nodes, and that the API says what they are in Slurm."""
        with self.progress.step("nodes run") as step:
            for group in self.environment.hyperpod.instance_groups:
                nodes = wait_for(f"instance group {group.name}", partial(self._running, group.name), has(group.count))
                step.see(f"{group.name}: {len(nodes)} x {group.instance_type} ({nodes[0]}, …)")
            told = {each["InstanceGroupName"]: each.get("SlurmConfig") for each in self._cluster()["InstanceGroups"]}
            wanted = {
                group.name: group.slurm.node.capitalize()
                for group in self.environment.hyperpod.instance_groups
                if group.slurm
            }
            by_api = self.environment.slurm is not None and self.environment.slurm.configuration == "api"
            if by_api and {name: (each or {}).get("NodeType") for name, each in told.items()} != wanted:
                raise RehearsalError(f"the groups must be {wanted} in Slurm; the cluster says {told}")

    def slurm_runs(self) -> None:
        """Run real Slurm in the shape of the environment: a job outlives a lost node, and a group grows."""
        if self.slurm is None:
            return
        with self.progress.step("real Slurm with the environment's groups") as step:
            try:
                with SlurmCluster(self.directory / "slurm", proof.groups_of(self.environment), self.slurm) as cluster:
                    proof.prove(cluster, step.see)
                    jobs.prove(cluster, self.slurm, step.see)
            except ProcessError as error:
                raise RehearsalError(str(error)) from error

    def roll_back(self) -> None:
        """Let HyperPod roll back an update of the worker group: the stack and the nodes go back, too."""
        with self.progress.step("an update that HyperPod rolls back") as step:
            group, before, after = self.project.grow_workers(self.environment.name, by=1)
            step.see(f"environments/{self.environment.name}.yaml: {group} count {before} → {after}")
            self.account.set_hyperpod_faults({"fail_update": _ROLLED_BACK})
            stack = naming.stack(self.environment, "hyperpod")
            self.cdk("deploy", stack, "--require-approval", "never", "--progress", "events", expect=(1,))
            [found] = self.account.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
            if found["StackStatus"] != "UPDATE_ROLLBACK_COMPLETE":
                raise RehearsalError(f"{stack} must be rolled back; it is {found['StackStatus']}")
            wait_for(f"{before} nodes of {group}", partial(self._running, group), has(before))
            step.see(f"{stack}: UPDATE_ROLLBACK_COMPLETE, {before} nodes as before")

    def grow(self) -> None:
        """Deploy the update that was rolled back: one UpdateCluster, one node."""
        with self.progress.step("the worker group grows") as step:
            self.environment = config.load(self.environment.name, self.project.directory / "environments")
            before = self.calls("UpdateCluster")
            own = {naming.stack(self.environment, "hyperpod")}
            if others := changed_stacks(self.deploy_stacks()) - own:
                raise RehearsalError(f"the change must only reach {own}; it also changed {sorted(others)}")
            if (calls := self.calls("UpdateCluster") - before) != 1:
                raise RehearsalError(f"the change must send one UpdateCluster; it sent {calls}")
            step.see("one UpdateCluster was sent")

    def _cluster(self) -> dict[str, Any]:
        name = self.environment.hyperpod.cluster_name
        found: dict[str, Any] = self.account.client("sagemaker").describe_cluster(ClusterName=name)
        return found

    def _running(self, group: str) -> list[str]:
        name = self.environment.hyperpod.cluster_name
        pages = self.account.client("sagemaker").get_paginator("list_cluster_nodes").paginate(ClusterName=name)
        return sorted(
            node["InstanceId"]
            for page in pages
            for node in page["ClusterNodeSummaries"]
            if node["InstanceGroupName"] == group and node["InstanceStatus"]["Status"] == "Running"
        )
