"""Say what becomes of jobs where Slurm runs them: `ops` scales and drains nothing there."""

from collections.abc import Mapping
from typing import Any

from ops.review.hyperpod.values import shown


def orchestrates(cluster: Mapping[str, Any]) -> bool:
    """Return whether Slurm orchestrates the cluster with these properties."""
    return "Eks" not in cluster.get("Orchestrator", {})


def jobs_of(group: Mapping[str, Any]) -> str:
    """Return what the group's removal does to jobs."""
    if _node(group) == "Controller":
        return "Slurm's queue is lost, unless its state lies on the shared file system."
    return "Jobs there end; Slurm starts those with `--requeue` again on other nodes."


def drain(group: Mapping[str, Any], environment: str) -> str:
    """Return how an operator ends the work of a group's nodes before they are removed."""
    if _node(group) == "Controller":
        return "wait until `squeue` shows no job"
    return (
        "run `scontrol update nodename=NODE state=drain reason=removal` for each node that "
        f"`ops node list --env {environment}` shows in {shown(group.get('InstanceGroupName'))}, and wait for `drained`"
    )


def shrink(name: str, gone: str) -> str:
    """Return how an operator prepares the loss of some of a group's nodes: HyperPod chooses which."""
    return f"end the jobs on {name}, or hold them with `scontrol hold`: Slurm cannot choose {gone}"


def _node(group: Mapping[str, Any]) -> str:
    config = group.get("SlurmConfig")
    return str(config.get("NodeType", "")) if isinstance(config, Mapping) else ""
