"""Run the real CDK CLI, with nothing of the caller's environment."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Final

from config import Environment
from embedded_account.machine import cache_folders
from embedded_account.machine.isolation import search_path
from embedded_account.machine.processes import Child, ProcessError, ProcessSupervisor, end_with_parent
from embedded_account.paths import CDK_PRELOAD
from ops import sign_of_life
from rehearsal.paths import CACHE, NODE_MODULES, REPOSITORY
from rehearsal.report.breakdown import Spans
from rehearsal.run.kills import end_or_kill

_CLI: Final = NODE_MODULES / "aws-cdk" / "bin" / "cdk"
_LOCKS: Final = ("package-lock.json", "requirements.txt")
_LAST: Final = "cdk.out"
_NEXT: Final = "cdk.out.next"
_STILL_CHANGES: Final = re.compile(r"is in \w+_IN_PROGRESS state and can not be updated")
_DEPLOYED: Final = re.compile(r"^ *✅ +(\S+)$", re.MULTILINE)
"""The CLI's line for a stack that it changed; for others it adds `(no changes)` after the name."""


class DeployOutcome(Enum):
    """What came of a `cdk deploy` that may be killed.

    REFUSED: by CloudFormation, because a stack still changes, as one does that a killed run began.
    """

    DONE = auto()
    KILLED = auto()
    REFUSED = auto()


class CommandError(Exception):
    """A command of the rehearsal ended with an unexpected exit code; the message contains its last lines."""


def require_node() -> None:
    """Raise ProcessError if there is no Node: the CDK CLI and half of the Lambda functions run on it."""
    path = search_path()
    if not shutil.which("node", path=path):
        own = Path(path.split(os.pathsep)[1], "node")
        raise ProcessError(f"Node is missing: {own} does not exist and none is on PATH. Fix: `make setup`")


def kept_folders(cache: Path) -> dict[str, str]:
    """Return the variables of the folders that the CLI and its synthesis keep after a rehearsal, as in a user's home.

    Node never removes what it cached for other versions (130 MB), jsii only after a month (260 MB). The folder is
    therefore named after the lock files, and those of other lock files are removed unless another process uses them.
    """
    key = hashlib.sha256(b"".join((REPOSITORY / lock).read_bytes() for lock in _LOCKS)).hexdigest()[:16]
    cache_folders.hold(cache / key)
    cache_folders.prune(cache, [key])
    # jsii unpacks aws-cdk-lib for the first synthesis, which takes three seconds of a core.
    return {
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(cache / key / "jsii"),
        "NODE_COMPILE_CACHE": str(cache / key / "node"),
    }


