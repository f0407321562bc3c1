"""Drill: an administrator deletes the head's pod."""

import time
from typing import Final

from rehearsal.drills.cluster.auditor import ADMINISTRATOR
from rehearsal.drills.cluster.context import MARGIN_SECONDS, ClusterDrillContext
from rehearsal.drills.drill import Drill


def play(context: ClusterDrillContext) -> None:
    """Delete the head's pod without a grace period."""
    subjects = (context.here, context.stock())
    context.mark("the head's pod is deleted")
    since = time.time()
    heads = {subject: subject.a("head") for subject in subjects}
    for head in heads.values():
        context.permit(ADMINISTRATOR, head)
        context.delete_at_once(head)
    context.recover({subject: ([head], since) for subject, head in heads.items()}, limit=MARGIN_SECONDS)


DRILL: Final = Drill(
    name="head-lost",
    promise=f"The head's pod is lost: KubeRay creates a new one within {MARGIN_SECONDS} s, and no worker's pod ends. "
    "(Jobs end with the head; the restart of Ray's workers in their pods is not rehearsed here.)",
    play=play,
    context=ClusterDrillContext,
)
