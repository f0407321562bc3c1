"""Runs of two workers that the first version of the library wrote with PyTorch 2.6 resume, each with its own state.

With PyTorch 2.6 they also end with the numbers of that version.
"""

import json
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import ray.train
import torch
from ray.train import CheckpointConfig
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

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
    saved = storage / "job/checkpoints/000000010@0001.01"
    assert_state_of(saved, training, rank, storage / f"read-{rank}.pt")
    for step in range(done, 20):
        training.step(step)
    if not torch.__version__.startswith("2.6."):
        # Newer dropout on CPUs draws other numbers from the same generator.
        assert all(one.isfinite().all() for one in training.result())
        return
    expected = json.loads((storage / "expected.json").read_text())[rank]
    for one, numbers in zip(training.result(), expected, strict=True):
        # Another processor's kernels round differently: by at most 7e-7 of the largest number of a tensor between two
        # kinds of Xeon. Numbers near zero are sums of larger ones and differ by more of themselves.
        largest = max(map(abs, numbers), default=0.0)
        assert one.flatten().tolist() == pytest.approx(numbers, rel=0, abs=2e-6 * largest)


def assert_state_of(saved: Path, training: Training, rank: int, file: Path) -> None:
    """Compare with what PyTorch's own tools read from the checkpoint: weights, and the generator of CPUs."""
    dcp_to_torch_save(saved, file)
    weights = torch.load(file, weights_only=False)["model"]
    loaded = get_model_state_dict(training.wrapped, options=StateDictOptions(full_state_dict=True))
    # A sharded model's whole state is the first worker's only.
    for name, value in loaded.items():
        assert torch.equal(value, weights[name]), name
    assert loaded or rank
    generators = torch.load(saved / f"generators-{rank:05d}.pt", weights_only=False)
    assert torch.equal(torch.get_rng_state(), generators["torch"])


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_run_of_two_workers_of_the_first_version_resumes(tmp_path: Path, wrapper: str) -> None:
    shutil.copytree(EARLIER / wrapper, tmp_path, dirs_exist_ok=True)
    together(2, resume, tmp_path / "meeting", tmp_path, wrapper)
