"""How a rehearsal ends when it does not end well: one message with the reason, an exit code, no process left."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
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
from tests.support.waiting import REHEARSAL_PATIENCE


class Telling:
    """A rehearsal that is under way in a clone of its own."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout
        checkout.replace_app(cluster_app)
        self.process: subprocess.Popen[str] = checkout.start(*rehearsal("run", "--env", cluster_app.ENVIRONMENT))
        self.run = checkout.runs / "runs" / cluster_app.ENVIRONMENT

    def until_written(self, pattern: str, word: str = "", seconds: float = REHEARSAL_PATIENCE) -> None:
        """Wait for a file of the run that holds a word."""
        deadline = time.monotonic() + seconds
        while not any(word in path.read_text(errors="replace") for path in self.run.glob(pattern)):
            assert self.process.poll() is None, self.rest()
            assert time.monotonic() < deadline, f"no {pattern} with {word!r}"
            time.sleep(0.05)

    def rest(self) -> str:
        """The rest of its output, once it has ended."""
        return self.process.communicate(timeout=REHEARSAL_PATIENCE)[0]


@dataclass(frozen=True)
class Ending:
    """How one rehearsal ended."""

    code: int
    output: str
    left: Mapping[int, str]
    run: Path


def interrupt_with_a_control_plane(telling: Telling) -> None:
    """Ctrl-C with everything of a control plane running, and a function."""
    telling.until_written("account/clusters/*/run/kube-scheduler.pid")
    assert [command for command in telling.checkout.processes().values() if "run_python.py" in command]
    telling.process.send_signal(signal.SIGINT)


def terminate_in_the_first_stack(telling: Telling) -> None:
    """What a CI system does when time is over."""
    telling.until_written("logs/cdk-*-bootstrap.log", "CREATE_IN_PROGRESS")
    telling.process.send_signal(signal.SIGTERM)


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


ACTS: dict[str, Callable[[Telling], None]] = {
    "broken api server": let_be,
    "interrupted": interrupt_with_a_control_plane,
    "terminated": terminate_in_the_first_stack,
}


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory, programs: Binaries) -> Iterator[dict[str, Future[Ending]]]:
    """All of them side by side: each waits more than it works."""
    base = tmp_path_factory.mktemp("endings")

    def tell(name: str) -> Ending:
        directory = base / name.replace(" ", "-")
        cache = BINARIES
        if name == "broken api server":
            cache = directory / "programs"
            break_api_server(programs.directory, cache / programs.directory.name)
        telling = Telling(Checkout(directory / "checkout", programs=cache))
        try:
            ACTS[name](telling)
            output = telling.rest()
        finally:
            telling.process.terminate()
            telling.process.wait(REHEARSAL_PATIENCE)
        return Ending(
            telling.process.returncode, output, eventually_none_below(telling.checkout.directory), telling.run
        )

    with ThreadPoolExecutor(len(ACTS)) as pool:
        yield {name: pool.submit(tell, name) for name in ACTS}


@pytest.mark.parametrize("name", ACTS)
def test_no_process_and_no_record_of_one_is_left(endings: dict[str, Future[Ending]], name: str) -> None:
    ending = endings[name].result()
    assert ending.left == {}
    assert list(ending.run.glob("run/*.pid")) == []


def test_a_program_that_does_not_start_is_named_with_its_log(endings: dict[str, Future[Ending]]) -> None:
    ending = endings["broken api server"].result()
    assert ending.code == 1
    assert_one_clear_message(
        ending.output,
        r"The rehearsal of small failed: .* ended with code 1; its output: \S+/logs/cdk-02-deploy\.log",
        r"kube-apiserver ended with code 1; its log:\s+\S+/logs/kube-apiserver\.log\s+unknown flag: --etcd-servers",
        rf"{cluster_app.STACK} .* ROLLBACK_COMPLETE",
    )


@pytest.mark.parametrize("name", ["interrupted", "terminated"])
def test_an_interruption_ends_everything_and_says_what(endings: dict[str, Future[Ending]], name: str) -> None:
    ending = endings[name].result()
    assert ending.code == 130, ending.output
    assert_one_clear_message(ending.output, r"(?m)^interrupted; ended: (.+, )?embedded_account(, .+)?$")
    assert "still running" not in ending.output
