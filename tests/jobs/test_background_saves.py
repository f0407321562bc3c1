"""Checkpoints that are written while the training continues keep every promise: one in flight, whole or absent."""

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray.train
import torch
import torch.distributed as dist
from torch.multiprocessing import ProcessExitedException

from ray_resume import Checkpoints, Run
from ray_resume.checkpoint_store import CheckpointStore, StaleAttemptError
from ray_resume.requests.save_requests import Requested
from ray_resume.saving import Rest, Write
from ray_resume.storage import open_storage
from ray_resume.worker import completing
from tests.jobs.support.killed_training import AT, EVERY, MOMENTS, Plan, run_of, train
from tests.jobs.support.together import start, together
from tests.support.waiting import wait_until

WORKERS = 2
STEPS = 15


class Written:
    """Parts of checkpoints in the order in which they were copied and written; `go` lets the writing begin."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.go = threading.Event()
        self.error: Exception | None = None

    def part(self, step: int) -> Write:
        def copy(directory: Path) -> Rest:
            self.order.append(f"{step} copied")

            def write(_: dist.ProcessGroup | None) -> None:
                self.go.wait()
                if self.error:
                    raise self.error
                (directory / "part").write_text(str(step))
                self.order.append(f"{step} written")

            return write

        return copy


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Make this process the only worker; return what it reports to Ray Train."""
    reported: list[dict[str, Any]] = []
    monkeypatch.setattr(ray.train, "get_context", lambda: SimpleNamespace(get_world_rank=lambda: 0))
    monkeypatch.setattr(ray.train, "report", reported.append)
    return reported


@pytest.fixture
def written() -> Iterator[Written]:
    written = Written()
    yield written
    written.go.set()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = run_of(tmp_path, 1)
    run.begin({})
    return run


@pytest.fixture
def checkpoints(run: Run, reports: list[dict[str, Any]]) -> Checkpoints:
    return Checkpoints(run)


def steps(storage: Path) -> list[int]:
    """Return the steps of the checkpoints that exist."""
    return [saved.step for saved in CheckpointStore(open_storage(str(storage), "job")).committed()]


