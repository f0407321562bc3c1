"""Drill: somebody deletes the head's pod."""

import time
from typing import Final

from rehearsal.drills.cluster.auditor import ADMINISTRATOR
from rehearsal.drills.cluster.stage import MARGIN_SECONDS, ClusterStage
from rehearsal.drills.drill import Drill


def play(stage: ClusterStage) -> None:
    """Delete the head's pod, at once."""
    sides = (stage.here, stage.stock())
    stage.mark("the head's pod is deleted")
    since = time.time()
    heads = {side: side.a("head") for side in sides}
    for head in heads.values():
        stage.permit(ADMINISTRATOR, head)
        stage.delete_at_once(head)
    stage.recover({side: ([head], since) for side, head in heads.items()}, limit=MARGIN_SECONDS)


DRILL: Final = Drill(
    name="head-lost",
    promise=f"The head's pod is lost: KubeRay makes a new one within {MARGIN_SECONDS} s, and no worker's pod goes. "
    "(Jobs end with the head; that Ray's workers start anew in their pods is not rehearsed here.)",
    play=play,
    stage=ClusterStage,
)
