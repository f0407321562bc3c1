"""Drill: the head's node falls silent, and its group has no other: HyperPod does not replace CPU nodes on its own."""

import re
from functools import partial
from typing import Final

from rehearsal.drills.context import DrillContext
from rehearsal.drills.drill import Drill
from rehearsal.run.cluster import ClusterView, has, is_whole, wait_for
from rehearsal.run.steps import RehearsalError

COMMAND: Final = re.compile(r"aws sagemaker batch-replace-cluster-nodes --cluster-name (\S+) --node-ids ([\w-]+)")


def play(context: DrillContext) -> None:
    """Lose the node; run the command that `ops status` shows; wait for the head."""
    ray = context.environment.ray.clusters[0]
    workers = sum(group.replicas for group in ray.workers)
    context.deploy()
    context.ops("wait", "--timeout", "15m", "--interval", "1s")
    cluster = context.rehearsal.cluster()
    read_heads = partial(_heads, cluster, ray.name)
    before = read_heads()

    with context.audited():
        _lose_and_replace(context, cluster, before[0])
        with context.step("the RayCluster is complete again") as step:
            wait_for("the RayCluster", partial(cluster.ray_status, ray.name), is_whole(workers))
            heads = wait_for("a head elsewhere", read_heads, lambda found: len(found) == 1 and found != before)
            step.see(f"its head is on {heads[0]}, was on {before[0]}")
        context.ops("wait", "--timeout", "15m", "--interval", "1s")


def _heads(cluster: ClusterView, name: str) -> list[str]:
    """Return the nodes of the RayCluster's heads."""
    return cluster.ray_pods(name).get("headgroup", [])


def _lose_and_replace(context: DrillContext, cluster: ClusterView, lost: str) -> None:
    """Stop the heartbeats of the head's node, and run the command that `ops status` shows for it."""
    group = context.environment.ray.clusters[0].head.instance_group
    nodes = partial(cluster.group_nodes, group)
    context.faults("the head's node falls silent", fail_node={"group": group, "heartbeat": False})
    with context.step("its Ready condition is no longer True"):
        wait_for("the noticed loss of the head's node", nodes, lambda ready: lost not in ready)
    command = COMMAND.search(context.ops("status", expect=(1,)))
    if command is None or not lost.endswith(command[2]):
        raise RehearsalError(f"`ops status` must name the command that replaces {lost}")
    with context.step(f"the shown command is run: {command[0]}"):
        name, node = command.groups()
        context.rehearsal.account.client("sagemaker").batch_replace_cluster_nodes(ClusterName=name, NodeIds=[node])
        wait_for("a new node for the head", nodes, has(1))


DRILL: Final = Drill(
    name="head-node-alone",
    promise="The head's node falls silent and its group has no other: `ops status` shows the command that replaces it, "
    "and the RayCluster is complete afterwards.",
    play=play,
    context=DrillContext,
)
