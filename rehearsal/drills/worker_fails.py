"""Drill: the kubelet evicts a worker's pod, which is then Failed."""

import time
from typing import Final

from rehearsal.drills.cluster.context import MARGIN_SECONDS, ClusterDrillContext
from rehearsal.drills.drill import Drill


def play(context: ClusterDrillContext) -> None:
    """Let a worker's pod fail."""
    subjects = (context.here, context.stock())
    context.mark("a worker's pod is Failed: its kubelet evicted it")
    since = time.time()
    failed = {subject: subject.a("worker") for subject in subjects}
    context.permit_surplus(*subjects)
    for pod in failed.values():
        context.fail(pod)
    context.recover({subject: ([pod], since) for subject, pod in failed.items()}, limit=MARGIN_SECONDS)


DRILL: Final = Drill(
    name="worker-fails",
    promise=f"A worker's pod is Failed: KubeRay replaces only this pod, within {MARGIN_SECONDS} s.",
    play=play,
    context=ClusterDrillContext,
)
