"""Checkpoints in the nodes' memory save steps when they are there, and change nothing when they are not."""

import io
import json
import re
import shutil
import socket
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray.train
import torch
import torch.distributed as dist
from ray.train import CheckpointConfig
from torch.multiprocessing import ProcessExitedException

from ray_resume import Checkpoints, InvalidInputError, Run
from ray_resume.checkpoint_store import CheckpointStore, Saved, Writer
from ray_resume.node_memory import fetching, hyperpod, saves, scratch
from ray_resume.node_memory.records import MemoryCheckpoint, MemoryPart
from ray_resume.node_memory.tier import TierError
from ray_resume.storage import open_storage, sha256
from ray_resume.worker import completing
from tests.jobs.support import killed_training
from tests.jobs.support.killed_training import Plan
from tests.jobs.support.memory_daemon import Daemon, published, serving
from tests.jobs.support.together import together

EVERY = 10
MEMORY_EVERY = 2


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with serving() as daemon:
        yield daemon


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make this process the only worker, with a disk of its own."""
    monkeypatch.setattr(ray.train, "get_context", lambda: SimpleNamespace(get_world_rank=lambda: 0))
    monkeypatch.setattr(ray.train, "report", lambda _: None)
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "disk"))


@pytest.fixture
def run(tmp_path: Path, daemon: Daemon) -> Run:
    run = Run("job", str(tmp_path), 1, EVERY, CheckpointConfig(), None, MEMORY_EVERY, daemon.url)
    run.begin({})
    return run


def train(run: Run, steps: int, *, last: int = 1000, background: bool = False) -> int:
    """Train from where the run is up to `steps`; return the step from which it resumed."""

    def read(directory: Path) -> None:
        assert (directory / "deep" / "part").read_text() == str(checkpoints._origin.step)  # type: ignore[union-attr]

    checkpoints = Checkpoints(run)
    done = checkpoints.restore(read)
    for step in range(done + 1, steps + 1):
        if checkpoints.due(step, last=step == last):
            checkpoints.save(step, part(step, background=background), {"step": step})
    checkpoints.wait()
    return done


def part(step: int, *, background: bool = False) -> Callable[[Path], Any]:
    def write(directory: Path) -> Any:
        def now(_: dist.ProcessGroup | None = None) -> None:
            (directory / "deep").mkdir()
            (directory / "deep" / "part").write_text(str(step))

        return now if background else now()

    return write


def stored(run: Run) -> list[int]:
    """Return the steps of the checkpoints in the storage."""
    return [saved.step for saved in CheckpointStore(open_storage(run.storage, run.name)).committed()]


@pytest.mark.parametrize("background", [True, False], ids=["asynchronous", "blocking"])
def test_run_resumes_from_memory_if_that_is_newer_than_the_storage(
    run: Run, capsys: pytest.CaptureFixture[str], background: bool
) -> None:
    train(run, 17, background=background)
    assert stored(run) == [10]
    assert train(replace(run, attempt=2), 19) == 16
    told = capsys.readouterr().out
    assert "attempt 0001.01: checkpoint of step 16 written into the nodes' memory in" in told
    assert "attempt 0002.01: resumes from step 16 (000000016@0001.01, read from the nodes' memory in" in told


def test_run_resumes_from_the_storage_if_that_is_newer_than_the_memory(run: Run) -> None:
    train(run, 21)
    assert train(replace(run, attempt=2), 21) == 20


def test_run_without_a_checkpoint_in_the_storage_resumes_from_memory(run: Run) -> None:
    train(run, 5)
    assert train(replace(run, attempt=2), 5) == 4


def test_chain_of_resumes_from_memory_keeps_the_history(run: Run, daemon: Daemon) -> None:
    """The checkpoint of the second group continues one that only the memory had."""
    train(run, 13)
    assert train(replace(run, attempt=2), 15) == 12
    assert train(replace(run, attempt=3), 15) == 14
    daemon.reset()
    assert train(replace(run, attempt=4), 21) == 10
    assert train(replace(run, attempt=5), 21) == 20


def lose_a_part(daemon: Daemon) -> None:
    for ranks in daemon.parts.values():
        ranks.clear()


def spoil_a_part(daemon: Daemon) -> None:
    for ranks in daemon.parts.values():
        for step, (content, meta) in ranks[0].items():
            ranks[0][step] = content[:-1] + b"x", meta


def return_another_step(daemon: Daemon) -> None:
    """Give back content with a correct checksum, which is that of the oldest step."""
    for ranks in daemon.parts.values():
        ranks[0] = dict.fromkeys(ranks[0], ranks[0][min(ranks[0])])


def refuse(daemon: Daemon) -> None:
    daemon.refuses = "GET"


def hang(daemon: Daemon) -> None:
    daemon.hangs = True


def spoil_metadata(daemon: Daemon) -> None:
    for ranks in daemon.parts.values():
        for step, (content, _) in ranks[0].items():
            ranks[0][step] = content, "no JSON"


FAULTS = [
    Daemon.reset,
    lose_a_part,
    spoil_a_part,
    return_another_step,
    refuse,
    hang,
    spoil_metadata,
    Daemon.server_close,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_memory_that_fails_lets_the_run_resume_from_the_storage(
    run: Run,
    daemon: Daemon,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fault: Callable[[Daemon], None],
) -> None:
    train(run, 17)
    fault(daemon)
    if fault in {hang, Daemon.server_close}:
        monkeypatch.setattr(fetching, "FETCH_SECONDS", 0.5)
        monkeypatch.setattr(saves, "PUT_SECONDS", 0.5)
    assert train(replace(run, attempt=2), 21) == 10
    assert "000000016@0001.01 in the nodes' memory is not used:" in capsys.readouterr().out
    assert stored(run)[-1] == 20
    daemon.go.set()


def test_save_that_memory_refuses_is_told_and_tried_again_after_the_next_one_in_the_storage(
    run: Run, daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.refuses = "POST"
    train(run, 9)
    daemon.refuses = None
    told = capsys.readouterr().out
    assert told.count("is not in the nodes' memory") == 1
    assert "step 2 is not in the nodes' memory; the next try follows a save in the storage: http" in told
    assert train(replace(run, attempt=2), 13) == 0
    assert daemon.steps() == [6, 8, 12]


def test_full_disk_of_a_node_ends_no_training(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make() -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scratch, "make", make)
    train(run, 11)
    assert stored(run) == [10]
    assert "No space left on device" in capsys.readouterr().out


def test_node_without_room_for_a_checkpoint_resumes_from_the_storage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    train(run, 17)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    assert train(replace(run, attempt=2), 11) == 10


def test_checkpoint_that_superseded_workers_add_to_memory_is_not_used(run: Run, daemon: Daemon) -> None:
    stale = Checkpoints(run)
    assert train(replace(run, attempt=2), 1) == 0
    for step in (2, 4):
        assert stale.due(step)
        stale.save(step, part(step), {})
    assert daemon.steps() == [2, 4]
    assert train(replace(run, attempt=3), 1) == 0


def test_run_that_begins_again_under_the_same_name_finds_nothing(run: Run, tmp_path: Path) -> None:
    train(run, 5)
    (tmp_path / "job").rename(tmp_path / "earlier")
    run.begin({})
    assert train(run, 1) == 0


def test_record_that_cannot_be_read_is_told_and_not_used(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    train(run, 5)
    CheckpointStore(open_storage(run.storage, run.name)).storage.put("memory/0001.01.json", b'{"checkpoints": [1]}')
    assert train(replace(run, attempt=2), 1) == 0
    assert "the records of the nodes' memory are unreadable" in capsys.readouterr().out


def test_checkpoint_of_the_memory_that_cannot_be_loaded_is_left_alone_afterwards(run: Run) -> None:
    train(run, 17)

    def fail(_: Path) -> None:
        raise ValueError("size mismatch")

    with pytest.raises(ValueError, match="size mismatch"):
        Checkpoints(replace(run, attempt=2)).restore(fail)
    assert train(replace(run, attempt=3), 11) == 10


def test_step_that_is_due_in_the_storage_is_saved_there_only(run: Run, daemon: Daemon) -> None:
    train(replace(run, memory_every=5), 11)
    assert (stored(run), daemon.steps()) == ([10], [5])


def test_memory_keeps_little_and_nothing_of_a_finished_run(run: Run, daemon: Daemon, tmp_path: Path) -> None:
    train(run, 9)
    assert daemon.steps() == [4, 6, 8]
    with completing():
        train(replace(run, attempt=2), 15, last=15)
    assert daemon.parts.keys() <= {name for name in daemon.parts if "0001" in name}
    assert not (tmp_path / "job" / "memory" / "0002.01.json").exists()
    assert list((tmp_path / "disk").iterdir()) == []


def test_earlier_workers_checkpoints_are_deleted_once_the_run_has_a_newer_one(
    run: Run, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray_resume.node_memory.group.in_background", lambda call: call())
    train(run, 5)
    train(replace(run, attempt=2), 5)
    assert daemon.steps() == [2, 4]
    train(replace(run, attempt=3), 6)
    assert daemon.steps() == [6]


def test_directories_of_killed_processes_are_removed(tmp_path: Path) -> None:
    left = tmp_path / "disk" / "memory-checkpoint-999999999-abc"
    left.mkdir()
    (tmp_path / "disk" / "memory-checkpoint-notes").mkdir()
    made = scratch.make()
    assert {path.name for path in (tmp_path / "disk").iterdir()} == {made.name, "memory-checkpoint-notes"}


@pytest.mark.parametrize(
    ("tier", "told"),
    [
        (None, "saves nothing in the nodes' memory: RUN_MEMORY_TIER is not set"),
        ("http://127.0.0.1:1", "does not use the nodes' memory: worker 0: .*pip install 'ray-resume\\[memory\\]'"),
    ],
    ids=["no tier", "no package"],
)
def test_run_without_a_memory_tier_is_told_and_works(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tier: str | None, told: str
) -> None:
    monkeypatch.setitem(sys.modules, "ray_resume.node_memory.hyperpod", None)
    train(replace(run, memory_tier=tier), 11)
    assert stored(run) == [10]
    assert re.search(told, capfd.readouterr().out)


def test_address_of_the_tier_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NAME", "ATTEMPT", "SERIES", "STORAGE"):
        monkeypatch.delenv(f"RUN_{name}", raising=False)
    monkeypatch.setenv("RUN_MEMORY_TIER", "http://daemon:9200")
    run = Run.from_environment("job", str(tmp_path), every=10, memory_every=2)
    assert (run.memory_every, run.memory_tier) == (2, "http://daemon:9200")
    with pytest.raises(InvalidInputError, match="a checkpoint in memory every 0 steps is invalid"):
        Run.from_environment("job", str(tmp_path), every=10, memory_every=0)


def test_client_prints_nothing_of_its_own(daemon: Daemon, capfd: pytest.CaptureFixture[str]) -> None:
    daemon.refuses = "GET"
    with pytest.raises(OSError, match="http"):
        hyperpod.HyperPodTier(daemon.url).get("job", 0, 1)
    assert capfd.readouterr() == ("", "")


def put(daemon: Daemon, tmp_path: Path, workers: int) -> MemoryCheckpoint:
    """Put a file of each worker into memory; return the checkpoint."""
    tier = hyperpod.HyperPodTier(daemon.url)
    tier.create("job", workers)
    parts = []
    for rank in range(workers):
        packed = tmp_path / f"{rank}.tar"
        with tarfile.open(packed, "w") as archive:
            archive.addfile(tarfile.TarInfo(f"state-{rank}"))
        tier.put("job", rank, 4, packed)
        parts.append(MemoryPart(packed.stat().st_size, sha256(io.BytesIO(packed.read_bytes()))))
    return MemoryCheckpoint(Saved(4, Writer(1, 1)), "job", tuple(parts))


def test_fewer_workers_get_the_parts_of_all(daemon: Daemon, tmp_path: Path) -> None:
    held = put(daemon, tmp_path, 3)
    fetched = fetching.fetch(hyperpod.HyperPodTier(daemon.url), held, 0)
    assert sorted(path.name for path in fetched.directory.iterdir()) == ["state-0", "state-1", "state-2"]


class Group:
    """Threads as the workers of these nodes, with the collective operation that they use."""

    def __init__(self, nodes: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._nodes = nodes
        self._here = threading.local()
        self._values: list[Any] = [None] * len(nodes)
        self._barrier = threading.Barrier(len(nodes))
        monkeypatch.setattr(fetching, "gathered", self._gathered)
        monkeypatch.setattr(socket, "gethostname", lambda: nodes[self._here.rank])

    def each(self, call: Callable[[int], Any]) -> list[Any]:
        """Return what `call` returns at each rank."""

        def begin(rank: int) -> Any:
            self._here.rank = rank
            return call(rank)

        with ThreadPoolExecutor(len(self._nodes)) as pool:
            return list(pool.map(begin, range(len(self._nodes))))

    def _gathered(self, value: Any) -> list[Any]:
        self._values[self._here.rank] = value
        self._barrier.wait()
        values = list(self._values)
        self._barrier.wait()
        return values


def test_one_worker_of_each_node_fetches_for_its_node(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, tier = put(daemon, tmp_path, 2), hyperpod.HyperPodTier(daemon.url)
    group = Group(["a", "a", "b"], monkeypatch)
    fetched = group.each(lambda rank: fetching.fetch(tier, held, rank))
    assert daemon.gets == 2 * 2
    assert [one.directory == fetched[0].directory for one in fetched] == [True, True, False]
    assert all((one.directory / "state-1").exists() for one in fetched)
    group.each(lambda rank: fetched[rank].remove())
    assert not any(one.directory.exists() for one in fetched)


def test_all_workers_do_without_the_memory_if_one_node_cannot_have_it(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, tier = put(daemon, tmp_path, 2), hyperpod.HyperPodTier(daemon.url)
    spoilt = replace(held, parts=(held.parts[0], MemoryPart(1, "")))

    def fetch(rank: int) -> str:
        with pytest.raises(TierError) as error:
            fetching.fetch(tier, spoilt if rank == 2 else held, rank)
        return str(error.value)

    told = Group(["a", "a", "b"], monkeypatch).each(fetch)
    assert told == ["worker 2: the part of worker 1 is not what was put there"] * 3
    assert list((tmp_path / "disk").iterdir()) == []


WORKERS = 2
STEPS = 22


def attempt(storage: Path, number: int, url: str | None, moment: str = "never", workers: int = WORKERS) -> None:
    """Run an attempt of a training with PyTorch's state to its end."""
    plan = Plan(number, STEPS, moment, memory=url)
    together(workers, killed_training.train, storage / f"meeting-{number}", storage, plan)


