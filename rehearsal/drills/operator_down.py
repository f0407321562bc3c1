"""Drill: the operator is away for a minute, in which a worker fails."""

import time
from typing import Final

from rehearsal.drills.cluster.auditor import DEPLOYMENTS
from rehearsal.drills.cluster.stage import MARGIN_SECONDS, ClusterStage
from rehearsal.drills.drill import Drill
from rehearsal.story.steps import RehearsalError

AWAY_SECONDS: Final = 60
# A new operator becomes the leader when the lease of the old one has run out.
LEASE_SECONDS: Final = 15


def play(stage: ClusterStage) -> None:
    """Take the operator away, let a worker fail, bring the operator back after a minute."""
    sides = (stage.here, stage.stock())
    away = time.time()
    stage.mark("the operator goes away")
    stage.permit(DEPLOYMENTS, *stage.cluster.operators())
    stage.cluster.scale_operator(0)
    stage.mark("a worker's pod is Failed")
    failed = {side: side.a("worker") for side in sides}
    for pod in failed.values():
        stage.fail(pod)
    time.sleep(max(0.0, away + AWAY_SECONDS - time.time()))
    if stage.here.is_whole([failed[stage.here]["metadata"]["name"]]):
        raise RehearsalError("nobody but the operator may replace a worker, yet the RayCluster is whole without it")
    stage.mark("the operator comes back")
    back = time.time()
    stage.cluster.scale_operator(1)
    stage.recover({side: ([pod], back) for side, pod in failed.items()}, limit=LEASE_SECONDS + MARGIN_SECONDS)


DRILL: Final = Drill(
    name="operator-down",
    promise=f"The operator is away for {AWAY_SECONDS} s: no pod ends because of that, and what failed meanwhile is "
    f"replaced within {LEASE_SECONDS} (the lease of the old one) + {MARGIN_SECONDS} s of its return.",
    play=play,
    stage=ClusterStage,
)
