"""The real CDK CLI, with nothing of the caller's environment."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from embedded_account.machine import cache_folders
from embedded_account.machine.isolation import search_path
from embedded_account.machine.processes import Child, ProcessError, Supervisor, end_with_parent
from rehearsal.paths import CACHE, NODE_MODULES, REPOSITORY
from rehearsal.report.breakdown import Spans

_CLI: Final = NODE_MODULES / "aws-cdk" / "bin" / "cdk"
_LOCKS: Final = ("package-lock.json", "requirements/dev.txt")
_DEPLOYED: Final = re.compile(r"^ *✅ +(\S+)$", re.MULTILINE)
"""What the CLI prints of a stack that it changed; of another it says `(no changes)` after the name."""
PRELOAD: Final = Path(__file__).with_name("cdk_preload.js")
"""Loaded before the CLI: its pauses become simulated time, its compile cache stays its own."""


class CommandError(Exception):
    """A command of the rehearsal ended with an unexpected exit code; the message holds its last lines."""


def require_node() -> None:
    """Raise ProcessError when there is no Node: the CDK CLI and half of the Lambda functions run on it."""
    path = search_path()
    if not shutil.which("node", path=path):
        own = Path(path.split(os.pathsep)[1], "node")
        raise ProcessError(f"Node is missing: {own} does not exist and none is on PATH. Fix: `make setup`")


def kept_folders(cache: Path) -> dict[str, str]:
    """Return the variables that name what the CLI and its synthesis keep beyond a rehearsal, as in a user's home.

    Node never removes what was kept for other versions (130 MB), jsii after a month (260 MB). So the folder is that of
    the lock files, and those of other lock files go, unless another process uses them.
    """
    key = hashlib.sha256(b"".join((REPOSITORY / lock).read_bytes() for lock in _LOCKS)).hexdigest()[:16]
    cache_folders.hold(cache / key)
    cache_folders.prune(cache, [key])
    # jsii unpacks aws-cdk-lib for the first synthesis: three seconds of a core.
    return {
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(cache / key / "jsii"),
        "NODE_COMPILE_CACHE": str(cache / key / "node"),
    }


class Cdk:
    """Runs `cdk` in the project's copy. Each run's output goes to a log of its own, its time to `spans`."""

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

    def __call__(self, verb: str, *arguments: str, expect: Sequence[int] = (0,), again: bool = False) -> str:
        """Run `cdk verb arguments` and return what it printed.

        With `again` the last synthesis is used (`--app cdk.out`): for what changes nothing in the environment.
        Raises CommandError when the exit code is not one of `expect`.
        """
        source = ["--app", "cdk.out"] if again else self._context
        return self._run(self._project, verb, *arguments, *source, expect=expect)

    def bootstrap(self, account_id: str, region: str) -> str:
        """Run `cdk bootstrap`, from a folder without an app: inside one it would be synthesised first."""
        empty = self._project.parent / "no-app"
        empty.mkdir(exist_ok=True)
        return self._run(empty, "bootstrap", f"aws://{account_id}/{region}")

    def begin_synthesis(self, supervisor: Supervisor) -> "Synthesis":
        """Begin `cdk synth`, for whatever runs `again` after it."""
        argv = _argv("synth", "--quiet", *self._context)
        child = supervisor.start("cdk-synth", argv, self._env, ends_by_itself=True, cwd=self._project)
        return Synthesis(child, supervisor, self._spans, self._project)

    def _run(self, directory: Path, verb: str, *arguments: str, expect: Sequence[int] = (0,)) -> str:
        self._runs += 1
        log = self._logs / f"cdk-{self._runs:02}-{verb}.log"
        started = time.time()
        try:
            return run(_argv(verb, *arguments), cwd=directory, env=self._env, log=log, echo=self._echo, expect=expect)
        finally:
            self._spans.commands.append((started, time.time()))
            if (synthesised := _last_synthesis(directory)) > started:
                self._spans.syntheses.append((started, synthesised))


class Synthesis:
    """A `cdk synth` that runs beside something else."""

    def __init__(self, child: Child, supervisor: Supervisor, spans: Spans, directory: Path) -> None:
        self._child = child
        self._supervisor = supervisor
        self._spans = spans
        self._directory = directory
        self._began = time.time()

    def finish(self) -> None:
        """Wait for its end. Raises CommandError when it failed."""
        code = self._child.wait()
        self._supervisor.stop(self._child)
        if code:
            raise CommandError(_failure("cdk synth", code, self._child.log, self._child.tail(25)))
        self._spans.syntheses.append((self._began, _last_synthesis(self._directory)))


def _argv(verb: str, *arguments: str) -> list[str]:
    return ["node", f"--require={PRELOAD}", str(_CLI), verb, *arguments, "--no-color", "--no-notices"]


def _last_synthesis(directory: Path) -> float:
    """When the app of a folder wrote the last file of its assembly, in seconds since the epoch; 0 if it never did."""
    return max((file.stat().st_mtime for file in (directory / "cdk.out").glob("*.json")), default=0.0)


def changed_stacks(printed: str) -> set[str]:
    """Return the stacks that a `cdk deploy` made or changed, from what it printed."""
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
    """Run a program to its end, pass each line of its output to `echo` and to `log`, and return all of it."""
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
                lines.append(line)
                echo(line.rstrip())
        except BaseException:
            # The CLI's own children (synthesis) share its session and end with it.
            os.killpg(process.pid, signal.SIGTERM)
            raise
    if process.returncode not in expect:
        raise CommandError(_failure(" ".join(argv[1:4]) + " …", process.returncode, log, "".join(lines[-25:])))
    return "".join(lines)


def _failure(what: str, code: int, log: Path, tail: str) -> str:
    return f"`{what}` ended with code {code}; its output: {log}\n{tail}"
