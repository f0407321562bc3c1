"""Drill: HyperPod labels nodes for replacement, and later replaces them."""

import time
from typing import Final

from config.labels import NODE_HEALTH_LABEL
from k8s_charts.ray.pods import GRACE_SECONDS
from rehearsal.drills.cluster.context import MARGIN_SECONDS, ClusterDrillContext
from rehearsal.drills.drill import Drill

REPLACE: Final = "UnschedulablePendingReplacement"


def play(context: ClusterDrillContext) -> None:
    """Label the nodes of two workers, one of which can no longer end its pod; then replace both nodes."""
    subjects = (context.here, context.stock())
    workers = {subject: subject.good("worker")[:2] for subject in subjects}
    sick = {subject: [pod["spec"]["nodeName"] for pod in pods] for subject, pods in workers.items()}
    context.mark(f"two workers' nodes are labelled {REPLACE}; one of them is also silent")
    labelled = time.time()
    for in_order, silent in sick.values():
        context.nodes.stop_heartbeat(silent)
        for node in (in_order, silent):
            context.nodes.set_label(node, NODE_HEALTH_LABEL, REPLACE)
    context.recover(
        {subject: (workers[subject], labelled) for subject in subjects}, limit=GRACE_SECONDS + MARGIN_SECONDS
    )
    context.mark("the nodes are replaced: the old ones are removed, new ones join")
    for node in (node for nodes in sick.values() for node in nodes):
        context.nodes.remove(node)
    context.join_workers(len(sick[context.here]))


DRILL: Final = Drill(
    name="node-replaced",
    promise=f"HyperPod labels nodes {REPLACE}: the RayCluster is complete again at most {GRACE_SECONDS} + "
    f"{MARGIN_SECONDS} s after the label, also if a node can no longer end its pod, and before the node is replaced.",
    play=play,
    context=ClusterDrillContext,
)
