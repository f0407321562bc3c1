"""Generate Slurm's configuration from an environment's groups: the nodes, their addresses, and slurm.conf."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Kind = Literal["controller", "login", "compute"]

PORTS: Final = {"controller": 6817, "compute": 6818}
"""Slurm's own: slurmctld's and slurmd's."""
CPUS: Final = 2
"""Each node's, whatever this machine has."""


@dataclass(frozen=True)
class ConfiguredGroup:
    """An instance group: its count, its kind of node, and a compute group's partition."""

    name: str
    count: int
    node: Kind
    partition: str | None = None


@dataclass(frozen=True)
class ConfiguredNode:
    """A node, named after its address as HyperPod does."""

    name: str
    address: str
    group: ConfiguredGroup


@dataclass(frozen=True)
class Folders:
    """Where Slurm's daemons keep their files."""

    plugins: Path
    state: Path
    """The controller's state: what it knows of jobs and nodes after it was replaced."""


def nodes(groups: Sequence[ConfiguredGroup]) -> list[ConfiguredNode]:
    """Return the nodes of all groups. A group that grows gives no node of another group a new address.

    Raises:
        ValueError: the groups cannot be a Slurm cluster.
    """
    _check(groups)
    return [
        ConfiguredNode(f"ip-10-1-{number}-{index}", f"10.1.{number}.{index}", group)
        for number, group in enumerate(groups, start=1)
        for index in range(10, 10 + group.count)
    ]


def slurm_conf(groups: Sequence[ConfiguredGroup], folders: Folders, *, login_nodes: bool = False) -> str:
    """Return slurm.conf. The first group's partition is the default one.

    With `login_nodes`, login nodes are nodes without a partition: the lifecycle scripts start slurmd there, and slurmd
    ends on a node that slurm.conf does not name.
    """
    found = nodes(groups)
    controller = next(node for node in found if node.group.node == "controller")
    compute = [node for node in found if node.group.node == "compute"]
    named = [node for node in found if node.group.node == "compute" or (login_nodes and node.group.node == "login")]
    lines = [
        "ClusterName=rehearsal",
        f"SlurmctldHost={controller.name}({controller.address})",
        *_daemons(folders),
        *(f"NodeName={node.name} NodeAddr={node.address} CPUs={CPUS} State=UNKNOWN" for node in named),
        *_partitions(compute),
    ]
    return "\n".join(lines) + "\n"


def _check(groups: Sequence[ConfiguredGroup]) -> None:
    controllers = [group for group in groups if group.node == "controller"]
    if len(controllers) != 1 or controllers[0].count != 1:
        raise ValueError(f"{len(controllers)} controller groups are invalid. Allowed: one group with one node")
    if not any(group.node == "compute" for group in groups):
        raise ValueError("no compute group is invalid. Allowed: one or more")
    for group in groups:
        if (group.node == "compute") != (group.partition is not None):
            raise ValueError(f"group {group.name}: partition {group.partition!r} is invalid. Allowed: on compute only")


def _partitions(compute: Iterable[ConfiguredNode]) -> Iterator[str]:
    members: dict[str, list[str]] = {}
    for node in compute:
        if node.group.partition:
            members.setdefault(node.group.partition, []).append(node.name)
    for index, (partition, names) in enumerate(members.items()):
        default = "NO" if index else "YES"
        yield f"PartitionName={partition} Nodes={','.join(names)} Default={default} MaxTime=INFINITE State=UP"


def _daemons(folders: Folders) -> list[str]:
    # One user for all daemons and jobs, so nothing changes users; a cgroup would need root.
    return [
        "SlurmUser=ubuntu",
        "SlurmdUser=ubuntu",
        "AuthType=auth/munge",
        # A requeued job waits for so many seconds, too (slurm.conf(5), AuthInfo); the default is 120.
        "AuthInfo=cred_expire=5",
        f"PluginDir={folders.plugins}",
        "MpiDefault=none",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "AccountingStorageType=accounting_storage/none",
        # Finished jobs, in a file: without a database nothing else outlives a job by more than MinJobAge.
        "JobCompType=jobcomp/filetxt",
        f"JobCompLoc={folders.state}/finished-jobs.txt",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU",
        # The nodes' CPUs are the configuration's, not this machine's.
        "SlurmdParameters=config_overrides",
        # A lost node that comes back takes jobs again.
        "ReturnToService=2",
        f"StateSaveLocation={folders.state}",
        # The node's own /run: the path of a step's socket must fit into 107 characters.
        "SlurmdSpoolDir=/run/slurmd",
        "SlurmctldPidFile=/run/slurmctld.pid",
        "SlurmdPidFile=/run/slurmd.pid",
        # Nodes without a slurm.conf get the controller's: the lifecycle scripts give slurmd only its address.
        "SlurmctldParameters=enable_configless",
        f"SlurmctldPort={PORTS['controller']}",
        f"SlurmdPort={PORTS['compute']}",
        # The defaults (300 seconds until a silent node is DOWN, 60 until a requeued job is looked at) would only wait.
        "SlurmdTimeout=10",
        "MessageTimeout=5",
        "TCPTimeout=2",
        "SchedulerParameters=sched_interval=2,bf_interval=2",
        "KillWait=5",
        # An srun of which a restarted controller hears nothing has ended.
        "InactiveLimit=30",
    ]
