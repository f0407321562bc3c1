"""Goodput, from folders of runs written by hand: the useful time and each loss in seconds, with nothing left over."""

import json
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from ray_resume.checkpoint_store import CheckpointStore
from ray_resume.storage import open_storage
from ray_resume.telemetry.goodput import REPEATED, SAVING, STARTING, WAITING, Goodput, goodput
from tests.support.waiting import PATIENCE_SECONDS


class Folder:
    """The folder of a run that began at second 1000; times are in seconds from there."""

    def __init__(self, storage: Path) -> None:
        self.path = storage / "run"

    def group(
        self,
        writer: str,
        began: int,
        *,
        origin: str | None = None,
        step: int = 0,
        ready: int | None = None,
        **spent: float,
    ) -> None:
        """Write what a group of workers leaves."""
        self._put(f"attempts/{writer}.json", {"began": iso(began), "resumed_from": origin})
        if ready is not None:
            record = {"ready": 1000.0 + ready, "step": step, "saving": 0.0, "training": 0.0, **spent}
            self._put(f"telemetry/{writer}.json", record)

    def done(self, at: int, name: str = "DONE.json") -> None:
        self._put(name, {"finished": iso(at)})

    def extended(self, *at: int) -> None:
        self._put("earlier_ends.json", [{"finished": iso(one)} for one in at])

    def goodput(self) -> Goodput:
        return goodput(CheckpointStore(open_storage(str(self.path.parent), "run")))

    def _put(self, name: str, content: object) -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(json.dumps(content))


def iso(second: int) -> str:
    return datetime.fromtimestamp(1000 + second, timezone.utc).isoformat(timespec="seconds")


def parts(found: Goodput) -> dict[str, float]:
    """Return the seconds of each kind, after checking that they add up to what was paid."""
    assert found.useful + sum(found.lost.values()) == pytest.approx(found.paid)
    return {"paid": found.paid, "useful": found.useful, **found.lost}


def seconds(
    paid: float, useful: float, *, repeated: float = 0, starting: float = 0, saving: float = 0, waiting: float = 0
) -> object:
    return pytest.approx(
        {"paid": paid, "useful": useful, REPEATED: repeated, STARTING: starting, SAVING: saving, WAITING: waiting}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_undisturbed_run_loses_its_start_its_checkpoints_and_its_end(folder: Folder) -> None:
    folder.group("0001.01", 0, ready=10, step=100, saving=5, training=80)
    folder.done(100)
    found = folder.goodput()
    assert parts(found) == seconds(100, 80, starting=10, saving=5, waiting=5)
    assert found.share == pytest.approx(0.8)


def test_failure_after_a_checkpoint_repeats_the_steps_since_then(folder: Folder) -> None:
    folder.group("0001.01", 0, ready=10, step=100, saving=10, training=80)
    folder.group("0001.02", 130, origin="000000075@0001.01", ready=140, step=100, training=20)
    folder.done(160)
    # Of 100 steps in 80 s, 75 count. From the last sign (100) to the next workers (130), nothing was trained.
    assert parts(folder.goodput()) == seconds(160, 60 + 20, repeated=20, starting=20, saving=10, waiting=30)


def test_failure_before_the_first_checkpoint_repeats_all(folder: Folder) -> None:
    folder.group("0001.01", 0, ready=10, step=9, training=40)
    folder.group("0001.02", 50, ready=60, step=20, training=100)
    folder.done(160)
    assert parts(folder.goodput()) == seconds(160, 100, repeated=40, starting=20)


def test_workers_that_saved_nothing_between_two_others_are_no_part_of_the_history(folder: Folder) -> None:
    folder.group("0001.01", 0, ready=0, step=10, training=10)
    folder.group("0001.02", 10, origin="000000010@0001.01", ready=10, step=15, training=5)
    folder.group("0001.03", 15, origin="000000010@0001.01", ready=15, step=20, training=10)
    folder.done(25)
    assert parts(folder.goodput()) == seconds(25, 20, repeated=5)


def test_time_between_two_attempts_is_waiting(folder: Folder) -> None:
    folder.group("0001.01", 0, ready=0, step=10, training=10)
    folder.group("0002.01", 3610, origin="000000010@0001.01", ready=3610, step=20, training=10)
    folder.done(3620)
    assert parts(folder.goodput()) == seconds(3620, 20, waiting=3600)


def test_workers_that_never_loaded_their_checkpoint_were_starting(folder: Folder) -> None:
    folder.group("0001.01", 0)
    folder.group("0001.02", 30, ready=40, step=10, training=10)
    folder.done(50)
    assert parts(folder.goodput()) == seconds(50, 10, starting=40)


def test_time_of_workers_that_trained_on_beside_their_successors_is_paid_once(folder: Folder) -> None:
    """A frozen node thaws: its workers record more seconds than passed until the next workers began."""
    folder.group("0001.01", 0, ready=0, step=20, training=90, saving=10)
    folder.group("0001.02", 50, origin="000000010@0001.01", ready=50, step=20, training=10)
    folder.done(60)
    assert parts(folder.goodput()) == seconds(60, 22.5 + 10, repeated=22.5, saving=5)


def test_time_between_the_end_and_an_extension_is_not_the_runs(folder: Folder) -> None:
    folder.group("0001.01", 0, ready=0, step=10, training=10)
    folder.extended(10)
    folder.group("0002.01", 600_000, origin="000000010@0001.01", ready=600_000, step=20, training=10)
    folder.done(600_010)
    assert parts(folder.goodput()) == seconds(20, 20)


def test_run_that_did_not_end_is_counted_until_its_last_sign(folder: Folder) -> None:
    folder.group("0001.01", 0, ready=10, step=10, training=30)
    assert parts(folder.goodput()) == seconds(40, 30, starting=10)


def test_run_of_an_earlier_version_has_only_the_starts_of_its_workers(folder: Folder) -> None:
    folder.group("0001.01", 0)
    folder.done(100)
    assert parts(folder.goodput()) == seconds(100, 0, starting=100)


def test_run_without_workers_paid_nothing(folder: Folder) -> None:
    assert (folder.goodput().paid, folder.goodput().share) == (0, 0)


def test_command_prints_each_loss(folder: Folder) -> None:
    folder.group("0001.01", 0, ready=900, step=100, saving=300, training=7200)
    folder.done(9000)
    ended = command(str(folder.path))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "run run: goodput 80.0%, 7,200 s of 9,000 s",
        "lost to repeated steps          0 s    0.0%",
        "lost to start-up              900 s   10.0%",
        "lost to checkpoints           300 s    3.3%",
        "lost to waiting               600 s    6.7%",
    ]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("/usr/run", "run '/usr/run' is invalid: no workers have begun there. Allowed: the folder of a run"),
        ("/nowhere/run", "storage path '/nowhere' is invalid: there is no /nowhere here"),
        ("runs/run", "storage path 'runs' is invalid. Allowed: an absolute path that every node sees"),
    ],
)
def test_folder_that_is_no_run_is_named(run: str, message: str) -> None:
    ended = command(run)
    assert ended.returncode == 2
    assert message in ended.stderr.splitlines()[-1]


def command(run: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "ray_resume", "goodput", run]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
