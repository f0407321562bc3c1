"""A training that saves asynchronously and kills its own process at a chosen moment of a save, without Ray."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import ray.train
import torch
from ray.train import CheckpointConfig

from ray_resume import Checkpoints, Run, torch_state
from ray_resume.checkpoint_store import MANIFEST, CheckpointStore
from ray_resume.node_memory.records import MemoryCheckpoint, Records
from ray_resume.saving import Rest
from ray_resume.worker import completing
from tests.jobs.support.trainings import Training

EVERY: Final = 5
MEMORY_EVERY: Final = 3
MEMORY_AT: Final = 9
"""The step whose save in memory is the last."""
AT: Final = 10
"""The step whose save the training does not survive."""


@dataclass(frozen=True)
class Plan:
    """An attempt: how many steps it trains, when it is killed, how long a step takes, and its memory tier's address."""

    attempt: int
    steps: int
    moment: str = "never"
    step_seconds: float = 0.0
    memory: str | None = None


def run_of(storage: Path, attempt: int, memory: str | None = None) -> Run:
    every = MEMORY_EVERY if memory else None
    return Run("job", str(storage), attempt, EVERY, CheckpointConfig(num_to_keep=2), None, every, memory)


def train(rank: int, storage: Path, plan: Plan) -> None:
    """Train in one worker, and leave its final numbers in the storage."""
    context = SimpleNamespace(get_world_rank=lambda: rank)
    with (
        mock.patch.object(ray.train, "get_context", return_value=context),
        mock.patch.object(ray.train, "report"),
        {**MOMENTS, **MEMORY_MOMENTS}[plan.moment](),
        completing(),
    ):
        checkpoints = Checkpoints(run_of(storage, plan.attempt, plan.memory))
        training = Training("ddp", "cpu")
        torch_state.seed_all(100 + rank)
        for step in range(checkpoints.restore(lambda path: training.load(path, rank)), plan.steps):
            training.step(step)
            time.sleep(plan.step_seconds)
            if checkpoints.due(step + 1):
                checkpoints.save(step + 1, lambda path: training.async_save(path, rank), {"seen": step + 1})
            (storage / f"reached-{rank}").write_text(str(step + 1))
    torch.save(training.result(), storage / f"result-{rank}.pt")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _is_last(path: Path) -> bool:
    return f"{AT:09}@" in str(path)


@contextlib.contextmanager
def _never() -> Iterator[None]:
    yield


@contextlib.contextmanager
def _copying() -> Iterator[None]:
    copy = torch_state.async_save

    def copy_and_die(directory: Path, *arguments: Any, **words: Any) -> Rest:
        rest = copy(directory, *arguments, **words)
        if _is_last(directory):
            die()
        return rest

    with mock.patch.object(torch_state, "async_save", copy_and_die):
        yield


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    copy = torch_state.async_save

    def copy_only(directory: Path, *arguments: Any, **words: Any) -> Rest:
        rest = copy(directory, *arguments, **words)

        def write_half(_: Any) -> None:
            (directory / "__0_0.distcp").write_bytes(b"half")
            die()

        return write_half if _is_last(directory) else rest

    with mock.patch.object(torch_state, "async_save", copy_only):
        yield


@contextlib.contextmanager
def _before_the_commit() -> Iterator[None]:
    commit = CheckpointStore.commit

    def die_or_commit(store: CheckpointStore, saved: Any, *arguments: Any) -> None:
        if saved.step == AT:
            die()
        commit(store, saved, *arguments)

    with mock.patch.object(CheckpointStore, "commit", die_or_commit):
        yield


@contextlib.contextmanager
def _in_the_commit() -> Iterator[None]:
    sync = os.fsync

    def die_or_sync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if _is_last(path) and path.name.startswith(f".{MANIFEST}"):
            die()
        sync(descriptor)

    with mock.patch.object(os, "fsync", die_or_sync):
        yield


@contextlib.contextmanager
def _after_the_commit() -> Iterator[None]:
    prune = CheckpointStore.prune

    def die_or_prune(store: CheckpointStore, config: CheckpointConfig) -> None:
        if store.committed()[-1].step == AT:
            die()
        prune(store, config)

    with mock.patch.object(CheckpointStore, "prune", die_or_prune):
        yield


@contextlib.contextmanager
def _before_the_record() -> Iterator[None]:
    add = Records.add

    def die_or_add(records: Records, held: MemoryCheckpoint) -> None:
        if held.saved.step == MEMORY_AT:
            die()
        add(records, held)

    with mock.patch.object(Records, "add", die_or_add):
        yield


@contextlib.contextmanager
def _after_the_record() -> Iterator[None]:
    add = Records.add

    def add_and_die(records: Records, held: MemoryCheckpoint) -> None:
        add(records, held)
        if held.saved.step == MEMORY_AT:
            die()

    with mock.patch.object(Records, "add", add_and_die):
        yield


MOMENTS: Final[dict[str, Callable[[], contextlib.AbstractContextManager[None]]]] = {
    "never": _never,
    "while the state is copied": _copying,
    "while files are written": _writing,
    "before the commit": _before_the_commit,
    "in the commit": _in_the_commit,
    "after the commit": _after_the_commit,
}
MEMORY_MOMENTS: Final = {"before the record in memory": _before_the_record, "after a save in memory": _after_the_record}
