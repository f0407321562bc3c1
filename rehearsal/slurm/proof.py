"""Prove on real Slurm what an environment promises: its partitions, a job that survives a lost node, a grown group."""

from collections.abc import Callable
from typing import Final

from config import Environment
from embedded_account.machine.processes import ProcessError
from rehearsal.slurm.cluster import SlurmCluster
from rehearsal.slurm.configuration import ConfiguredGroup

MOST_NODES: Final = 4
"""Of each group: every node is several processes on this machine."""
_UNNAMED: Final = "dev"
"""The partition of groups that name none; HyperPod then chooses one itself."""
_JOB: Final = """#!/bin/bash
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=job.out
echo "attempt ${SLURM_RESTART_COUNT:-0} on $(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd ,)"
until [ -e go ]; do sleep 0.2; done
srun hostname
"""


def groups_of(environment: Environment) -> list[ConfiguredGroup]:
    """Return the instance groups of an environment with Slurm, each with few nodes."""
    found = []
    for group in environment.hyperpod.instance_groups:
        if group.slurm:
            partition = (group.slurm.partition or _UNNAMED) if group.slurm.node == "compute" else None
            found.append(ConfiguredGroup(group.name, min(group.count, MOST_NODES), group.slurm.node, partition))
    return found


def prove(cluster: SlurmCluster, see: Callable[[str], None]) -> None:
    """Run the proof, and tell each thing that was seen. Raises ProcessError for what is not as promised."""
    see(f"sinfo: {_partitions(cluster)}")
    group = next((each for each in cluster.groups if each.partition and each.count), None)
    if group is None:
        see("no compute node: no job runs")
        return
    see(_survives(cluster, group))
    [added, *_] = cluster.grow(group.name, by=1)
    cluster.wait_for_node(added, "idle")
    count = group.count + 1
    words = ("srun", f"--partition={group.partition}", f"--nodes={count}", "hostname")
    ran = cluster.run(*words).split()
    if added not in ran or len(ran) != count:
        raise ProcessError(
            f"a job of {count} nodes ran on {', '.join(ran)}, not on {added}. Fix: read the logs in {cluster.directory}"
        )
    see(f"{group.name} grows: {added} runs jobs")


def _partitions(cluster: SlurmCluster) -> str:
    """Return the partitions and their numbers of nodes, after comparing Slurm's with the environment's."""
    wanted: dict[str, int] = {}
    for group in cluster.groups:
        if group.partition and group.count:
            wanted[group.partition] = wanted.get(group.partition, 0) + group.count
    lines = cluster.run("sinfo", "--noheader", "--format=%R %D").splitlines()
    found = {name: int(count) for name, count in map(str.split, lines)}
    if found != wanted:
        raise ProcessError(f"sinfo says {found}. Allowed: {wanted}. Fix: read the logs in {cluster.directory}")
    return ", ".join(f"{name} with {count} nodes" for name, count in found.items())


def _survives(cluster: SlurmCluster, group: ConfiguredGroup) -> str:
    """Lose a node under a job on all nodes of a group; return what became of the job."""
    (cluster.directory / "job.sh").write_text(_JOB)
    names = ",".join(node.name for node in cluster.nodes if node.group == group)
    words = (f"--partition={group.partition}", f"--nodelist={names}", f"--nodes={group.count}", "job.sh")
    job = cluster.submit(*words)
    cluster.wait_for(job, "RUNNING")
    lost = names.rpartition(",")[2]
    cluster.kill(lost)
    cluster.wait_for_node(lost, "down*")
    cluster.wait_for(job, "PENDING")
    (cluster.directory / "go").touch()
    cluster.start(lost)
    cluster.wait_for(job, "COMPLETED")
    log = (cluster.directory / "job.out").read_text()
    if f"attempt 1 on {names}" not in log:
        raise ProcessError(
            f"the job did not end in its second attempt on {names}: {log!r}. Fix: read the logs in {cluster.directory}"
        )
    return f"job {job} on {group.count} nodes: {lost} was lost, the job was requeued and ended on its replacement"
