"""What only GPUs can show, on all GPUs of this machine: `make test-gpu`.

NCCL, CUDA's own generators, bf16 and the parts of distributed checkpoints, with one worker and with one on each GPU.
"""

from pathlib import Path

import pytest
import torch

from tests.jobs.support.together import together
from tests.jobs.support.trainings import TRAININGS, WRAPPERS, resume

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpus() -> int:
    """Return the number of GPUs; without one, these tests fail, because only `make test-gpu` selects them."""
    number = int(torch.cuda.device_count())
    assert number, "this machine has no GPU. Fix: run `make test-gpu` on a machine with one"
    return number


@pytest.mark.parametrize("alone", [True, False], ids=["one worker", "a worker on each GPU"])
@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("kind", TRAININGS)
def test_training_on_gpus_resumes_bit_by_bit(tmp_path: Path, gpus: int, kind: str, wrapper: str, alone: bool) -> None:
    workers = 1 if alone or wrapper == "plain" else gpus
    together(workers, resume, tmp_path / "meeting", tmp_path / "half", kind, wrapper, "cuda", backend="nccl")