def numbers(storage: Path) -> list[torch.Tensor]:
    return [one for rank in range(WORKERS) for one in torch.load(storage / f"result-{rank}.pt")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[torch.Tensor]:
    storage = tmp_path_factory.mktemp("undisturbed")
    killed_training.run_of(storage, 1).begin({})
    attempt(storage, 1, None)
    return numbers(storage)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "case",
    [
        ("after a save in memory", True, "000000009@0001.01"),
        ("after a save in memory", False, "000000005@0001.01"),
        ("before the record in memory", True, "000000006@0001.01"),
    ],
    ids=["memory intact", "memory lost", "unrecorded save"],
)
def test_killed_workers_end_to_the_bit_and_lose_fewer_steps_with_memory(
    tmp_path: Path, daemon: Daemon, undisturbed: list[torch.Tensor], case: tuple[str, bool, str]
) -> None:
    moment, intact, resumed = case
    killed_training.run_of(tmp_path, 1).begin({})
    with pytest.raises(ProcessExitedException, match="signal SIGKILL"):
        attempt(tmp_path, 1, daemon.url, moment)
    if not intact:
        daemon.reset()
    attempt(tmp_path, 2, daemon.url)
    origin = json.loads((tmp_path / "job" / "attempts" / "0002.01.json").read_text())["resumed_from"]
    assert origin == resumed
    assert [torch.equal(*pair) for pair in zip(numbers(tmp_path), undisturbed, strict=True)] == [True] * len(
        undisturbed
    )


@pytest.mark.long
def test_published_server_holds_and_returns_what_a_run_saves(
    run: Run, tmp_path: Path, undisturbed: list[torch.Tensor]
) -> None:
    with published(tmp_path / "server.log") as url:
        run = replace(run, memory_tier=url)
        train(run, 17)
        assert train(replace(run, attempt=2), 23) == 16
        assert train(replace(run, attempt=3), 23) == 22
        storage = tmp_path / "killed"
        storage.mkdir()
        killed_training.run_of(storage, 1).begin({})
        with pytest.raises(ProcessExitedException, match="signal SIGKILL"):
            attempt(storage, 1, url, "after a save in memory")
        attempt(storage, 2, url)
    assert "000000009@0001.01" in (storage / "job" / "attempts" / "0002.01.json").read_text()
    assert all(torch.equal(*pair) for pair in zip(numbers(storage), undisturbed, strict=True))
