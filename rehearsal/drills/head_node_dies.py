"""Drill: the head's node falls silent, and there is another in its group."""

from typing import Final

from k8s_charts.ray.pods import LOST_NODE_SECONDS
from rehearsal.drills.cluster.stage import MARGIN_SECONDS, ClusterStage
from rehearsal.drills.drill import Drill


def play(stage: ClusterStage) -> None:
    """Stop the heart-beats of the head's node."""
    sides = (stage.here, stage.stock())
    lost = {side: side.a("head") for side in sides}
    stage.mark("the heart-beats of the head's node stop")
    stage.lose_nodes_of(lost, limit=LOST_NODE_SECONDS + MARGIN_SECONDS)


DRILL: Final = Drill(
    name="head-node-dies",
    promise=f"The head's node falls silent: with a spare node in its group the RayCluster is whole again "
    f"{LOST_NODE_SECONDS} + {MARGIN_SECONDS} s after the node's Ready condition left True, at the latest.",
    play=play,
    stage=ClusterStage,
)
