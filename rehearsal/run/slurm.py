"""The steps of a rehearsal of a cluster that Slurm orchestrates: no Kubernetes, no charts, and nothing to build."""

import json
import re
from collections import defaultdict
from functools import partial
from typing import Any, Final

import config
from config import SlurmEnvironment, naming
from embedded_account.machine.processes import ProcessError
from ops import stacks
from rehearsal.report.verdict import SlurmSeen
from rehearsal.run.cdk import changed_stacks, require_node
from rehearsal.run.cluster import has, wait_for
from rehearsal.run.steps import RehearsalError, RehearsalSteps
from rehearsal.slurm import jobs, programs, proof
from rehearsal.slurm.cluster import SlurmCluster
from rehearsal.slurm.scripted import DeployedScripts
from rehearsal.slurm.scripts import PARAMETERS

_END: Final = re.compile(r" on_create: done after \d+s$")
_ROLLED_BACK: Final = "the rehearsal rolls this update back"


class SlurmRehearsal(RehearsalSteps[SlurmEnvironment]):
    """A rehearsal whose nodes run Slurm: the embedded account simulates the nodes, real Slurm runs beside it."""

    slurm: programs.Programs | None = None
    """None where this machine cannot run Slurm."""
    why_not: str = ""
    scripts_ran: bool = False
    """Whether the nodes ran the lifecycle scripts: only this project's are run."""

    @property
    def seen(self) -> SlurmSeen:
        """Return what this rehearsal ran, for its verdict."""
        return SlurmSeen(self.slurm.version if self.slurm else None, self.scripts_ran, self.why_not)

    def make_project(self) -> None:
        """Fetch Slurm if this machine can run it, and copy the project; no program is built."""
        require_node()
        with self.progress.step("Slurm from Debian's packages (fetched once, then cached)") as step:
            try:
                self.slurm = programs.ensure(progress=self.console.print)
                step.see(f"Slurm {self.slurm.version}")
            except ProcessError as error:
                self.why_not = str(error)
                step.see(f"no real Slurm in this rehearsal: {error}")
        with self.progress.step("project"):
            self._open_project(self.directory / "no-programs")

    def nodes_run(self) -> None:
        """Check that every group has its nodes, and that the API says what they are in Slurm."""
        with self.progress.step("nodes run") as step:
            for group in self.environment.hyperpod.instance_groups:
                nodes = wait_for(f"instance group {group.name}", partial(self._running, group.name), has(group.count))
                step.see(f"{group.name}: {len(nodes)} x {group.instance_type} ({nodes[0]}, …)")
            recorded = {
                each["InstanceGroupName"]: each.get("SlurmConfig") for each in self._cluster()["InstanceGroups"]
            }
            wanted = {
                group.name: group.slurm.node.capitalize()
                for group in self.environment.hyperpod.instance_groups
                if group.slurm
            }
            step.see(self._scripts_ran())
            by_api = self.environment.slurm.configuration == "api"
            if by_api and {name: (each or {}).get("NodeType") for name, each in recorded.items()} != wanted:
                raise RehearsalError(f"the groups must be {wanted} in Slurm; the cluster says {recorded}")

    def _scripts_ran(self) -> str:
        """Return on how many nodes the lifecycle scripts ran to their end, read from CloudWatch."""
        logs = self.account.client("logs")
        group = f"/aws/sagemaker/Clusters/{self.environment.hyperpod.cluster_name}/"
        [found] = logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]
        pages = logs.get_paginator("filter_log_events").paginate(logGroupName=found["logGroupName"])
        printed: dict[str, list[str]] = defaultdict(list)
        for page in pages:
            for event in page["events"]:
                printed[event["logStreamName"]].append(event["message"])
        self.scripts_ran = not any("simulated, not run" in line for lines in printed.values() for line in lines)
        if not self.scripts_ran:
            return "lifecycle scripts: not this project's, so they were not run"
        if unfinished := [stream for stream, lines in printed.items() if not _END.search(lines[-1])]:
            raise RehearsalError(f"on_create.sh must end with `done`; it did not in {', '.join(unfinished)}")
        return f"on_create.sh ran on {len(printed)} nodes, each with the scripts of the lifecycle bucket"

    def _deployed_scripts(self) -> DeployedScripts:
        """Return the lifecycle scripts from their bucket, and the file system that they or HyperPod mount."""
        group = self._cluster()["InstanceGroups"][0]
        bucket, _, prefix = group["LifeCycleConfig"]["SourceS3Uri"].removeprefix("s3://").partition("/")
        s3 = self.account.client("s3")
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        keys = [each["Key"] for page in pages for each in page["Contents"]]
        files = {key.removeprefix(prefix): s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}
        if PARAMETERS in files:
            recorded = json.loads(files[PARAMETERS])
            dns, name = recorded["fsx_dns_name"], recorded["fsx_mountname"]
        else:
            [recorded] = [
                each["FsxLustreConfig"] for each in group["InstanceStorageConfigs"] if "FsxLustreConfig" in each
            ]
            dns, name = recorded["DnsName"], recorded["MountName"]
        return DeployedScripts(files, f"{dns}@tcp:/{name}", self.environment.fsx.mount_path)

    def slurm_runs(self) -> None:
        """Run real Slurm in the shape of the environment: a job outlives a lost node, and a group grows."""
        if self.slurm is None:
            return
        with self.progress.step("real Slurm with the environment's groups") as step:
            try:
                groups = proof.groups_of(self.environment)
                scripts = self._deployed_scripts() if self.scripts_ran else None
                with SlurmCluster(self.directory / "slurm", groups, self.slurm, scripts=scripts) as cluster:
                    if scripts:
                        what = "munge and Slurm" if scripts.start_slurm else "munge; Slurm then starts as with HyperPod"
                        step.see(f"the deployed scripts started on {len(cluster.nodes)} nodes: {what}")
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
            status = stacks.status(self.account.client("cloudformation"), stack)
            if status != "UPDATE_ROLLBACK_COMPLETE":
                raise RehearsalError(f"{stack} must be rolled back; it is {status}")
            wait_for(f"{before} nodes of {group}", partial(self._running, group), has(before))
            step.see(f"{stack}: UPDATE_ROLLBACK_COMPLETE, {before} nodes as before")

    def grow(self) -> None:
        """Deploy the update that was rolled back: one UpdateCluster, one node."""
        with self.progress.step("the worker group grows") as step:
            environments = self.project.directory / "environments"
            self.environment = config.load_as(SlurmEnvironment, self.environment.name, environments)
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
        """Return the running nodes of a group. Raises RehearsalError with what HyperPod says of a failed one."""
        name = self.environment.hyperpod.cluster_name
        pages = self.account.client("sagemaker").get_paginator("list_cluster_nodes").paginate(ClusterName=name)
        nodes = [node for page in pages for node in page["ClusterNodeSummaries"] if node["InstanceGroupName"] == group]
        for node in nodes:
            if node["InstanceStatus"]["Status"] == "Failure":
                raise RehearsalError(f"a node of {group} failed: {node['InstanceStatus']['Message']}")
        return sorted(node["InstanceId"] for node in nodes if node["InstanceStatus"]["Status"] == "Running")
