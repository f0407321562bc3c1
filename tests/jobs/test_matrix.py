"""Every kind of model, in every wrapper, ends after every fault with the bits of a run without a fault.

All that a run ends with is compared: weights, the optimizer, moving averages, schedulers, random number generators, and
which samples each worker read for each step. Workers are processes over gloo that use the library as it is, except
that nothing is reported to Ray Train. Faults happen at drawn operations of a save, or before drawn steps.
"""

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from ray_resume.checkpoint_store import CheckpointStore
from tests.jobs.support.matrix.faults import Fault
from tests.jobs.support.matrix.groups import WORKERS, Groups
from tests.jobs.support.matrix.training import EVERY, STEPS, Plan, differences, ended, folder_of, seen
from tests.jobs.support.trainings import TRAININGS
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Undisturbed:
    """What a run without a fault ended with, and how many operations each worker's saves took."""

    states: list[dict[str, Any]]
    operations: list[dict[int, int]]
    seen: set[str]


@dataclass(frozen=True)
class Case:
    """A run that a fault will interrupt."""

    groups: Groups
    plan: Plan
    draw: random.Random
    operations: list[dict[int, int]]

    def in_a_save(self, deed: str) -> Fault:
        """Return a fault at any operation of any save of any worker; the last save ends the run."""
        rank = self.draw.randrange(len(self.operations))
        step = self.draw.randrange(EVERY, STEPS, EVERY)
        return Fault(deed, rank, step, self.draw.randrange(self.operations[rank][step]))

    def between_saves(self, deed: str) -> Fault:
        """Return a fault before any step; the first save has begun by then."""
        return Fault(deed, self.draw.randrange(len(self.operations)), self.draw.randrange(EVERY + 1, STEPS))

    def kill(self, fault: Fault) -> None:
        """Let a first group of workers end with the death of one."""
        print(fault)
        codes = self.groups.start(replace(self.plan, fault=fault)).end()
        assert codes[fault.rank] == -signal.SIGKILL, self.errors()

    def resume(self, attempt: int = 1) -> None:
        """Let another group of workers train to the end."""
        codes = self.groups.start(replace(self.plan, attempt=attempt)).end()
        assert set(codes) == {0}, self.errors()

    def errors(self) -> list[str]:
        return [file.read_text() for file in self.groups.storage.glob("error-*")]

    @property
    def store(self) -> CheckpointStore:
        return CheckpointStore(folder_of(self.groups.storage))


def worker_killed(case: Case) -> None:
    case.kill(case.between_saves("kill"))
    case.resume()


def worker_killed_in_a_save(case: Case) -> None:
    case.kill(case.in_a_save("kill"))
    case.resume()


def node_frozen_in_a_save(case: Case) -> None:
    """Another group continues; the frozen worker thaws when they have begun, and continues its save."""
    fault = case.in_a_save("freeze")
    print(fault)
    group = case.groups.start(replace(case.plan, fault=fault))
    frozen = group.wait_for_freeze(fault.rank)
    successors = case.groups.start(case.plan)
    wait_until(lambda: "0001.02.json" in case.store.storage.names("attempts"), "other workers")
    os.kill(frozen.pid or 0, signal.SIGCONT)
    assert set(successors.end()) == {0}, case.errors()
    if len(group.workers) == 1:
        assert group.end_alone() == [1]
    # One of several can wait for the killed ones until its collective operation times out. Ray ends it before.


def head_lost(case: Case) -> None:
    """Workers without a head train on while those of the next attempt do, until they may not add a checkpoint."""
    step = case.draw.randrange(1, STEPS)
    print(f"superseded at step {step}")
    group = case.groups.start(replace(case.plan, superseded_at=step))
    waiting = [case.groups.storage / f"waits-{rank}" for rank in range(len(case.operations))]
    wait_until(lambda: all(each.exists() for each in waiting), "workers without a head")
    case.resume(attempt=2)
    assert set(group.end_alone()) == {1}


