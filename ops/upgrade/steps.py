"""Carry out an upgrade: show the plan, ask, write the file, then go step by step.

Each step reads its state from what is deployed, so that rerunning the command resumes an interrupted upgrade.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Final

import config
from config import EksEnvironment, naming
from config.facts.versions import SetName
from config.findings import shown
from config.load import DIRECTORY, DIRECTORY_VARIABLE
from ops import files
from ops.change import rollout as rollouts
from ops.change.ray_clusters import until
from ops.change.saving import jobs_to_save, save
from ops.cli import confirmed
from ops.clients import CallerAccount, Clients, connect
from ops.errors import RefusedError, in_plain_words
from ops.readiness.item import ReadinessState
from ops.readiness.one_off_jobs import image
from ops.upgrade.file import with_set
from ops.upgrade.plan import STACK_OF, StepName, UpgradePlan, plan, words

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_TAIL: Final = 3000
Print = Callable[[str], None]


class UpgradeFailedError(Exception):
    """A step failed; the message says which one, and that rerunning the command resumes."""


@dataclass(frozen=True)
class FileEdit:
    """The environment's file before and after."""

    file: Path
    before: str
    after: str

    @property
    def is_needed(self) -> bool:
        """Return whether the file changes."""
        return self.before != self.after

    def lines(self) -> list[str]:
        """Return the lines that leave (`-`) and come (`+`)."""
        found = unified_diff(self.before.splitlines(), self.after.splitlines(), lineterm="", n=0)
        return [line for line in found if not line.startswith(("---", "+++", "@@"))]

    def write(self) -> None:
        """Replace the file as a whole."""
        files.write(self.file, self.after, newline="")


@dataclass(frozen=True)
class PlannedUpgrade:
    """An upgrade that can be carried out; `assembly` is the folder of its synthesis."""

    edit: FileEdit
    plan: UpgradePlan
    clients: Clients
    assembly: Path

    @property
    def name(self) -> str:
        """Return the environment's name."""
        return self.plan.environment.name


@contextmanager
def planned(environment: EksEnvironment, to: SetName | None) -> Iterator[PlannedUpgrade]:
    """Yield the upgrade of a deployed environment to a set of versions, or to what its file says; change nothing.

    Raises RefusedError, UnreachableError, ConfigError if the file would be invalid, and UpgradeFailedError if it
    cannot be synthesised.
    """
    account = CallerAccount(environment)
    edit = _edit(environment, to)
    with tempfile.TemporaryDirectory(prefix="ops-upgrade-") as scratch:
        environments = Path(scratch, "environments")
        shutil.copytree(DIRECTORY, environments, ignore=lambda _, names: [n for n in names if not n.endswith(".yaml")])
        with (environments / edit.file.name).open("w", encoding="utf-8", newline="") as file:
            file.write(edit.after)
        wanted = config.load(environment.name, environments)
        with connect(wanted, account) as clients, in_plain_words():
            assembly = _synthesised(wanted, environments, Path(scratch, "cdk.out"))
            yield PlannedUpgrade(edit, plan(wanted, clients, assembly), clients, assembly)


def describe(made: PlannedUpgrade) -> Iterator[str]:
    """Yield the plan, one line each."""
    steps = made.plan.steps
    yield f"{made.name}: {', '.join(words(made.plan.deployed, made.plan.wanted)) or 'the versions stay'}"
    if made.edit.is_needed:
        yield f"{shown(made.edit.file)}:"
        yield from (f"  {line}" for line in made.edit.lines())
    for number, step in enumerate(steps, start=1):
        yield f"{number}. {step.what}"
        yield f"   jobs: {step.jobs}"
        yield f"   data: {step.data}"
        yield f"   bill: {step.bill}"
        yield f"   as by `{step.command}`"
    if made.plan.others:
        differing = ", ".join(made.plan.others)
        yield f"no step deploys {differing}, which differ too: `cdk diff -c environment={made.name}`"


def document(made: PlannedUpgrade) -> dict[str, object]:
    """Return the plan as data for programs."""
    return {
        "environment": made.name,
        "file": {"name": made.edit.file.name, "changes": made.edit.lines()},
        "deployed": _data(made.plan.deployed.kubernetes, made.plan.deployed.kuberay, made.plan.deployed.ray),
        "wanted": _data(made.plan.wanted.kubernetes, made.plan.wanted.kuberay, made.plan.wanted.ray),
        "steps": [
            {
                "step": step.name.value,
                "what": step.what,
                "command": step.command,
                "jobs": step.jobs,
                "data": step.data,
                "bill": step.bill,
            }
            for step in made.plan.steps
        ],
        "others": list(made.plan.others),
    }


def _data(kubernetes: str, kuberay: str, ray: Sequence[str]) -> dict[str, object]:
    return {"kubernetes": kubernetes, "kuberay": kuberay, "ray": list(ray)}


