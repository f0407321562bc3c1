"""Drill: an instance group gets smaller while a RayCluster runs on it."""

from functools import partial
from typing import Final

from rehearsal.drills.drill import Drill
from rehearsal.drills.stage import Stage
from rehearsal.story.cluster import has, is_whole, wait_for
from rehearsal.story.steps import RehearsalError


def play(stage: Stage) -> None:
    """Half the worker group with `ops scale`, then lower the environment file and deploy."""
    group = stage.environment.hyperpod.instance_groups[-1]
    ray = stage.environment.ray.clusters[0]
    wanted = group.count // 2
    stage.deploy()
    stage.ops("wait", "--timeout", "5", "--interval", "1")
    cluster = stage.story.cluster()
    before = cluster.ray_pod_names(ray.name)

    # No container runs here: the head cannot say whether a job does, which must be reason enough.
    printed = stage.ops("scale", group.name, str(wanted), "--yes", expect=(1,))
    if "--force" not in printed:
        raise RehearsalError(
            "`ops scale` must not touch workers of a head that does not say what runs, without --force"
        )
    printed = stage.ops("scale", group.name, str(wanted), "--yes", "--force", "--timeout", "5")

    with stage.step("the workers that were to stay are those that run") as step:
        nodes = wait_for("the smaller group", partial(cluster.group_nodes, group.name), has(wanted))
        wait_for("the smaller RayCluster", partial(cluster.ray_status, ray.name), is_whole(wanted))
        after = cluster.ray_pod_names(ray.name)
        if surplus := after - before:
            raise RehearsalError(f"no pod may be made anew, {', '.join(sorted(surplus))} was")
        step.see(f"{len(nodes)} nodes, {len(after)} Ray pods, all from before")

    with stage.step("the environment file is lowered as `ops scale` said, and deployed") as step:
        stage.grow_workers(wanted - group.count)
        calls = stage.calls("UpdateCluster")
        stage.story.deploy_stacks()
        if cluster.ray_pod_names(ray.name) != after or stage.calls("UpdateCluster") != calls:
            raise RehearsalError("the deployment must find everything as it wants it: no UpdateCluster, no changed pod")
        step.see("no UpdateCluster was sent, no pod changed")


DRILL: Final = Drill(
    name="scale-down",
    promise="`ops scale` takes away the nodes that it drained and no other; Ray's workers elsewhere keep running, and "
    "the deployment that follows changes nothing.",
    play=play,
    stage=Stage,
)
