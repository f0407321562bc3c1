"""Drill: the operator is down for a minute, in which a worker fails."""

import time
from typing import Final

from rehearsal.drills.cluster.auditor import DEPLOYMENTS
from rehearsal.drills.cluster.context import MARGIN_SECONDS, ClusterDrillContext
from rehearsal.drills.drill import Drill
from rehearsal.run.steps import RehearsalError

AWAY_SECONDS: Final = 60
# A new operator becomes the leader when the old one's lease has expired.
LEASE_SECONDS: Final = 15


def play(context: ClusterDrillContext) -> None:
    """Stop the operator, let a worker fail, restart the operator after a minute."""
    subjects = (context.here, context.stock())
    away = time.time()
    context.mark("the operator stops")
    context.permit(DEPLOYMENTS, *context.cluster.operators())
    context.cluster.scale_operator(0)
    context.mark("a worker's pod is Failed")
    failed = {subject: subject.a("worker") for subject in subjects}
    for pod in failed.values():
        context.fail(pod)
    time.sleep(max(0.0, away + AWAY_SECONDS - time.time()))
    if context.here.is_whole([failed[context.here]["metadata"]["name"]]):
        raise RehearsalError("only the operator may replace a worker, but the RayCluster is complete without it")
    context.mark("the operator restarts")
    back = time.time()
    context.cluster.scale_operator(1)
    context.recover({subject: ([pod], back) for subject, pod in failed.items()}, limit=LEASE_SECONDS + MARGIN_SECONDS)


DRILL: Final = Drill(
    name="operator-down",
    promise=f"The operator is down for {AWAY_SECONDS} s: no pod ends because of that; a pod that fails meanwhile is "
    f"replaced within {LEASE_SECONDS} (the old one's lease) + {MARGIN_SECONDS} s of its restart.",
    play=play,
    context=ClusterDrillContext,
)
