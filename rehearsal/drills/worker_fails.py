"""Drill: the kubelet evicts a worker's pod, which is Failed then."""

import time
from typing import Final

from rehearsal.drills.cluster.stage import MARGIN_SECONDS, ClusterStage
from rehearsal.drills.drill import Drill


def play(stage: ClusterStage) -> None:
    """Let a worker fail."""
    sides = (stage.here, stage.stock())
    stage.mark("a worker's pod is Failed: its kubelet evicted it")
    since = time.time()
    failed = {side: side.a("worker") for side in sides}
    for pod in failed.values():
        stage.fail(pod)
    stage.recover({side: ([pod], since) for side, pod in failed.items()}, limit=MARGIN_SECONDS)


DRILL: Final = Drill(
    name="worker-fails",
    promise=f"A worker's pod is Failed: KubeRay replaces it, and no other, within {MARGIN_SECONDS} s.",
    play=play,
    stage=ClusterStage,
)
