"""Drill: HyperPod labels nodes for replacement, and later replaces them."""

import time
from typing import Final

from config.labels import NODE_HEALTH_LABEL
from k8s_charts.ray.pods import GRACE_SECONDS
from rehearsal.drills.cluster.stage import MARGIN_SECONDS, ClusterStage
from rehearsal.drills.drill import Drill

REPLACE: Final = "UnschedulablePendingReplacement"


def play(stage: ClusterStage) -> None:
    """Label the nodes of two workers, one of which does not end its pod any more; then replace both nodes."""
    sides = (stage.here, stage.stock())
    workers = {side: side.good("worker")[:2] for side in sides}
    sick = {side: [pod["spec"]["nodeName"] for pod in pods] for side, pods in workers.items()}
    stage.mark(f"two workers' nodes are labelled {REPLACE}; one is silent besides")
    labelled = time.time()
    for in_order, silent in sick.values():
        stage.nodes.stop_heartbeat(silent)
        for node in (in_order, silent):
            stage.nodes.set_label(node, NODE_HEALTH_LABEL, REPLACE)
    stage.recover({side: (workers[side], labelled) for side in sides}, limit=GRACE_SECONDS + MARGIN_SECONDS)
    stage.mark("the nodes are replaced: the old ones go, new ones join")
    for node in (node for nodes in sick.values() for node in nodes):
        stage.nodes.remove(node)
    stage.join_workers(len(sick[stage.here]))


DRILL: Final = Drill(
    name="node-replaced",
    promise=f"HyperPod labels nodes {REPLACE}: the RayCluster is whole again {GRACE_SECONDS} + {MARGIN_SECONDS} s "
    "after the label at the latest, also where a node no longer ends its pod, and before the node is replaced.",
    play=play,
    stage=ClusterStage,
)
