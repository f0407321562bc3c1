"""Drill: the API server is killed and restarted; then a worker fails."""

import time
from typing import Final

from rehearsal.drills.cluster.context import MARGIN_SECONDS, ClusterDrillContext
from rehearsal.drills.cluster.subject import names, wait
from rehearsal.drills.drill import Drill
from rehearsal.run.steps import RehearsalError

AWAY_SECONDS: Final = 2
# Operator and scheduler retry after a pause that grows while the API server does not answer.
PAUSE_SECONDS: Final = 15


def play(context: ClusterDrillContext) -> None:
    """Kill the API server, restart it, and check that everything that uses it still works."""
    # On a slow machine all nodes are lost for a moment, and Kubernetes gives the really lost ones another 300 seconds.
    context.wait_for_stock()
    subjects = (context.here, context.stock())
    before = {subject: set(names(subject.pods())) for subject in subjects}
    context.permit_surplus(*subjects)
    context.mark(f"the API server is killed, and restarted {AWAY_SECONDS} s later")
    context.cluster.plane.restart_api_server(down=AWAY_SECONDS)
    context.mark("the API server answers")
    for subject in subjects:
        wait(f"{subject.name}, complete after the restart", subject.is_whole)
    context.mark("a worker's pod is Failed")
    since = time.time()
    failed = {subject: subject.a("worker") for subject in subjects}
    for pod in failed.values():
        context.fail(pod)
    context.recover({subject: ([pod], since) for subject, pod in failed.items()}, limit=PAUSE_SECONDS + MARGIN_SECONDS)
    here = context.here
    if missing := before[here] - set(names(here.pods())) - set(names([failed[here]])):
        raise RehearsalError(f"only the failed worker may be replaced; {', '.join(sorted(missing))} was replaced, too")


DRILL: Final = Drill(
    name="api-server-restarts",
    promise="The API server restarts: no existing pod ends because of that, and a worker that fails afterwards is "
    f"replaced within {PAUSE_SECONDS + MARGIN_SECONDS} s.",
    play=play,
    context=ClusterDrillContext,
)