class Cdk:
    """Runs `cdk` in the project's copy. Each run writes its output to its own log and its time to `spans`."""

    def __init__(
        self,
        project: Path,
        logs: Path,
        env: Mapping[str, str],
        *,
        context: Mapping[str, str],
        echo: Callable[[str], None],
        spans: Spans,
    ) -> None:
        self._project = project
        self._logs = logs
        self._env = {**env, **kept_folders(CACHE / "cdk")}
        self._context = [part for key, value in context.items() for part in ("--context", f"{key}={value}")]
        self._echo = echo
        self._spans = spans
        self._runs = 0

    def use(self, credentials: Mapping[str, str]) -> None:
        """Run the CLI with these credentials from now on."""
        self._env |= credentials

    def __call__(self, verb: str, *arguments: str, expect: Sequence[int] = (0,), again: bool = False) -> str:
        """Run `cdk verb arguments`; return its output.

        `again` reuses the last synthesis (`--app cdk.out`), for commands that change nothing in the environment. Raises
        CommandError if the exit code is not one of `expect`.
        """
        source = ["--app", _LAST] if again else self._context
        return self._run(self._project, verb, *arguments, *source, expect=expect)

    def deploy_or_kill(self, *arguments: str, seconds: float) -> DeployOutcome:
        """Run `cdk deploy` on the last synthesis, and kill it after `seconds`. Raises CommandError."""
        self._runs += 1
        log = self._logs / f"cdk-{self._runs:02}-deploy-killed.log"
        ended = end_or_kill(_argv("deploy", *arguments, "--app", _LAST), self._project, self._env, log, seconds)
        if ended is None:
            return DeployOutcome.KILLED
        if ended.code == 0:
            return DeployOutcome.DONE
        if _STILL_CHANGES.search(log.read_text()):
            return DeployOutcome.REFUSED
        raise CommandError(f"`cdk deploy`, run again, ended with exit code {ended.code}; its output: {log}")

    def bootstrap(self, environment: Environment, credentials: Mapping[str, str]) -> str:
        """Run `cdk bootstrap` with these credentials; return its output.

        It runs in a folder without an app, which the CLI would synthesise first.
        """
        company, own = environment.company, list[str]()
        if qualifier := company.bootstrap_qualifier:
            own += ["--qualifier", qualifier, "--toolkit-stack-name", f"CDKToolkit-{qualifier}"]
        if boundary := company.permissions_boundary:
            name = boundary.partition(":policy/")[2]
            own += ["--custom-permissions-boundary", name, "--apply-permissions-boundary-to-all-roles"]
        empty = self._project.parent / "no-app"
        empty.mkdir(exist_ok=True)
        where = f"aws://{environment.account}/{environment.region}"
        return self._run(empty, "bootstrap", where, *own, env={**self._env, **credentials})

    def begin_synthesis(self, supervisor: ProcessSupervisor) -> "Synthesis":
        """Start `cdk synth`, beside runs with `again`, which use the last synthesis until this one is finished."""
        argv = _argv("synth", "--quiet", "--output", _NEXT, *self._context)
        child = supervisor.start("cdk-synth", argv, self._env, ends_by_itself=True, cwd=self._project)
        return Synthesis(child, supervisor, self._spans, self._project)

    def _run(
        self,
        directory: Path,
        verb: str,
        *arguments: str,
        expect: Sequence[int] = (0,),
        env: Mapping[str, str] | None = None,
    ) -> str:
        self._runs += 1
        log = self._logs / f"cdk-{self._runs:02}-{verb}.log"
        started = time.time()
        try:
            return run(
                _argv(verb, *arguments), cwd=directory, env=env or self._env, log=log, echo=self._echo, expect=expect
            )
        finally:
            self._spans.commands.append((started, time.time()))
            if (synthesised := _last_synthesis(directory)) > started:
                self._spans.syntheses.append((started, synthesised))


class Synthesis:
    """A `cdk synth` that runs in parallel to other work."""

    def __init__(self, child: Child, supervisor: ProcessSupervisor, spans: Spans, directory: Path) -> None:
        self._child = child
        self._supervisor = supervisor
        self._spans = spans
        self._directory = directory
        self._began = time.time()

    def finish(self) -> None:
        """Wait for the synthesis to end; runs with `again` use it from then on. Raises CommandError if it failed."""
        code = self._child.wait()
        self._supervisor.stop(self._child)
        if code:
            raise CommandError(_failure("cdk synth", code, self._child.log, self._child.tail(25)))
        last = self._directory / _LAST
        shutil.rmtree(last, ignore_errors=True)
        (self._directory / _NEXT).rename(last)
        self._spans.syntheses.append((self._began, _last_synthesis(self._directory)))


def _argv(verb: str, *arguments: str) -> list[str]:
    return ["node", f"--require={CDK_PRELOAD}", str(_CLI), verb, *arguments, "--no-color", "--no-notices"]


def _last_synthesis(directory: Path) -> float:
    """Return when a folder's app wrote the last file of its assembly, in seconds since the epoch; 0 if never."""
    return max((file.stat().st_mtime for file in (directory / _LAST).glob("*.json")), default=0.0)


def changed_stacks(printed: str) -> set[str]:
    """Return the stacks that a `cdk deploy` created or changed, from its output."""
    return set(_DEPLOYED.findall(printed))


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    echo: Callable[[str], None],
    expect: Sequence[int] = (0,),
) -> str:
    """Run a program to its end; write each line to `echo` and to `log`, and return all but `ops`'s signs of life."""
    lines: list[str] = []
    with (
        log.open("w") as file,
        subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call
        ) as process,
    ):
        try:
            for line in process.stdout or ():
                file.write(line)
                if not sign_of_life.LINE.fullmatch(line):
                    lines.append(line)
                echo(line.rstrip())
        except BaseException:
            # The CLI's own children (synthesis) are in its session and end with it.
            os.killpg(process.pid, signal.SIGTERM)
            raise
    if process.returncode not in expect:
        raise CommandError(_failure(" ".join(argv[1:4]) + " …", process.returncode, log, "".join(lines[-25:])))
    return "".join(lines)


def _failure(what: str, code: int, log: Path, tail: str) -> str:
    return f"`{what}` ended with code {code}; its output: {log}\n{tail}"
