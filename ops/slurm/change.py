"""Let HyperPod replace or reboot a compute node: Slurm's own state asks for it, so that running jobs may end first."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from ops.errors import RefusedError
from ops.slurm.nodes import SlurmInstance


class SlurmNodeAction(StrEnum):
    """What HyperPod does with the node."""

    REPLACE = "replace"
    REBOOT = "reboot"


NAMES: Final = "sinfo --noheader --Node --format=%N=%o"
"""The controller's command that prints each node's name and address, which HyperPod's API does not relate."""
_API: Final = {
    SlurmNodeAction.REPLACE: "batch-replace-cluster-nodes",
    SlurmNodeAction.REBOOT: "batch-reboot-cluster-nodes",
}
_LOST: Final = {
    SlurmNodeAction.REPLACE: "its disks are lost, another instance takes its name",
    SlurmNodeAction.REBOOT: "the instance stays",
}


def require_compute(action: SlurmNodeAction, node: SlurmInstance, cluster: str) -> None:
    """Raise RefusedError unless Slurm runs jobs on the node and knows its name."""
    if node.role != "compute":
        instead = f"`aws sagemaker {_API[action]} --cluster-name {cluster} --node-ids {node.instance}`"
        lost = "; a new controller may lose the queue of jobs" if node.role == "controller" else ""
        raise RefusedError(
            f"{node.instance} is a {node.role or 'removed'} node, and Slurm can {action} compute nodes only. "
            f"Allowed: compute nodes. Fix: {instead}{lost}"
        )
    if not node.name:
        raise RefusedError(f"{node.instance} is {node.status} and has no name yet. Fix: `ops wait`, then try again")


def name_in_slurm(node: SlurmInstance, lines: Iterable[str]) -> str:
    """Return the node's name from the lines of NAMES. Raises RefusedError if Slurm has no node at its address.

    A name is `ip-ADDRESS` (observed), or GROUP-NUMBER, such as `gpu-compute-1` (AWS docs,
    sagemaker-hyperpod-slurm-api-config-migration, "Verify the migration").
    """
    names = {address: name for name, _, address in (line.partition("=") for line in lines)}
    if found := names.get(node.address) or names.get(node.name):
        return found
    where = f"{node.address or node.name} ({node.instance})"
    raise RefusedError(f"Slurm has no node at {where}. Fix: wait until `sinfo --Node` lists it, then try again")


def words(action: SlurmNodeAction, name: str, *, now: bool) -> str:
    """Return Slurm's command. `now` ends the node's jobs; otherwise they may end by themselves.

    Source: AWS docs, sagemaker-hyperpod-resiliency-slurm, "Manually replace a faulty node".
    """
    state = "down" if now else "fail"
    return f"scontrol update nodename={name} state={state} reason=Action:{action.capitalize()}"


def describe(action: SlurmNodeAction, node: SlurmInstance, *, now: bool) -> list[str]:
    """Return the plan, one line each."""
    jobs = "its jobs are killed at once" if now else "its running jobs end first, new ones start elsewhere"
    return [
        f"node {node.name} ({node.instance}, {node.group}, {node.type}, {node.status}): {_LOST[action]}",
        f"{jobs}: {words(action, node.name, now=now)}",
    ]
