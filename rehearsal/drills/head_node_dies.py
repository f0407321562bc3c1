"""Drill: the head's node falls silent, and its group has another node."""

from typing import Final

from k8s_charts.ray.pods import LOST_NODE_SECONDS
from rehearsal.drills.cluster.context import MARGIN_SECONDS, ClusterDrillContext
from rehearsal.drills.drill import Drill


def play(context: ClusterDrillContext) -> None:
    """Stop the heartbeats of the head's node."""
    subjects = (context.here, context.stock())
    lost = {subject: subject.a("head") for subject in subjects}
    context.mark("the heartbeats of the head's node stop")
    context.lose_nodes_of(lost, limit=LOST_NODE_SECONDS + MARGIN_SECONDS)


DRILL: Final = Drill(
    name="head-node-dies",
    promise=f"The head's node falls silent: with a spare node in its group the RayCluster is complete again at "
    f"most {LOST_NODE_SECONDS} + {MARGIN_SECONDS} s after the node's Ready condition left True.",
    play=play,
    context=ClusterDrillContext,
)
