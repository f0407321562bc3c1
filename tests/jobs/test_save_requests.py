"""Requests to save now: all workers save after the same step, and whoever asked learns which."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ray_resume import __main__ as command
from ray_resume.checkpoint_store import CheckpointStore, Saved, Writer
from ray_resume.extending import DONE
from ray_resume.requests.profiles import ProfileRequests, Recorder
from ray_resume.requests.save_requests import Requested, SaveRequests
from ray_resume.storage import open_storage
from tests.jobs.support.runs import Runs, Undisturbed
from tests.jobs.support.together import together
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

WORKERS = 3
ROUNDS = 2
WRITER = Writer(1, 1)


@pytest.fixture
def requests(tmp_path: Path) -> SaveRequests:
    """Return the requests of a run without checkpoints."""
    return SaveRequests(store_of(tmp_path))


def store_of(directory: Path) -> CheckpointStore:
    store = CheckpointStore(open_storage(str(directory), "job"))
    if not store.writers():
        store.begin(1)
    return store


def work(rank: int, directory: Path) -> None:
    """Make steps at a pace of this worker's own, and save whenever somebody asks, until that happened ROUNDS times."""
    store = CheckpointStore(open_storage(str(directory), "job"))
    recorder = Recorder(ProfileRequests(store.storage), rank=rank, world=WORKERS, say=lambda _: None)
    requested = Requested(SaveRequests(store), WRITER, rank, recorder)
    pace, step = random.Random(rank), 0  # noqa: S311
    saved: list[int] = []
    while len(saved) < ROUNDS:
        step += 1
        time.sleep(pace.random() * 0.02 * (rank + 1))
        if requested.at(step, saves=False):
            if rank == 0:
                store.commit(Saved(step, WRITER), {})
            saved.append(step)
    (directory / f"saved-{rank}.json").write_text(json.dumps(saved))


def test_workers_of_different_pace_save_after_the_same_steps_and_the_sender_learns_them(tmp_path: Path) -> None:
    requests = SaveRequests(store_of(tmp_path))
    answers: list[Saved | None] = []

    def ask() -> None:
        answers.extend(requests.save_now(seconds=REHEARSAL_PATIENCE_SECONDS) for _ in range(ROUNDS))

    sender = threading.Thread(target=ask)
    sender.start()
    together(WORKERS, work, tmp_path / "meeting", tmp_path)
    sender.join()
    first, *others = (json.loads((tmp_path / f"saved-{rank}.json").read_text()) for rank in range(WORKERS))
    assert all(other == first for other in others)
    assert [answer and answer.step for answer in answers] == first
    assert len(set(first)) == ROUNDS
    assert requests.open() == []
    assert not list((tmp_path / "job" / "requests").iterdir())


def test_request_is_answered_only_once_its_checkpoint_is_committed(requests: SaveRequests, tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.commit(Saved(9, WRITER), {})
    asked = threading.Thread(target=requests.save_now, kwargs={"seconds": REHEARSAL_PATIENCE_SECONDS}, daemon=True)
    asked.start()
    wait_until(lambda: bool(requests.open()), "the request")
    [request] = requests.open()
    assert requests.answer(request.id) is None, "a checkpoint from before is no answer"
    requests.promise(request.id, Saved(12, WRITER))
    assert requests.answer(request.id) is None, "a promise is no checkpoint"
    store.commit(Saved(12, WRITER), {})
    asked.join()
    assert requests.open() == []


def test_request_that_nobody_answers_is_gone_after_its_time(requests: SaveRequests, tmp_path: Path) -> None:
    assert requests.save_now(seconds=0) is None
    assert requests.open() == []
    assert not list((tmp_path / "job" / "requests").iterdir())


def test_promise_of_workers_that_were_lost_is_kept_by_their_successors(requests: SaveRequests, tmp_path: Path) -> None:
    store = store_of(tmp_path)
    answers: list[Saved | None] = []
    asked = threading.Thread(
        target=lambda: answers.append(requests.save_now(seconds=REHEARSAL_PATIENCE_SECONDS)), daemon=True
    )
    asked.start()
    wait_until(lambda: bool(requests.open()), "the request")
    [request] = requests.open()
    requests.promise(request.id, Saved(12, WRITER))
    successors, _ = store.begin(1)
    [again] = requests.open()
    requests.promise(again.id, Saved(8, successors))
    store.commit(Saved(8, successors), {})
    asked.join()
    assert answers == [Saved(8, successors)]


@pytest.mark.sampled(2, of="runs on real Ray")
def test_run_saves_on_request_and_on_sigterm_and_loses_no_step(
    runs: Runs, undisturbed: Callable[..., Undisturbed], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = undisturbed()
    monkeypatch.setenv("RAY_JOB_STOP_WAIT_TIME_S", "120")
    job = runs.start("--every", "1000", "--step-seconds", "0.3")
    runs.wait_for_step(2)

    environment = os.environ | {"RUN_NAME": "job", "RUN_STORAGE": str(runs.storage)}
    words = [sys.executable, "-m", "ray_resume", "checkpoint", "--timeout", f"{REHEARSAL_PATIENCE_SECONDS}"]
    asked = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    [requested] = runs.store.committed()
    assert asked.stdout == f"run job saved step {requested.step} ({requested.name})\n"
    runs.wait_for_step(requested.step + 1)

    job.job.send_signal(signal.SIGTERM)
    assert job.wait() == 128 + signal.SIGTERM, job.output
    last = runs.last()
    assert last.step > requested.step
    assert max(entry.step for entry in runs.trained()) == last.step - 1, "a step after the checkpoint is lost"

    again = runs.start()
    assert again.wait() == 0, again.output
    assert again.resumed() == [last.step]
    weights = runs.weights()
    assert weights.keys() == expected.weights.keys()
    assert all(torch.equal(weights[name], expected.weights[name]) for name in weights)
    assert runs.samples() == expected.samples


def test_run_that_ends_meanwhile_answers_with_its_last_checkpoint(requests: SaveRequests, tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.commit(Saved(9, WRITER), {})
    answers: list[Saved | None] = []
    asked = threading.Thread(
        target=lambda: answers.append(requests.save_now(seconds=REHEARSAL_PATIENCE_SECONDS)), daemon=True
    )
    asked.start()
    wait_until(lambda: bool(requests.open()), "the request")
    store.storage.put(DONE, b"{}")
    asked.join()
    assert answers == [Saved(9, WRITER)]


@pytest.mark.parametrize(
    ("name", "files", "code", "told"),
    [
        ("", (), 2, "RUN_NAME and RUN_STORAGE are not set"),
        ("job", (), 1, "there is no run job"),
        ("job", ("run.json", DONE), 1, "run job is done"),
        ("job", ("run.json",), 1, "run job did not save within 0 s. Fix: "),
    ],
)
def test_command_says_why_no_run_has_saved(
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    files: tuple[str, ...],
    code: int,
    told: str,
) -> None:
    for file in files:
        open_storage(str(tmp_path), "job").put(file, b"{}")
    monkeypatch.setenv("RUN_NAME", name)
    monkeypatch.setenv("RUN_STORAGE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["ray_resume", "checkpoint", "--timeout", "0"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == code
    assert told in capsys.readouterr().err
