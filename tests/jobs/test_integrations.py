"""Trainings in other frameworks are killed: they take the samples of undisturbed ones, and end with the same weights.

With the same number of workers on CPUs all four do. A kill is a SIGKILL of a worker's process. The workers start
without Ray, because those of a framework take long to start.
"""

import itertools
import multiprocessing
import os
import random
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import ray.train
import ray.train.torch
import torch
from ray.train import CheckpointConfig
from torch.multiprocessing.spawn import ProcessExitedException

from ray_resume import Run
from ray_resume.integrations.packages import needing
from ray_resume.worker import completing
from tests.jobs.support import framework_trainings
from tests.jobs.support.framework_trainings import BATCH, EPOCHS, EVERY, KILLS, STEPS, TRAININGS, seen
from tests.jobs.support.together import together

OTHERS = sorted(set(TRAININGS) - {"lightning"})


@dataclass(frozen=True)
class Case:
    """A training that is killed before a step."""

    framework: str
    workers: int
    loaders: int
    """Processes that each worker's DataLoader starts."""
    accumulate: int
    kill: int

    def __str__(self) -> str:
        return f"{self.framework}-{self.workers}-{self.loaders}-{self.accumulate}-{self.kill}"


CASES = [
    Case(*each)
    for each in itertools.product(TRAININGS, (1, 2), (0, 2), (1, 2), KILLS)
    # Without a DataLoader of its own.
    if each[0] != "deepspeed" or each[2] == 0
]


def in_worker(rank: int, case: Case, storage: Path, attempt: int, kills: tuple[int, ...]) -> None:
    """Train in a worker of a group, as Ray Train starts it, but without Ray."""
    # As in Ray's workers; the processes of a DataLoader would start a server of their own, which would stay.
    multiprocessing.set_start_method("fork", force=True)
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": case.workers, "LOCAL_WORLD_SIZE": case.workers}
    os.environ |= {name: str(value) for name, value in ranks.items()} | {"ACCELERATE_TORCH_DEVICE": "cpu"}
    run = Run("job", str(storage), attempt, EVERY, CheckpointConfig(num_to_keep=2))
    answers = {
        "get_world_rank": rank,
        "get_local_rank": rank,
        "get_node_rank": 0,
        "get_world_size": case.workers,
    }
    context = SimpleNamespace(**{name: lambda value=value: value for name, value in answers.items()})
    words = {"framework": case.framework, "loaders": case.loaders, "accumulate": case.accumulate}
    with (
        mock.patch.object(ray.train, "get_context", return_value=context),
        mock.patch.object(ray.train, "report"),
        # Ray's own would start Ray in each worker.
        mock.patch.object(ray.train.torch, "get_device", return_value=torch.device("cpu")),
        completing(),
    ):
        framework_trainings.train({"run": run, "kills": kills, **words})


def check(case: Case, directory: Path) -> None:
    """Kill a worker; compare the samples of each step, and the last weights, with those of an undisturbed training."""
    killed, undisturbed = directory / "killed", directory / "undisturbed"
    for storage in (killed, undisturbed):
        (storage / "job").mkdir(parents=True)
        (storage / "job" / "run.json").write_text("{}")
    with pytest.raises(ProcessExitedException) as ended:
        together(case.workers, in_worker, directory / "first", case, killed, 1, (case.kill,))
    assert ended.value.signal_name == signal.SIGKILL.name
    together(case.workers, in_worker, directory / "second", case, killed, 2, ())
    began = (killed / "job" / "attempts" / "0002.01.json").read_text()
    assert f'"{KILLS[case.kill]:09}@0001.01"' in began
    together(case.workers, in_worker, directory / "alone", case, undisturbed, 1, ())
    expected = seen(undisturbed)
    assert seen(killed) == expected
    assert sorted(expected) == list(range(EPOCHS * STEPS))
    for epoch in range(EPOCHS):
        steps = range(epoch * STEPS, (epoch + 1) * STEPS)
        taken = [one for step in steps for samples in expected[step].values() for one in samples]
        assert sorted(taken) == list(range(STEPS * BATCH * case.workers)), f"epoch {epoch}"
    weights, others = torch.load(killed / "result"), torch.load(undisturbed / "result")
    assert weights.keys() == others.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, others[name]), name


def test_killed_lightning_workers_take_each_sample_once_and_end_with_the_same_bits(
    tmp_path: Path, draw: random.Random
) -> None:
    check(Case("lightning", 2, draw.choice((0, 2)), draw.choice((1, 2)), kill=14), tmp_path)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("framework", OTHERS)
def test_killed_workers_take_each_sample_once_and_end_with_the_same_bits(
    tmp_path: Path, framework: str, draw: random.Random
) -> None:
    check(Case(framework, 2, 0 if framework == "deepspeed" else draw.choice((0, 2)), draw.choice((1, 2)), 14), tmp_path)


@pytest.mark.sampled(1, long=24)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_kill_at_any_place_of_any_training_changes_neither_samples_nor_bits(tmp_path: Path, case: Case) -> None:
    check(case, tmp_path)


def test_missing_framework_is_named_with_the_extra_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    with (
        pytest.raises(ModuleNotFoundError, match=r"Fix: pip install 'ray-resume\[deepspeed\]'"),
        needing("DeepSpeed", "deepspeed"),
    ):
        __import__("deepspeed")