def upgrade(
    environment: EksEnvironment,
    to: SetName | None,
    say: Print,
    *,
    yes: bool,
    force: bool,
    checkpoint: bool,
    timeout: float,
    interval: float = 5,
) -> None:
    """Show the plan, ask, and carry it out within `timeout` seconds, without the time of the deployments.

    Raises RefusedError, UpgradeFailedError, UnreachableError and ConfigError.
    """
    with planned(environment, to) as made:
        for line in describe(made):
            say(line)
        if not made.plan.steps and not made.edit.is_needed:
            say(f"{made.name}: nothing is left to do")
            return
        jobs_to_save(made.clients, set(made.plan.replaced), say, force=force, checkpoint=checkpoint)
        if not yes and not confirmed("Continue?"):
            raise RefusedError("not confirmed: nothing was changed. Fix: answer y, or give --yes")
        if made.edit.is_needed:
            made.edit.write()
            say(f"{shown(made.edit.file)} written")
        for number, step in enumerate(made.plan.steps, start=1):
            say(f"{number} of {len(made.plan.steps)}: {step.what}")
            if step.name is StepName.PODS:
                _replace_pods(made, say, force=force, checkpoint=checkpoint, timeout=timeout, interval=interval)
            else:
                _deploy(made, STACK_OF[step.name])
            if step.name is StepName.RAY:
                _wait_for_image(made, say, timeout=timeout, interval=interval)
        say(f"done. `ops wait --env {made.name}` shows whether everything is ready")


def _edit(environment: EksEnvironment, to: SetName | None) -> FileEdit:
    """Return the change of the file. Raises RefusedError if the environment is an example."""
    if environment.name not in config.available():
        raise RefusedError(
            f"{environment.name} is an example, which is not deployed. Allowed: {', '.join(config.available())}"
        )
    file = config.file_of(environment.name)
    with file.open(encoding="utf-8", newline="") as stream:
        before = stream.read()
    return FileEdit(file, before, with_set(environment, before, to) if to else before)


def _synthesised(environment: EksEnvironment, environments: Path, out: Path) -> Path:
    """Synthesise an environment of this folder; return the assembly. Raises UpgradeFailedError."""
    argv = ["synth", "--quiet", "--output", str(out), "--context", f"environment={environment.name}"]
    # The tests validate templates; here it would take most of a synthesis' time.
    env = os.environ | {DIRECTORY_VARIABLE: str(environments), "CDK_VALIDATION": "false"}
    done = subprocess.run(_cdk(*argv), cwd=_REPOSITORY, env=env, text=True, capture_output=True, check=False)
    if done.returncode:
        output = (done.stdout + done.stderr)[-_TAIL:]
        raise UpgradeFailedError(f"`cdk synth` failed, nothing was changed. Fix: the cause that it names:\n{output}")
    return out


def _deploy(made: PlannedUpgrade, part: str) -> None:
    """Deploy a stack from the plan's own synthesis, and show what the CLI says. Raises UpgradeFailedError."""
    stack = naming.stack(made.plan.environment, part)
    argv = ["deploy", stack, "--exclusively", "--app", str(made.assembly), "--require-approval", "never"]
    if code := subprocess.run(_cdk(*argv, "--progress", "events"), cwd=_REPOSITORY, check=False).returncode:
        raise UpgradeFailedError(
            f"`cdk deploy {stack}` ended with code {code}; CloudFormation keeps or restores what was deployed. "
            "Fix: remove the cause above, then rerun the command to resume"
        )


def _cdk(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ops.cdk", *arguments, "--no-color", "--no-notices"]


def _wait_for_image(made: PlannedUpgrade, say: Print, *, timeout: float, interval: float) -> None:
    """Wait for the Ray image: new pods could not start before. Raises RefusedError and UpgradeFailedError."""

    def missing() -> str:
        item = image(made.plan.environment, made.clients)
        if item.state is ReadinessState.FAILED:
            raise UpgradeFailedError(
                f"the Ray image {item.name} is not built. Fix: build it, then rerun the command: {item.detail}"
            )
        return "" if item.state is ReadinessState.READY else f"the Ray image {item.name}: {item.detail}"

    if left := until(missing, say, deadline=time.monotonic() + timeout, interval=interval):
        raise RefusedError(f"{left}, not in time. Fix: rerun the command to resume")


def _replace_pods(
    made: PlannedUpgrade, say: Print, *, force: bool, checkpoint: bool, timeout: float, interval: float
) -> None:
    """Replace the pods with an old template; running jobs save first with `checkpoint`. Raises RefusedError."""
    plans = rollouts.plan_rollout(made.plan.environment, made.clients.kubernetes, None)
    needed = [each for each in plans if each.is_needed]
    places = {(each.live.namespace, each.live.name) for each in needed if each.restarts}
    save(jobs_to_save(made.clients, places, say, force=force, checkpoint=checkpoint), say)
    for each in needed:
        rollouts.carry_out(each, say, timeout=timeout, interval=interval)
