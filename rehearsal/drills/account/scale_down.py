"""Drill: an instance group shrinks while a RayCluster runs on it."""

from functools import partial
from typing import Final

from rehearsal.drills.context import DrillContext
from rehearsal.drills.drill import Drill
from rehearsal.run.cluster import has, is_whole, wait_for
from rehearsal.run.steps import RehearsalError


def play(context: DrillContext) -> None:
    """Halve the worker group with `ops scale`, then lower the count in the environment file and deploy."""
    group = context.environment.hyperpod.instance_groups[-1]
    ray = context.environment.ray.clusters[0]
    wanted = group.count // 2
    context.deploy()
    context.ops("wait", "--timeout", "15m", "--interval", "1s")
    cluster = context.rehearsal.cluster()
    before = cluster.ray_pod_names(ray.name)

    context.ops("scale", group.name, str(wanted), "--yes", "--timeout", "5m")

    with context.step("exactly the expected workers still run") as step:
        nodes = wait_for("the smaller group", partial(cluster.group_nodes, group.name), has(wanted))
        wait_for("the smaller RayCluster", partial(cluster.ray_status, ray.name), is_whole(wanted))
        after = cluster.ray_pod_names(ray.name)
        if surplus := after - before:
            raise RehearsalError(f"no pod may be recreated; {', '.join(sorted(surplus))} was")
        step.see(f"{len(nodes)} nodes, {len(after)} Ray pods, none of them new")

    with context.step("the count is lowered in the environment file as `ops scale` said, and deployed") as step:
        context.grow_workers(wanted - group.count)
        calls = context.calls("UpdateCluster")
        context.rehearsal.deploy_stacks()
        if cluster.ray_pod_names(ray.name) != after or context.calls("UpdateCluster") != calls:
            raise RehearsalError("the deployment must change nothing: no UpdateCluster, no changed pod")
        step.see("no UpdateCluster was sent, no pod changed")


DRILL: Final = Drill(
    name="scale-down",
    promise="`ops scale` removes only the nodes that it drained; Ray's workers on other nodes keep running, and "
    "the next deployment changes nothing.",
    play=play,
    context=DrillContext,
)
