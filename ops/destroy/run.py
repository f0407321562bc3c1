"""Run `cdk destroy` for the stacks of a plan, and follow them in CloudFormation."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from config import Environment
from ops.destroy import stacks
from ops.destroy.plan import Plan
from ops.destroy.stacks import Stack

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_TAIL_LINES: Final = 25
_WORDS: Final = {"DELETE_IN_PROGRESS": "is being deleted", "DELETE_COMPLETE": "deleted", "DELETE_FAILED": "failed"}

Print = Callable[[str], None]


class DestroyFailedError(Exception):
    """The destroy ended before every stack was gone; the message says which stack is left and why."""


def carry_out(
    environment: Environment,
    plan: Plan,
    cloudformation: Any,
    say: Print,
    *,
    context: Mapping[str, str],
    interval: float = 5,
) -> None:
    """Destroy the plan's stacks; print each change of a stack's state with the elapsed seconds.

    A repeated run goes on where the last one ended: CloudFormation knows what is left. After Ctrl-C, CloudFormation
    still finishes the deletions that it has begun.

    Raises DestroyFailedError.
    """
    names = [each.stack.name for each in plan.going]
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            _argv(environment, names, context),
            cwd=_REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _follow(child, [each.stack for each in plan.going], cloudformation, say, interval)
        except BaseException:
            # Its own children (the synthesis) are in its session and end with it.
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()
            raise
        left = [each for each in stacks.existing(cloudformation, environment) if each.name in names]
        if child.returncode or left:
            raise DestroyFailedError(_failure(environment, left, cloudformation, _tail(output), child.returncode))


def _argv(environment: Environment, names: Sequence[str], context: Mapping[str, str]) -> list[str]:
    given = [part for key, value in context.items() for part in ("--context", f"{key}={value}")]
    own = ["--context", f"environment={environment.name}", "--concurrency", "3", "--no-color", "--no-notices"]
    return [sys.executable, "-m", "ops.cdk", "destroy", *names, "--force", *own, *given]


def _follow(
    child: subprocess.Popen[bytes], going: Sequence[Stack], cloudformation: Any, say: Print, interval: float
) -> None:
    started = time.monotonic()
    states = {stack.id: stack.status for stack in going}
    ended = False
    while not ended:
        # Looks once more after the CLI's end.
        ended = child.poll() is not None
        for stack in going:
            [found] = cloudformation.describe_stacks(StackName=stack.id)["Stacks"]
            state = found["StackStatus"]
            if state != states[stack.id]:
                states[stack.id] = state
                say(f"{time.monotonic() - started:6.0f} s  {stack.name} {_WORDS.get(state, state)}")
        if not ended:
            try:
                child.wait(interval)
            except subprocess.TimeoutExpired:
                continue


def _failure(environment: Environment, left: Sequence[Stack], cloudformation: Any, tail: str, code: int | None) -> str:
    again = f"Fix: remove the cause, then rerun `ops destroy --env {environment.name}`"
    reasons = [
        f"{stack.name} {stack.status}: {reason}"
        for stack in left
        for reason in stacks.failures(cloudformation, stack) or ([stack.reason] if stack.reason else [])
    ]
    if reasons:
        return f"stacks are left. {again}\n" + "\n".join(reasons)
    names = f"; left: {', '.join(stack.name for stack in left)}" if left else ""
    return f"`cdk destroy` ended with code {code}{names}. {again}. Its last lines:\n{tail}"


def _tail(output: IO[bytes]) -> str:
    output.seek(0)
    return "\n".join(output.read().decode(errors="replace").splitlines()[-_TAIL_LINES:])
