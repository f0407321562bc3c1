"""Drill: a worker group doubles, then shrinks to half of its original size."""

import time
from typing import Final

from rehearsal.drills.cluster.cluster import OPERATOR
from rehearsal.drills.cluster.context import MARGIN_SECONDS, ClusterDrillContext
from rehearsal.drills.drill import Drill

SECONDS: Final = 2 * MARGIN_SECONDS


def play(context: ClusterDrillContext) -> None:
    """Change the replicas of both RayClusters: n, 2n, n/2, and n again."""
    subjects = (context.here, context.stock())
    given = context.here.replicas
    for replicas in (2 * given, given // 2):
        before = context.here.replicas
        context.mark(f"replicas: {before} → {replicas}")
        if replicas < before:
            for subject in subjects:
                context.permit(OPERATOR, *subject.good("worker"))
        else:
            context.permit_surplus(*subjects)
        since = time.time()
        for subject in subjects:
            context.set_replicas(subject, replicas)
        context.recover(
            {subject: ([], since) for subject in subjects}, limit=SECONDS, part=f"{before} → {replicas}", both=True
        )
    context.set_replicas(context.here, given)


DRILL: Final = Drill(
    name="workers-scaled",
    promise="A worker group doubles and then shrinks to half of its original size, each within "
    f"{SECONDS} s. While it grows, no existing pod ends. (KubeRay chooses which pods end when it shrinks; sometimes "
    "it ends one too many and recreates it. `ops scale` names the pods instead.)",
    play=play,
    context=ClusterDrillContext,
)
