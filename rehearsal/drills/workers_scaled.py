"""Drill: a worker group doubles, and shrinks to the half of what it was."""

import time
from typing import Final

from rehearsal.drills.cluster.cluster import OPERATOR
from rehearsal.drills.cluster.stage import MARGIN_SECONDS, ClusterStage
from rehearsal.drills.drill import Drill

SECONDS: Final = 2 * MARGIN_SECONDS


def play(stage: ClusterStage) -> None:
    """Change the replicas of both RayClusters: n, 2n, n/2, and n again."""
    sides = (stage.here, stage.stock())
    given = stage.here.replicas
    for replicas in (2 * given, given // 2):
        before = stage.here.replicas
        stage.mark(f"replicas: {before} → {replicas}")
        if replicas < before:
            for side in sides:
                stage.permit(OPERATOR, *side.good("worker"))
        else:
            stage.permit_surplus(*sides)
        since = time.time()
        for side in sides:
            stage.set_replicas(side, replicas)
        stage.recover({side: ([], since) for side in sides}, limit=SECONDS, part=f"{before} → {replicas}", both=True)
    stage.set_replicas(stage.here, given)


DRILL: Final = Drill(
    name="workers-scaled",
    promise="A worker group doubles and then shrinks to the half of what it was, each within "
    f"{SECONDS} s. While it grows no pod ends that was there. (Which go when it shrinks, KubeRay chooses, and now and "
    "then it takes one too many and makes it anew: `ops scale` names them.)",
    play=play,
    stage=ClusterStage,
)
