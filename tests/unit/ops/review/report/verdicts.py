"""Verdicts to draw, with the words that rules use."""

from dataclasses import replace
from typing import Any

from ops.review.model import Change, ComparedRow, Danger, Difference, Effect, EnvironmentVerdict, StandingCosts, Verdict

DIGEST = "9f86d081" * 8


def change(title: str, what: str, effect: Effect, **more: Any) -> Change:
    return Change("hyperpod", more.pop("resource", title), title, what, effect, digest=DIGEST, **more)


def five_changes(environment: str) -> tuple[Change, ...]:
    """Return the changes that a reviewer must understand from the table alone."""
    return (
        change(
            "file system",
            "throughput 250 → 500 MB/s per TiB",
            Effect.DATA_LOST,
            resource="AWS::FSx::FileSystem FileSystem",
            reason="A new file system is empty, and the old one is deleted.",
            action="Operator, before the deployment: save the data.",
            dangers=frozenset({Danger.DATA_LOSS}),
        ),
        change(
            "instance group worker-group-2",
            "removed with its 4 nodes",
            Effect.NODES_REMOVED,
            resource="InstanceGroup worker-group-2",
            reason="HyperPod does not drain the nodes.",
            action=f"Operator, before the deployment: run `ops scale worker-group-2 0 --env {environment}`.",
            dangers=frozenset({Danger.GROUP_REMOVED}),
            confirmed_by="hyperpod.confirm_group_removal",
        ),
        change(
            "instance group worker-group-3",
            "type ml.g5.8xlarge → ml.p5.48xlarge",
            Effect.REFUSED,
            reason="HyperPod cannot change a group's type.",
            action="Author: give the group another name.",
        ),
        change(
            "RayCluster ray/rayml",
            "image package torch 2.6.0 → 2.7.0",
            Effect.NEEDS_ROLLOUT,
            reason="KubeRay keeps running pods.",
            action=f"Operator, after the deployment: run `ops rollout rayml --env {environment}`.",
        ),
        change("instance group worker-group-1", "count 4 → 5", Effect.IN_PLACE, reason="HyperPod adds one node."),
    )


def everything(name: str, *, times: int = 1, lines: int = 3) -> EnvironmentVerdict:
    """Return an environment with changes in everything."""
    return EnvironmentVerdict(
        name,
        tuple(_numbered(each, number) for number in range(times) for each in five_changes(name)),
        StandingCosts(98.32, 8, ("KMS key",)),
        StandingCosts(122.90, 10, ("KMS key",)),
        (
            ComparedRow(
                "worker-group-1", {"type": "ml.g5.8xlarge", "count": "4"}, {"type": "ml.g5.8xlarge", "count": "5"}
            ),
        )
        * times,
        (ComparedRow("ray/rayml", {"replicas": "4"}, {"replicas": "5"}),) * times,
        ("role `RayRole` may now delete objects in the data bucket",) * times,
        (Difference("RayCluster ray/rayml", "\n".join(["@@ -1,3 +1,3 @@", *["-replicas: 4\n+replicas: 5"] * lines])),)
        * times,
    )


def _numbered(each: Change, number: int) -> Change:
    return replace(each, title=f"{each.title} {number}", resource=f"{each.resource} {number}") if number else each


def verdict(*environments: EnvironmentVerdict, notes: tuple[str, ...] = ()) -> Verdict:
    return Verdict(environments, notes)
