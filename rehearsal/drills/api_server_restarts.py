"""Drill: the API server is killed and comes back; then a worker fails."""

import time
from typing import Final

from rehearsal.drills.cluster.side import names, wait
from rehearsal.drills.cluster.stage import MARGIN_SECONDS, ClusterStage
from rehearsal.drills.drill import Drill
from rehearsal.story.steps import RehearsalError

AWAY_SECONDS: Final = 2
# Operator and scheduler ask again after a pause that grows while nobody answers.
PAUSE_SECONDS: Final = 15


def play(stage: ClusterStage) -> None:
    """Kill the API server, start it again, and look whether all that works through it still does."""
    # On a slow machine all nodes are lost for a moment, and Kubernetes gives those that really are a new 300 seconds.
    stage.wait_for_stock()
    sides = (stage.here, stage.stock())
    before = {side: set(names(side.pods())) for side in sides}
    stage.permit_surplus(*sides)
    stage.mark(f"the API server is killed, and started again {AWAY_SECONDS} s later")
    stage.cluster.plane.restart_api_server(down=AWAY_SECONDS)
    stage.mark("the API server answers")
    for side in sides:
        wait(f"{side.name}, whole after the restart", side.is_whole)
    stage.mark("a worker's pod is Failed")
    since = time.time()
    failed = {side: side.a("worker") for side in sides}
    for pod in failed.values():
        stage.fail(pod)
    stage.recover({side: ([pod], since) for side, pod in failed.items()}, limit=PAUSE_SECONDS + MARGIN_SECONDS)
    here = stage.here
    if missing := before[here] - set(names(here.pods())) - set(names([failed[here]])):
        raise RehearsalError(f"only the worker that failed may be replaced, {', '.join(sorted(missing))} was too")


DRILL: Final = Drill(
    name="api-server-restarts",
    promise="The API server restarts: no pod that was there ends because of that, and a worker that fails then is "
    f"replaced within {PAUSE_SECONDS + MARGIN_SECONDS} s.",
    play=play,
    stage=ClusterStage,
)
