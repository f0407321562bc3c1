"""Drill: a worker's node falls silent, and there is a spare node."""

from typing import Final

from k8s_charts.ray.pods import LOST_NODE_SECONDS
from rehearsal.drills.cluster.context import MARGIN_SECONDS, ClusterDrillContext
from rehearsal.drills.drill import Drill


def play(context: ClusterDrillContext) -> None:
    """Stop the heartbeats of a worker's node."""
    subjects = (context.here, context.stock())
    lost = {subject: subject.a("worker") for subject in subjects}
    context.mark("the heartbeats of a worker's node stop")
    context.lose_nodes_of(lost, limit=LOST_NODE_SECONDS + MARGIN_SECONDS)


DRILL: Final = Drill(
    name="node-dies",
    promise=f"A worker's node falls silent: with a spare node the RayCluster is complete again at most "
    f"{LOST_NODE_SECONDS} + {MARGIN_SECONDS} s after the node's Ready condition left True.",
    play=play,
    context=ClusterDrillContext,
)
