"""Drill: an instance group gets smaller while a RayCluster runs on it."""

from functools import partial
from typing import Final

from rehearsal.drills.context import DrillContext
from rehearsal.drills.drill import Drill
from rehearsal.run.cluster import has, is_whole, wait_for
from rehearsal.run.steps import RehearsalError


def play(context: DrillContext) -> None:
    """Half the worker group with `ops scale`, then lower the environment file and deploy."""
    group = context.environment.hyperpod.instance_groups[-1]
    ray = context.environment.ray.clusters[0]
    wanted = group.count // 2
    context.deploy()
    context.ops("wait", "--timeout", "5", "--interval", "1")
    cluster = context.rehearsal.cluster()
    before = cluster.ray_pod_names(ray.name)

    # No container runs here: the head cannot say whether a job does, which must be reason enough.
    printed = context.ops("scale", group.name, str(wanted), "--yes", expect=(1,))
    if "--force" not in printed:
        raise RehearsalError(
            "`ops scale` must not touch workers of a head that does not say what runs, without --force"
        )
    printed = context.ops("scale", group.name, str(wanted), "--yes", "--force", "--timeout", "5")

    with context.step("the workers that were to stay are those that run") as step:
        nodes = wait_for("the smaller group", partial(cluster.group_nodes, group.name), has(wanted))
        wait_for("the smaller RayCluster", partial(cluster.ray_status, ray.name), is_whole(wanted))
        after = cluster.ray_pod_names(ray.name)
        if surplus := after - before:
            raise RehearsalError(f"no pod may be made anew, {', '.join(sorted(surplus))} was")
        step.see(f"{len(nodes)} nodes, {len(after)} Ray pods, all from before")

    with context.step("the environment file is lowered as `ops scale` said, and deployed") as step:
        context.grow_workers(wanted - group.count)
        calls = context.calls("UpdateCluster")
        context.rehearsal.deploy_stacks()
        if cluster.ray_pod_names(ray.name) != after or context.calls("UpdateCluster") != calls:
            raise RehearsalError("the deployment must find everything as it wants it: no UpdateCluster, no changed pod")
        step.see("no UpdateCluster was sent, no pod changed")


DRILL: Final = Drill(
    name="scale-down",
    promise="`ops scale` takes away the nodes that it drained and no other; Ray's workers elsewhere keep running, and "
    "the deployment that follows changes nothing.",
    play=play,
    context=DrillContext,
)
