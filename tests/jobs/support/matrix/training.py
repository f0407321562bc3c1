"""A training of any kind of trainings.py in one worker: it draws its data in the run's order, with random changes."""

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import numpy as np
import ray.train
import torch
import torch.distributed as dist
from ray.train import CheckpointConfig

from ray_resume import Checkpoints, Run, generators, torch_state
from ray_resume.data_order import DataOrder
from ray_resume.storage import RunStorage, open_storage
from ray_resume.worker import completing
from tests.jobs.support.matrix.faults import Fault, Operations
from tests.jobs.support.trainings import TRAININGS, Training
from tests.support.waiting import wait_until

STEPS: Final = 8
EVERY: Final = 2
SAMPLES: Final = 22
BATCH: Final = 6
"""An epoch has four steps, the last with fewer samples."""
_DATA: Final = torch.linspace(-1, 1, SAMPLES * 4).reshape(SAMPLES, 4)


@dataclass(frozen=True)
class Plan:
    """What a group of workers trains, as which attempt, and what happens to it.

    From step `superseded_at` on it trains only after workers of the next attempt have begun.
    """

    kind: str
    wrapper: str
    asynchronous: bool = False
    attempt: int = 1
    fault: Fault | None = None
    superseded_at: int | None = None


def run_of(storage: Path, attempt: int = 1) -> Run:
    return Run("job", str(storage), attempt, EVERY, CheckpointConfig(num_to_keep=2))


def folder_of(storage: Path) -> RunStorage:
    return open_storage(str(storage), "job")


def train(rank: int, storage: Path, plan: Plan) -> None:
    """Train to the end, and leave the final state in the storage; after an error, leave the error and exit with 1."""
    operations = Operations(plan.fault if plan.fault and plan.fault.rank == rank else None)
    context = SimpleNamespace(get_world_rank=lambda: rank)
    try:
        with (
            mock.patch.object(ray.train, "get_context", return_value=context),
            mock.patch.object(ray.train, "report"),
            operations.counting(),
            completing(),
        ):
            training = _train(rank, storage, plan, operations)
    except BaseException as error:  # noqa: BLE001 (whatever it is, the end of the group could wait for ever)
        (storage / f"error-{os.getpid()}").write_text(repr(error))
        os._exit(1)
    ended = {
        "numbers": training.result(),
        "extra": {name: one.state_dict() for name, one in training.extra.items() if name != "ema"},
        "generators": generators.state(),
    }
    torch.save((ended, dict(operations.of_save)), storage / f"ended-{rank}.pt")


def _train(rank: int, storage: Path, plan: Plan, operations: Operations) -> Training:
    checkpoints = Checkpoints(run_of(storage, plan.attempt))
    training = TRAININGS[plan.kind](plan.wrapper, "cpu")
    torch_state.seed_all(100 + rank)
    order = checkpoints.data_order(SAMPLES, BATCH, seed=7)
    save = training.async_save if plan.asynchronous else training.save
    with _reading(order, rank, storage):
        for step in range(checkpoints.restore(lambda path: training.load(path, rank)), STEPS):
            operations.before_step(step)
            if step == plan.superseded_at:
                _wait_for_successors(storage, rank, plan.attempt)
            training.step(step)
            if checkpoints.due(step + 1, last=step + 1 == STEPS):
                checkpoints.save(step + 1, lambda path: save(path, rank), {"step": step + 1})
    return training


def _wait_for_successors(storage: Path, rank: int, attempt: int) -> None:
    (storage / f"waits-{rank}").touch()
    began = f"{attempt + 1:04}.01.json"
    wait_until(lambda: began in folder_of(storage).names("attempts"), "workers of the next attempt")


@contextlib.contextmanager
def _reading(order: DataOrder, rank: int, storage: Path) -> Iterator[None]:
    """Let the models of this block read the samples of a step, changed at random, and record which they were."""
    trace = storage / f"trace-{rank}-{os.getpid()}"

    def inputs(_: Any, step: int) -> torch.Tensor:
        [(samples, _weight)] = order.pieces(step, rank, dist.get_world_size(), BATCH)
        with trace.open("a") as file:
            file.write(f"{rank} {step} {samples}\n")
        return _DATA[samples] * (1 + random.random()) + np.random.rand()  # noqa: S311 (what scripts use)

    with mock.patch.object(Training, "inputs", inputs):
        yield


def ended(storage: Path, workers: int) -> tuple[list[dict[str, Any]], list[dict[int, int]]]:
    """Return the final state of each worker, and how many operations each of its saves took."""
    found = [torch.load(storage / f"ended-{rank}.pt", weights_only=False) for rank in range(workers)]
    return [state for state, _ in found], [operations for _, operations in found]


def seen(storage: Path) -> set[str]:
    """Return which samples each worker read for each step, of all groups of workers together."""
    return {line for trace in storage.glob("trace-*") for line in trace.read_text().splitlines()}


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yield where two states differ."""
    equal: Callable[[Any, Any], bool] = lambda a, b: bool(a == b)  # noqa: E731
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key, value in one.items():
            yield from differences(value, other[key], f"{path}/{key}")
        return
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{path}/{number}")
        return
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        equal = torch.equal
    elif isinstance(one, np.ndarray):
        equal = np.array_equal
    if not equal(one, other):
        yield path