def test_training_continues_before_the_checkpoint_exists(
    tmp_path: Path,
    checkpoints: Checkpoints,
    written: Written,
    reports: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkpoints.save(5, written.part(5), {"loss": 0.5})
    assert (steps(tmp_path), reports, capsys.readouterr().out) == ([], [], "")
    written.go.set()
    checkpoints.wait()
    assert steps(tmp_path) == [5]
    [report] = reports
    assert (report["step"], report["loss"]) == (5, 0.5)
    assert 0 < report["checkpoint_blocked_seconds"] < report["checkpoint_seconds"]
    first = capsys.readouterr().out.splitlines()[0]
    assert re.fullmatch(
        r"run job attempt 0001.01: checkpoint of step 5 written in \d+\.\d\d s, for which training waited \d+\.\d\d s",
        first,
    )


def test_next_save_waits_for_the_one_before_and_tells_how_long(
    tmp_path: Path, checkpoints: Checkpoints, written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints.save(5, written.part(5), {})
    # The timer only ends the wait: without one, step 10 is copied before step 5 is written, whenever it ends.
    threading.Timer(0.2, written.go.set).start()
    checkpoints.save(10, written.part(10), {})
    checkpoints.wait()
    assert written.order == ["5 copied", "5 written", "10 copied", "10 written"]
    assert steps(tmp_path) == [5, 10]
    assert re.search(r"waited \d+\.\d\d s for the checkpoint of step 5$", capsys.readouterr().out, re.MULTILINE)


def test_who_asked_for_a_save_is_waited_for_only_after_its_commit(
    checkpoints: Checkpoints, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers may be ended while they wait: steps that they did meanwhile would be lost."""
    at_hold: list[list[int]] = []
    monkeypatch.setattr(Requested, "holds", True)
    monkeypatch.setattr(Requested, "wait", lambda *_: at_hold.append(steps(tmp_path)))
    written.go.set()
    checkpoints.save(5, written.part(5), {})
    assert at_hold == [[5]]


def test_metrics_are_those_of_the_step_of_the_save(
    tmp_path: Path, checkpoints: Checkpoints, written: Written, run: Run
) -> None:
    losses = [0.5]
    checkpoints.save(5, written.part(5), {"losses": losses})
    losses.append(0.1)
    written.go.set()
    checkpoints.wait()
    store = CheckpointStore(open_storage(run.storage, run.name))
    assert (store.manifest(store.committed()[0]) or {})["metrics"] == {"losses": [0.5]}


def test_error_of_the_background_is_raised_at_the_next_save_and_leaves_the_earlier_checkpoint(
    tmp_path: Path, checkpoints: Checkpoints, written: Written
) -> None:
    written.go.set()
    checkpoints.save(5, written.part(5), {})
    checkpoints.wait()
    written.error = OSError(28, "No space left on device")
    checkpoints.save(10, written.part(10), {})
    with pytest.raises(OSError, match=r"worker 0: checkpoint of step 10: .*No space left on device"):
        checkpoints.save(15, written.part(15), {})
    assert steps(tmp_path) == [5]
    assert [path.name[:9] for path in (tmp_path / "job" / "checkpoints").iterdir()] == ["000000005"]
    assert "15 copied" not in written.order


def test_workers_that_were_superseded_while_writing_add_no_checkpoint(
    tmp_path: Path, run: Run, checkpoints: Checkpoints, written: Written
) -> None:
    checkpoints.save(5, written.part(5), {})
    Checkpoints(run_of(tmp_path, 2))
    written.go.set()
    # Their successors have removed the files, or keep them from the commit.
    with pytest.raises((OSError, StaleAttemptError)):
        checkpoints.wait()
    assert steps(tmp_path) == []


def test_end_of_the_training_completes_the_last_save(tmp_path: Path, run: Run, reports: Any, written: Written) -> None:
    with completing():
        Checkpoints(run).save(5, written.part(5), {})
        written.go.set()
    assert steps(tmp_path) == [5]
    assert [report["step"] for report in reports] == [5]


@pytest.mark.parametrize("writes", [True, False], ids=["written", "not written"])
def test_error_of_the_training_completes_the_last_save_and_stays_the_error(
    run: Run, reports: Any, written: Written, capsys: pytest.CaptureFixture[str], writes: bool
) -> None:
    written.error = None if writes else OSError(5, "Input/output error")

    def fail() -> None:
        Checkpoints(run).save(5, written.part(5), {})
        written.go.set()
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"), completing():
        fail()
    assert steps(Path(run.storage)) == ([5] if writes else [])
    assert reports == [], "Ray Train would wait for the reports of the other workers"
    told = "checkpoint of step 5 written in" if writes else "checkpoint of step 5 was not written: worker 0:"
    assert told in capsys.readouterr().out


def attempt(storage: Path, number: int, moment: str = "never") -> None:
    """Run an attempt to its end."""
    meeting = storage / f"meeting-{number}"
    together(WORKERS, train, meeting, storage, Plan(number, STEPS, moment))


def numbers(storage: Path) -> list[torch.Tensor]:
    """Return the final numbers of all workers."""
    return [one for rank in range(WORKERS) for one in torch.load(storage / f"result-{rank}.pt")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[torch.Tensor]]:
    """Return a function that returns the final numbers of a training of so many steps that nothing interrupts."""
    known: dict[int, list[torch.Tensor]] = {}

    def result(steps: int) -> list[torch.Tensor]:
        if steps not in known:
            storage = tmp_path_factory.mktemp("undisturbed")
            run_of(storage, 1).begin({})
            together(WORKERS, train, storage / "meeting", storage, Plan(1, steps))
            known[steps] = numbers(storage)
        return known[steps]

    return result


def assert_same(one: list[torch.Tensor], other: list[torch.Tensor]) -> None:
    assert [torch.equal(a, b) for a, b in zip(one, other, strict=True)] == [True] * len(one)


@pytest.mark.parametrize("moment", [moment for moment in MOMENTS if moment != "never"])
def test_kill_at_any_moment_of_a_save_leaves_whole_checkpoints_and_changes_nothing(
    tmp_path: Path, undisturbed: Callable[[int], list[torch.Tensor]], moment: str
) -> None:
    run_of(tmp_path, 1).begin({})
    with pytest.raises(ProcessExitedException, match="signal SIGKILL"):
        attempt(tmp_path, 1, moment)
    store = CheckpointStore(open_storage(str(tmp_path), "job"))
    newest = next(iter(store.history()))
    assert newest.step == (AT if moment == "after the commit" else AT - EVERY)
    assert store.is_whole(newest)
    attempt(tmp_path, 2)
    assert_same(numbers(tmp_path), undisturbed(STEPS))


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
def test_random_kills_change_nothing(
    tmp_path: Path, undisturbed: Callable[[int], list[torch.Tensor]], draw: random.Random, kills: int
) -> None:
    steps = 12 * kills
    run_of(tmp_path, 1).begin({})
    for number in range(1, kills + 1):
        goal = min(reached(tmp_path) + draw.randrange(1, 12), steps)
        plan = Plan(number, steps, step_seconds=0.01)
        context = start(WORKERS, train, tmp_path / f"meeting-{number}", tmp_path, plan)
        wait_until(partial(_is_reached, tmp_path, goal), f"step {goal}")
        time.sleep(draw.random() / 50)
        for process in context.processes:
            process.kill()
        for process in context.processes:
            process.join()
    together(WORKERS, train, tmp_path / "meeting", tmp_path, Plan(kills + 1, steps))
    assert_same(numbers(tmp_path), undisturbed(steps))


def reached(storage: Path) -> int:
    """Return the newest step that rank 0 has trained; it is not written atomically."""
    file = storage / "reached-0"
    return int(file.read_text() or 0) if file.exists() else 0


def _is_reached(storage: Path, goal: int) -> bool:
    return reached(storage) >= goal