def storage_fails(case: Case, deed: str, told: str) -> None:
    """No worker waits for one that has given up: all end by themselves."""
    fault = case.in_a_save(deed)
    print(fault)
    group = case.groups.start(replace(case.plan, fault=fault))
    assert set(group.end_alone()) == {1}
    assert any(told in error for error in case.errors()), case.errors()
    newest = next(case.store.history(), None)
    assert newest is None or case.store.is_whole(newest)
    case.resume()


def storage_with_an_error_in_a_save(case: Case) -> None:
    storage_fails(case, "EIO", "Input/output error")


def storage_full_in_a_save(case: Case) -> None:
    storage_fails(case, "ENOSPC", "No space left on device")


def newest_checkpoint_damaged(case: Case) -> None:
    # In the last step two saves have ended, also asynchronous ones: a run does not start over when all are damaged.
    case.kill(Fault("kill", case.draw.randrange(len(case.operations)), STEPS - 1))
    newest, *older = case.store.history()
    assert older
    files = sorted((case.store.manifest(newest) or {})["files"])
    file = case.groups.storage / "job" / newest.folder / case.draw.choice(files)
    file.write_bytes(file.read_bytes()[:-1])
    case.resume()


FAULTS: Final[dict[str, Callable[[Case], None]]] = {
    fault.__name__.replace("_", " "): fault
    for fault in (
        worker_killed,
        worker_killed_in_a_save,
        node_frozen_in_a_save,
        head_lost,
        storage_with_an_error_in_a_save,
        storage_full_in_a_save,
        newest_checkpoint_damaged,
    )
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Plan], Undisturbed]:
    """Return a function that trains a model in a wrapper once without a fault, and saves blocking."""
    known: dict[Plan, Undisturbed] = {}

    def result(plan: Plan) -> Undisturbed:
        plan = replace(plan, asynchronous=False)
        if plan not in known:
            storage = tmp_path_factory.mktemp("undisturbed")
            with Groups(storage) as groups:
                assert set(groups.start(plan).end()) == {0}
            known[plan] = Undisturbed(*ended(storage, WORKERS[plan.wrapper]), seen(storage))
        return known[plan]

    return result


CASES: Final = {
    f"{kind}-{wrapper}-{saving}-{fault}": (Plan(kind, wrapper, asynchronous=saving == "asynchronous"), FAULTS[fault])
    for kind, wrapper, saving, fault in product(TRAININGS, WORKERS, ("blocking", "asynchronous"), FAULTS)
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("plan", "fault"), CASES.values(), ids=CASES)
def test_run_with_a_fault_ends_with_the_same_bits(
    tmp_path: Path,
    undisturbed: Callable[[Plan], Undisturbed],
    draw: random.Random,
    plan: Plan,
    fault: Callable[[Case], None],
) -> None:
    expected = undisturbed(plan)
    with Groups(tmp_path) as groups:
        fault(Case(groups, plan, draw, expected.operations))
    states, _ = ended(tmp_path, WORKERS[plan.wrapper])
    assert list(differences(states, expected.states)) == []
    assert seen(tmp_path) == expected.seen


@pytest.mark.parametrize(
    ("kind", "wrapper", "operation"),
    [
        pytest.param("usual", "fsdp", 0, id="no folder for the part of FSDP"),
        pytest.param("two models", "ddp", 4, id="no file for the generators of the first of two models"),
    ],
)
def test_worker_that_cannot_write_leaves_no_other_alone_in_a_collective_operation(
    tmp_path: Path, kind: str, wrapper: str, operation: int
) -> None:
    with Groups(tmp_path) as groups:
        group = groups.start(Plan(kind, wrapper, fault=Fault("EIO", 1, EVERY, operation)))
        assert group.end_alone() == [1, 1]
    errors = [file.read_text() for file in tmp_path.glob("error-*")]
    assert len(errors) == len(group.workers)
    assert all("OSError" in error and "worker 1: " in error and "Input/output" in error for error in errors), errors
