"""Drill: an environment is paused, deployed, and resumed."""

import json
from functools import partial
from typing import Final

from config.estimates import costs
from rehearsal.drills.context import DrillContext
from rehearsal.drills.drill import Drill
from rehearsal.run.cluster import has, is_whole, wait_for
from rehearsal.run.steps import RehearsalError

_CENT: Final = 0.01


def play(context: DrillContext) -> None:
    """Pause; deploy, which must change nothing; pause once more; resume, and compare with the state before."""
    ray = context.environment.ray.clusters[0]
    groups = context.environment.hyperpod.instance_groups
    context.deploy()
    context.ops("wait", "--timeout", "15m", "--interval", "1s")
    before = _groups(context)

    printed = context.ops("pause", "--yes", "--timeout", "5m")
    for words in ("EKS control plane: 0.10", "per month"):
        if words not in printed:
            raise RehearsalError(f"`ops pause` must say what still costs ({words!r})")
    cluster = context.rehearsal.cluster()
    _costs(context, costs.paused(context.environment), "paused")
    with context.step("no HyperPod node is left, and a deployment changes nothing") as step:
        for group in groups:
            wait_for(f"no node of {group.name}", partial(cluster.group_nodes, group.name), has(0))
        calls = context.calls("UpdateCluster")
        context.rehearsal.deploy_stacks()
        if context.calls("UpdateCluster") != calls or any(_counts(context).values()):
            raise RehearsalError("a deployment of an unchanged template must keep the pause")
        step.see("no UpdateCluster was sent")
    if "paused" not in (printed := context.ops("status", expect=(1,))):
        raise RehearsalError(f"`ops status` must say that the RayCluster is paused:\n{printed}")
    if "is paused, waiting will not help" not in (printed := context.ops("wait", expect=(3,))):
        raise RehearsalError(f"`ops wait` must end at once and say that the environment is paused:\n{printed}")
    if "paused already" not in context.ops("pause", "--yes"):
        raise RehearsalError("a second pause must have nothing to do")

    context.ops("resume", "--yes", "--timeout", "15m", "--interval", "1s")
    _costs(context, costs.planned(context.environment), "resumed")
    with context.step("every node and every Ray pod is there again") as step:
        wait_for(
            "the RayCluster", partial(cluster.ray_status, ray.name), is_whole(sum(g.replicas for g in ray.workers))
        )
        if (after := _groups(context)) != before:
            raise RehearsalError(f"the instance groups must be as before: {before}, now {after}")
        step.see(", ".join(f"{name}: {count}" for name, count in _counts(context).items()))


def _costs(context: DrillContext, wanted: costs.Inventory, state: str) -> None:
    """Compare what `ops cost` finds in the account with the estimate; groups without nodes cost nothing."""
    live = json.loads(context.ops("cost", "--live", "-o", "json"))["live"]
    expected = sum(line.usd_per_hour or 0.0 for line in costs.priced(wanted))
    if abs(live["usd_per_hour"] - expected) > _CENT:
        raise RehearsalError(f"{state}, the environment costs {expected:.2f} per hour, not {live}")


def _groups(context: DrillContext) -> list[dict[str, object]]:
    """Return the instance groups as DescribeCluster shows them."""
    name = context.environment.hyperpod.cluster_name
    found: list[dict[str, object]] = context.rehearsal.account.client("sagemaker").describe_cluster(ClusterName=name)[
        "InstanceGroups"
    ]
    return found


def _counts(context: DrillContext) -> dict[str, int]:
    return {str(group["InstanceGroupName"]): int(str(group["TargetCount"])) for group in _groups(context)}


DRILL: Final = Drill(
    name="pause",
    promise="`ops pause` removes every HyperPod node and says what still costs, a deployment in between changes "
    "nothing, `ops resume` brings back the same instance groups and Ray's pods, and `ops cost` counts both.",
    play=play,
    context=DrillContext,
)
