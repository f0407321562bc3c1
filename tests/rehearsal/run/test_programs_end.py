"""A program of a rehearsal ends, or the rehearsal itself does: what is said then, and what is left."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest
from rich.console import Console

from embedded_account.kubernetes.building.binaries import Binaries
from embedded_account.machine.processes import is_alive
from embedded_account.testing.cluster import COMPONENTS
from rehearsal.paths import REPOSITORY
from rehearsal.run import rehearse
from rehearsal.run.steps import RehearsalError
from tests.rehearsal.run import short_run
from tests.rehearsal.run.checkout import Checkout, assert_one_clear_message, eventually_none_below, rehearsal
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

# Ctrl-C at a terminal reaches the Node of jsii, too, which synthesises the drills' objects.
JSII_ENDS_FIRST = """
import os, signal, sys
from pathlib import Path
import cdk8s, typer
from rehearsal import __main__ as main
cdk8s.App()
for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
    os.kill(int(pid), signal.SIGKILL)
    os.waitid(os.P_PID, int(pid), os.WEXITED | os.WNOWAIT)
"""
INTERRUPTED = """
main.living = lambda directory: {1: "etcd", 2: "helm"}
main._end_undisturbed = lambda directories: {2: "helm"}
try:
    with main._alone(Path(sys.argv[1])):
        os.kill(os.getpid(), signal.SIGINT)
except typer.Exit as end:
    sys.exit(end.exit_code)
"""
FATAL = ("account", *(name for name in COMPONENTS if name != "kwok"))


class Run:
    """A short run in a clone, with an account and a control plane, and a step that does not end by itself."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout
        self.directory = checkout.runs / "runs" / "small"
        self.process: subprocess.Popen[str] = checkout.start(
            ".venv/bin/python", "short_run.py", "run", "--env", "small"
        )
        wait_until((self.directory / "cluster-is-there").exists, "its last step", REHEARSAL_PATIENCE_SECONDS)

    def pid_of(self, program: str) -> int:
        """Pid of a program that now runs."""
        (file,) = self.directory.rglob(f"run/{program}.pid")
        return int(file.read_text())

    def log_of(self, program: str) -> Path:
        """A program's log."""
        (file,) = self.directory.rglob(f"run/{program}.pid")
        return file.parents[1] / "logs" / f"{program}.log"

    def rest(self) -> str:
        """The rest of its output, once it has ended."""
        return self.process.communicate(timeout=REHEARSAL_PATIENCE_SECONDS)[0]


@pytest.fixture
def run(tmp_path: Path, programs: Binaries) -> Iterator[Run]:
    assert programs
    with started(tmp_path) as run:
        yield run


@contextmanager
def started(directory: Path) -> Iterator[Run]:
    checkout = Checkout(directory / "checkout")
    shutil.copy2(short_run.__file__, checkout.directory)
    run = Run(checkout)
    try:
        yield run
    finally:
        run.process.kill()
        run.process.wait()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("program", FATAL)
def test_a_run_ends_with_any_of_its_programs_and_says_which_one_and_where_its_log_is(run: Run, program: str) -> None:
    log = run.log_of(program)
    os.kill(run.pid_of(program), signal.SIGKILL)
    output = run.rest()
    assert run.process.returncode == 2
    assert_one_clear_message(output, rf"{program} was ended by SIGKILL; its log:\s+{log}")
    assert output.count("error:") == 1
    assert re.search(rf"✘ {short_run.TITLE}", output)
    assert "the step after it" not in output
    assert eventually_none_below(run.checkout.directory) == {}


def test_kwok_is_started_again_two_rehearsals_of_one_folder_are_refused_and_down_spares_the_first(run: Run) -> None:
    """One run for all of these: each leaves it as it was, but for the last."""
    kwok = run.pid_of("kwok")
    os.kill(kwok, signal.SIGKILL)
    wait_until(lambda: run.pid_of("kwok") != kwok and is_alive(run.pid_of("kwok")), "kwok's successor")
    under_way = rf"a rehearsal in\s+{run.directory}\s+is\s+under\s+way\s+\(process {run.process.pid}\)"
    for command, code in (("run", 2), ("down", 1)):
        ended, said = run.checkout.rehearse(command, *(["--env", "small"] if command == "run" else []))
        assert ended == code
        assert_one_clear_message(said, under_way)
    assert run.process.poll() is None
    code, said = run.checkout.rehearse("down", "--force")
    assert code == 0
    assert_one_clear_message(said, rf"ended: the rehearsal in\s+{run.directory}")
    assert run.process.wait(REHEARSAL_PATIENCE_SECONDS) == 130
    assert_one_clear_message(run.rest(), r"interrupted; ended: embedded_account, .*\betcd\b.*\bkwok\b")
    assert eventually_none_below(run.checkout.directory) == {}


def test_what_a_killed_rehearsal_started_ends_without_it(run: Run) -> None:
    run.process.kill()
    assert eventually_none_below(run.checkout.directory) == {}
    assert run.checkout.run(*rehearsal("down")) == (0, "nothing was running\n")


def test_an_interruption_that_ends_jsii_first_shows_no_traceback_of_it(tmp_path: Path) -> None:
    def ended(script: str) -> tuple[int, str]:
        argv = [sys.executable, "-c", script, str(tmp_path)]
        done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert "BrokenPipeError" in ended(JSII_ENDS_FIRST)[1]
    said = "interrupted; ended: etcd\nstill running: helm (process 2)\n"
    assert ended(f"{JSII_ENDS_FIRST}{INTERRUPTED}") == (130, said)


@pytest.mark.parametrize(("ending", "code"), [(None, 0), (RehearsalError("a leftover"), 1)], ids=["well", "failed"])
def test_what_a_killed_program_left_ends_with_the_run_however_the_run_ends(
    ending: RehearsalError | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ops destroy`, killed, leaves its `cdk destroy`: as an orphan, which no program of the run waits for."""

    def steps(run: Mock, *_: object, **__: object) -> None:
        orphan = f"{sys.executable} -c 'import time; time.sleep(100)' & echo $! > {run.directory}/orphan"
        subprocess.run(["/bin/sh", "-c", orphan], env={"HOME": f"{run.directory}/home"}, check=True)
        if ending:
            raise ending

    monkeypatch.setattr(rehearse, "Rehearsal", lambda *_: MagicMock(directory=tmp_path))
    monkeypatch.setattr(rehearse, "_steps", steps)
    assert rehearse.rehearse("dev", Console(quiet=True), keep=False) == code
    assert not is_alive(int((tmp_path / "orphan").read_text()))
