"""Run `cdk destroy` for the stacks of a plan, and follow them in CloudFormation.

A deletion needs no templates: the CLI gets an assembly that only names the stacks. So a destroy works without charts,
and whatever the environment's file has become since the deployment.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from config import Environment, naming
from ops import stacks
from ops.destroy.plan import DestroyPlan
from ops.stacks import DeployedStack

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_MANIFEST_VERSION: Final = "36.0.0"
"""The version of the cloud assembly's schema (aws-cdk: cloud-assembly-schema); the CLI reads earlier ones, too."""
_TAIL_LINES: Final = 25
_WORDS: Final = {"DELETE_IN_PROGRESS": "is being deleted", "DELETE_COMPLETE": "deleted", "DELETE_FAILED": "failed"}

Print = Callable[[str], None]


class DestroyFailedError(Exception):
    """The destroy ended before every stack was gone; the message says which stack is left and why."""


def carry_out(
    environment: Environment,
    plan: DestroyPlan,
    cloudformation: Any,
    say: Print,
    *,
    interval: float = 5,
) -> None:
    """Destroy the plan's stacks; print each change of a stack's state with the elapsed seconds.

    A repeated run resumes the last one: CloudFormation knows what is left. After Ctrl-C, CloudFormation
    still finishes the deletions that it has begun.

    Args:
        environment: The environment.
        plan: What to destroy.
        cloudformation: A client.
        say: Prints a line.
        interval: Seconds between two looks at the stacks.

    Raises DestroyFailedError.
    """
    names = [each.stack.name for each in plan.going]
    started = time.monotonic()
    states = {each.stack.id: (each.stack.name, each.stack.status) for each in plan.going}

    def watch() -> None:
        for id, (name, before) in states.items():
            if (state := stacks.status(cloudformation, id)) != before:
                states[id] = name, state
                say(f"{time.monotonic() - started:6.0f} s  {name} {_WORDS.get(state, state)}")

    left = [each.stack for each in plan.going]
    while left:
        with tempfile.TemporaryDirectory(prefix="ops-destroy-") as assembly:
            write_assembly(Path(assembly), environment, left)
            code, tail = _destroy_once(_argv(assembly), watch, interval)
        before, left = left, [each for each in stacks.existing(cloudformation, environment) if each.name in names]
        while any(stack.is_being_deleted for stack in left):
            # The CLI gives up on a stack whose deletion another process began, as a run that was killed did.
            time.sleep(interval)
            watch()
            left = [each for each in stacks.existing(cloudformation, environment) if each.name in names]
        stands_still = {stack.id for stack in left} == {stack.id for stack in before}
        if left and (stands_still or any(stack.status == "DELETE_FAILED" for stack in left)):
            cause = _cause(left, cloudformation) or f"`cdk destroy` ended with code {code}:\n{tail}"
            names_left = ", ".join(f"{stack.name} ({stack.status})" for stack in left)
            raise DestroyFailedError(
                f"stacks are left: {names_left}. Fix: remove the cause, then rerun the command\n{cause}"
            )


def write_assembly(folder: Path, environment: Environment, going: Sequence[DeployedStack]) -> None:
    """Write a cloud assembly of these stacks without their resources: who deletes them, and in which order."""
    names = {stack.part: stack.name for stack in going}
    artifacts = {
        name: {
            "type": "aws:cloudformation:stack",
            "environment": f"aws://{environment.account}/{environment.region}",
            "dependencies": [names[used] for used in _used(part) if used in names],
            "properties": {
                "templateFile": "empty.json",
                "validateOnSynth": False,
                "assumeRoleArn": naming.bootstrap_role(environment, "deploy"),
                "cloudFormationExecutionRoleArn": naming.bootstrap_role(environment, "cfn-exec"),
            },
        }
        for part, name in names.items()
    }
    (folder / "empty.json").write_text("{}")
    (folder / "manifest.json").write_text(json.dumps({"version": _MANIFEST_VERSION, "artifacts": artifacts}))


def _used(part: str) -> set[str]:
    """Return every stack that a stack uses, directly or not: one between them may be gone already."""
    return {part for used in naming.USES[part] for part in (used, *_used(used))}


def _destroy_once(argv: Sequence[str], watch: Callable[[], None], interval: float) -> tuple[int, str]:
    """Run the CLI to its end, and `watch` every `interval` seconds; return its exit code and last lines."""
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            argv,
            cwd=_REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while child.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(interval)
                watch()
        except BaseException:
            # Its own children are in its session and end with it.
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()
            raise
        output.seek(0)
        return child.returncode, "\n".join(output.read().decode(errors="replace").splitlines()[-_TAIL_LINES:])


def _argv(assembly: str) -> list[str]:
    own = ["--app", assembly, "--concurrency", "3", "--no-color", "--no-notices"]
    return [sys.executable, "-m", "ops.cdk", "destroy", "--all", "--force", *own]


def _cause(left: Sequence[DeployedStack], cloudformation: Any) -> str:
    """Return why stacks could not be deleted, a line each; "" if CloudFormation does not know."""
    return "\n".join(
        f"{stack.name}: {reason}"
        for stack in left
        if stack.status == "DELETE_FAILED"
        for reason in stacks.failures(cloudformation, stack) or [stack.reason]
    )
