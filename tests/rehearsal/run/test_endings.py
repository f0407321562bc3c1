"""How a rehearsal ends when it does not end well: one message with the reason, an exit code, no process left."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from embedded_account.kubernetes.building.binaries import Binaries
from rehearsal.paths import BINARIES
from tests.rehearsal.run import cluster_app
from tests.rehearsal.run.checkout import (
    Checkout,
    assert_one_clear_message,
    eventually_none_below,
    rehearsal,
)
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until


class Telling:
    """A rehearsal that is under way in a clone of its own."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout
        checkout.replace_app(cluster_app)
        self.process: subprocess.Popen[str] = checkout.start(*rehearsal("run", "--env", cluster_app.ENVIRONMENT))
        self.run = checkout.runs / "runs" / cluster_app.ENVIRONMENT

    def until_written(self, pattern: str, word: str = "", seconds: float = REHEARSAL_PATIENCE_SECONDS) -> None:
        """Wait for a file of the run that holds a word."""
        deadline = time.monotonic() + seconds
        while not any(word in path.read_text(errors="replace") for path in self.run.glob(pattern)):
            assert self.process.poll() is None, self.rest()
            assert time.monotonic() < deadline, f"no {pattern} with {word!r}"
            time.sleep(0.05)

    def rest(self) -> str:
        """The rest of its output, once it has ended."""
        return self.process.communicate(timeout=REHEARSAL_PATIENCE_SECONDS)[0]


def interrupt_with_a_control_plane(telling: Telling) -> None:
    """Ctrl-C with everything of a control plane running, and a function."""
    telling.until_written("account/clusters/*/run/kube-scheduler.pid")
    wait_until(
        lambda: any("run_python.py" in command for command in telling.checkout.processes().values()), "a function"
    )
    telling.process.send_signal(signal.SIGINT)


def terminate_in_the_first_stack(telling: Telling) -> None:
    """What a CI system does when time is over."""
    telling.until_written("logs/cdk-*-bootstrap.log", "CREATE_IN_PROGRESS")
    telling.process.send_signal(signal.SIGTERM)


def kill_the_account_in_the_first_stack(telling: Telling) -> None:
    """What a machine does that has no memory left."""
    telling.until_written("logs/cdk-*-bootstrap.log", "CREATE_IN_PROGRESS")
    os.kill(int((telling.run / "run" / "account.pid").read_text()), signal.SIGKILL)


def let_be(telling: Telling) -> None:
    """Nothing more goes wrong."""


def break_api_server(built: Path, directory: Path) -> None:
    """Write a folder of the built programs of which one ends at once."""
    directory.mkdir(parents=True)
    for program in built.iterdir():
        if program.name != "kube-apiserver":
            (directory / program.name).symlink_to(program)
    broken = directory / "kube-apiserver"
    broken.write_text("#!/bin/sh\necho 'unknown flag: --etcd-servers' >&2\nexit 1\n")
    broken.chmod(0o755)


def says_which_program(telling: Telling, output: str) -> None:
    """The program that did not start is named with its log."""
    assert telling.process.returncode == 1
    assert_one_clear_message(
        output,
        r"The rehearsal of small failed: .* ended with code 1; its output: \S+/logs/cdk-02-deploy\.log",
        r"kube-apiserver ended with code 1; its log:\s+\S+/logs/kube-apiserver\.log\s+unknown flag: --etcd-servers",
        rf"{cluster_app.STACK} .* ROLLBACK_COMPLETE",
    )


def says_what_was_ended(telling: Telling, output: str) -> None:
    """Everything was ended, and the message says what."""
    assert telling.process.returncode == 130, output
    assert_one_clear_message(output, r"(?m)^interrupted; ended: (.+, )?embedded_account(, .+)?$")
    assert "still running" not in output


def says_that_the_account_ended(telling: Telling, output: str) -> None:
    """The account is named with its log; the commands that asked it are not."""
    assert telling.process.returncode == 2, output
    assert_one_clear_message(output, r"account was ended by SIGKILL; its log:\s+\S+/logs/account\.log")
    assert output.count("error:") == 1


ENDINGS: dict[str, tuple[Callable[[Telling], None], Callable[[Telling, str], None]]] = {
    "account killed": (kill_the_account_in_the_first_stack, says_that_the_account_ended),
    "broken api server": (let_be, says_which_program),
    "interrupted": (interrupt_with_a_control_plane, says_what_was_ended),
    "terminated": (terminate_in_the_first_stack, says_what_was_ended),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ENDINGS)
def test_a_rehearsal_says_why_it_ended_and_leaves_no_process_and_no_record_of_one(
    name: str, tmp_path: Path, programs: Binaries
) -> None:
    act, assert_said = ENDINGS[name]
    cache = BINARIES
    if name == "broken api server":
        cache = tmp_path / "programs"
        break_api_server(programs.directory, cache / programs.directory.name)
    telling = Telling(Checkout(tmp_path / "checkout", programs=cache))
    try:
        act(telling)
        output = telling.rest()
    finally:
        telling.process.terminate()
        telling.process.wait(REHEARSAL_PATIENCE_SECONDS)
    assert_said(telling, output)
    assert eventually_none_below(telling.checkout.directory) == {}
    assert list(telling.run.glob("run/*.pid")) == []
