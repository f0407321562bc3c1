"""Runs of two workers that the first version of the library wrote resume, and end as they did with that version."""

import json
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import ray.train
from ray.train import CheckpointConfig

from ray_resume import Checkpoints, Run
from tests.jobs.support.together import together
from tests.jobs.support.trainings import Training

EARLIER = Path(__file__).with_name("earlier")
"""For each wrapper, the run `job` after 10 steps, and the numbers of each worker after 20."""


def resume(rank: int, storage: Path, wrapper: str) -> None:
    run = Run("job", str(storage), 2, 5, CheckpointConfig())
    with mock.patch.object(ray.train, "get_context", return_value=SimpleNamespace(get_world_rank=lambda: rank)):
        training = Training(wrapper, "cpu")
        done = Checkpoints(run).restore(partial(training.load, rank=rank))
    assert done == 10
    for step in range(done, 20):
        training.step(step)
    expected = json.loads((storage / "expected.json").read_text())[rank]
    for one, numbers in zip(training.result(), expected, strict=True):
        # Another processor's kernels round differently: by at most 7e-7 of the largest number of a tensor between two
        # kinds of Xeon. Numbers near zero are sums of larger ones and differ by more of themselves.
        largest = max(map(abs, numbers), default=0.0)
        assert one.flatten().tolist() == pytest.approx(numbers, rel=0, abs=2e-6 * largest)


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_run_of_two_workers_of_the_first_version_resumes(tmp_path: Path, wrapper: str) -> None:
    shutil.copytree(EARLIER / wrapper, tmp_path, dirs_exist_ok=True)
    together(2, resume, tmp_path / "meeting", tmp_path, wrapper)
