"""Drill: HyperPod refuses the cluster, first because a chart is missing, then because of a quota."""

from typing import Any, Final

from k8s_charts.helm.hyperpod_dependencies import hyperpod_dependencies_release
from rehearsal.drills.context import DrillContext
from rehearsal.drills.drill import Drill
from rehearsal.run.steps import RehearsalError

STACK: Final = "hyperpod"
_LONGEST_REASON_CHARACTERS: Final = 500
"""The largest number of characters of a readable reason."""


def play(context: DrillContext) -> None:
    """Let the deployment of the hyperpod stack fail twice. Each time the reason must be shown, and nothing left."""
    context.without(STACK)
    context.deploy("network", "storage", "eks")
    before = context.inventory()
    release = hyperpod_dependencies_release(region=context.environment.region)
    context.helm("uninstall", release.name, "--namespace", release.namespace, "--keep-history")
    try:
        _fails(context, before, "missing one or more required dependencies")
    finally:
        context.helm("rollback", release.name, "1", "--namespace", release.namespace)

    worker_type = context.environment.hyperpod.instance_groups[-1].instance_type
    context.faults(f"the account's quota of {worker_type} is 0", quota={worker_type: 0})
    try:
        _fails(context, before, "ResourceLimitExceeded")
    finally:
        context.faults(f"the account's quota of {worker_type} is raised", quota={worker_type: None})


def _fails(context: DrillContext, before: list[dict[str, Any]], reason: str) -> None:
    printed = context.failing_deploy(STACK)
    context.stack_events(STACK, _is_telling)
    with context.step("the reason is readable, and nothing is left") as step:
        step.see(f"the CLI's reason: {readable(printed, reason)}")
        if (status := context.stack_status(STACK)) != "ROLLBACK_COMPLETE":
            raise RehearsalError(f"the stack must be rolled back; it is {status}")
        step.see(f"{context.stack(STACK)}: {status}, an empty stack that the next `cdk deploy` removes")
        left, background = left_behind(before, context.inventory(), context.stack(STACK))
        if left:
            raise RehearsalError(f"the failed deployment left {', '.join(left)}")
        step.see(f"left: {', '.join(background) or 'nothing'}")


def readable(printed: str, reason: str) -> str:
    """Return the message in the CLI's last words on the failure, as one line.

    Raises RehearsalError unless it contains `reason` and is readable.
    """
    _, _, last_words = printed.partition("❌")
    message = " ".join(last_words.partition("Message returned:")[2].partition("\n\n")[0].split())
    if reason not in message:
        raise RehearsalError(f"the CDK CLI must say {reason!r}; its last output is\n{last_words or printed[-2000:]}")
    if len(message) > _LONGEST_REASON_CHARACTERS or "Traceback" in message:
        raise RehearsalError(f"the reason must be short; it is: {message}")
    return message


def left_behind(before: list[dict[str, Any]], after: list[dict[str, Any]], stack: str) -> tuple[list[str], list[str]]:
    """Return new resources: those that somebody must remove, and those that AWS created and keeps on its own.

    The record of the rolled-back stack itself is in neither list.
    """
    known = {(item["type"], item["id"]) for item in before} | {("AWS::CloudFormation::Stack", stack)}
    new = [item for item in after if (item["type"], item["id"]) not in known]
    described = [(item["owner"], f"{item['type'].removeprefix('AWS::')} {item['id']} ({item['note']})") for item in new]
    own = [what for owner, what in described if not owner.startswith("background:") and owner != "bootstrap"]
    return own, [what for owner, what in described if owner.startswith("background:")]


def _is_telling(event: dict[str, Any]) -> bool:
    of_the_stack = event["ResourceType"] == "AWS::CloudFormation::Stack"
    return of_the_stack or (event["ResourceStatus"].endswith("_FAILED") and "Cancelled" not in str(event))


DRILL: Final = Drill(
    name="create-fails",
    promise="A cluster that cannot be created (no dependencies chart; ResourceLimitExceeded) is rolled back: the CDK "
    "CLI shows the reason, and nothing is left.",
    play=play,
    context=DrillContext,
)
