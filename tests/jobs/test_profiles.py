"""Profiles on demand: the worker that is asked records whole steps, and no error of it ends the training."""

import gzip
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ray_resume import __main__ as command
from ray_resume.checkpoint_store import CheckpointStore, Writer
from ray_resume.collective import by_rank_0
from ray_resume.extending import DONE
from ray_resume.requests import profiles
from ray_resume.requests.profiles import ProfileAnswer, ProfileRequest, ProfileRequests, Recorder
from ray_resume.requests.save_requests import Requested, SaveRequests
from ray_resume.storage import RunStorage, open_storage
from tests.jobs.support.together import together
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

WORKERS = 3


@pytest.fixture
def storage(tmp_path: Path) -> RunStorage:
    return open_storage(str(tmp_path), "job")


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def recorder(storage: RunStorage, said: list[str]) -> Iterator[Recorder]:
    """Return the recorder of worker 1 of two; a profile that still runs ends with the test."""
    made = Recorder(ProfileRequests(storage), rank=1, world=2, say=said.append)
    yield made
    made.reached(10**9)


def request(id: str, worker: int = 1, seconds: float = 0.0) -> ProfileRequest:
    return ProfileRequest(id, worker, seconds, time.time() + REHEARSAL_PATIENCE_SECONDS)


def answered(storage: RunStorage, id: str) -> ProfileAnswer:
    requests = ProfileRequests(storage)
    wait_until(lambda: requests.answer(id) is not None, "the answer")
    answer = requests.answer(id)
    assert answer is not None
    return answer


def events(storage: RunStorage, answer: ProfileAnswer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(storage.read(answer.trace) or b""))["traceEvents"]
    return found


def test_trace_has_the_operations_of_the_steps_between(
    recorder: Recorder, storage: RunStorage, said: list[str]
) -> None:
    recorder.begin(request("first"), 7)
    recorder.reached(7)
    assert said == [], "a profile has a step at least"
    torch.ones(8, 8).mm(torch.ones(8, 8))
    recorder.reached(8)
    answer = answered(storage, "first")
    assert (answer.begin, answer.end, answer.reason) == (7, 8, "")
    assert answer.trace == "profiles/first/worker-1-steps-7-8.json.gz"
    assert said == [f"worker 1 profiled steps 7 to 8: {answer.trace}"]
    assert "aten::mm" in {event["name"] for event in events(storage, answer)}


def test_profile_ends_after_its_seconds_or_the_most_steps(
    recorder: Recorder, storage: RunStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "MOST_STEPS", 3)
    recorder.begin(request("long", seconds=REHEARSAL_PATIENCE_SECONDS), 0)
    for step in range(1, 5):
        recorder.reached(step)
    assert (answered(storage, "long").begin, answered(storage, "long").end) == (0, 3)


def test_second_profile_begins_after_the_first(recorder: Recorder, storage: RunStorage) -> None:
    """Rank 0 names a request at each call until it is answered."""
    first, second = request("first"), request("second")
    for step in range(20):
        recorder.reached(step)
        for each in (first, second):
            recorder.begin(each, step)
    one, two = answered(storage, "first"), answered(storage, "second")
    assert (one.begin, one.end) == (0, 1)
    assert (two.begin, two.end) == (1, 2)


def test_worker_that_does_not_exist_is_refused_by_rank_0_only(recorder: Recorder, storage: RunStorage) -> None:
    recorder.begin(request("none", worker=2), 0)
    assert ProfileRequests(storage).answer("none") is None
    Recorder(ProfileRequests(storage), rank=0, world=2, say=print).begin(request("none", worker=2), 0)
    assert answered(storage, "none").reason == "there is no worker 2. Allowed: 0 to 1"


@pytest.mark.parametrize(("fails", "told"), [("start", "does not start: "), ("stop", "does not stop: ")])
def test_profiler_that_fails_is_a_reason_and_no_end(
    recorder: Recorder, storage: RunStorage, monkeypatch: pytest.MonkeyPatch, fails: str, told: str
) -> None:
    class Fails:
        def __init__(self, **_: Any) -> None: ...

        def start(self) -> None:
            assert fails != "start", "CUPTI"

        def stop(self) -> None:
            assert fails != "stop", "CUPTI"

    monkeypatch.setattr("torch.profiler.profile", Fails)
    recorder.begin(request("fails"), 0)
    recorder.reached(1)
    assert f"the profiler {told}AssertionError(" in answered(storage, "fails").reason


def test_trace_that_cannot_be_kept_is_a_reason_and_no_end(
    recorder: Recorder, storage: RunStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(recorder.requests, "keep", refuse)
    recorder.begin(request("full"), 0)
    recorder.reached(1)
    assert "the trace was not kept: OSError('No space left on device')" in answered(storage, "full").reason


def test_newest_profiles_stay(storage: RunStorage) -> None:
    for _ in range(12):
        ProfileRequests(storage).profile(0, seconds=1, timeout=0)
    assert len(storage.names("profiles")) == 10
    assert ProfileRequests(storage).open() == [], "their time is over"


def work(rank: int, directory: Path) -> None:
    """Make steps until the profile of worker 2 is there."""
    storage = open_storage(str(directory), "job")
    recorder = Recorder(ProfileRequests(storage), rank=rank, world=WORKERS, say=print)
    requested = Requested(SaveRequests(CheckpointStore(storage)), Writer(1, 1), rank, recorder)
    step = 0
    # All leave at one step: each waits for the others in the next.
    while step % 5 or not by_rank_0((directory / "over").exists):
        step += 1
        time.sleep(0.01)
        requested.at(step, saves=step % 5 == 0)


def test_command_asks_one_worker_of_several_and_prints_where_the_trace_is(
    storage: RunStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    storage.put("run.json", b"{}")
    monkeypatch.setenv("RUN_NAME", "job")
    monkeypatch.setenv("RUN_STORAGE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["ray_resume", "profile", "--seconds", "0.1", "--worker", "2"])
    training = threading.Thread(target=together, args=(WORKERS, work, tmp_path / "meeting", tmp_path))
    training.start()
    try:
        command.main()
    finally:
        (tmp_path / "over").touch()
        training.join()
    told = json.loads(capsys.readouterr().out)
    assert (told["run"], told["reason"]) == ("job", "")
    assert told["trace"].rpartition("/")[2] == f"worker-2-steps-{told['begin']}-{told['end']}.json.gz"
    assert storage.read(told["trace"])


@pytest.mark.parametrize(
    ("words", "files", "code", "told"),
    [
        (["--seconds", "0"], ["run.json"], 2, "a profile of 0 s of worker 0 is invalid. Allowed: up to 600 s"),
        (["--worker", "-1"], ["run.json"], 2, "of worker -1 is invalid"),
        ([], [], 1, "there is no run job"),
        ([], ["run.json", DONE], 1, "run job is done"),
        (["--seconds", "0.1", "--timeout", "0"], ["run.json"], 1, "was not profiled within 0.1 s. Fix: check"),
    ],
)
def test_command_says_why_there_is_no_profile(
    *,
    storage: RunStorage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    files: list[str],
    code: int,
    told: str,
) -> None:
    for file in files:
        storage.put(file, b"{}")
    monkeypatch.setitem(os.environ, "RUN_NAME", "job")
    monkeypatch.setitem(os.environ, "RUN_STORAGE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["ray_resume", "profile", *words])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == code
    assert told in capsys.readouterr().err
