"""The saved state is all that a training needs to resume: two processes over gloo, without Ray."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_tensor

from ray_resume import generators, torch_state
from tests.jobs.support.together import together
from tests.jobs.support.trainings import TRAININGS, WRAPPERS, Training, resume


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("kind", TRAININGS)
def test_training_resumes_bit_by_bit(tmp_path: Path, kind: str, wrapper: str) -> None:
    workers = 1 if wrapper == "plain" else 2
    together(workers, resume, tmp_path / "meeting", tmp_path / "half", kind, wrapper)


def start_warm(rank: int, directory: Path, wrapper: str) -> None:
    """Load the weights of a saved training into a new one, and nothing else."""
    trained, new = (TRAININGS["usual"](wrapper, "cpu") for _ in range(2))
    for step in range(3):
        trained.step(step)
    trained.save(directory, rank)
    weights = [parameter.detach().clone() for parameter in trained.wrapped.parameters()]
    generator = torch.get_rng_state()
    torch_state.load_weights(directory, new.wrapped)
    assert all(torch.equal(*pair) for pair in zip(new.wrapped.parameters(), weights, strict=True))
    assert not new.optimizer.state
    assert torch.equal(torch.get_rng_state(), generator)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_weights_alone_start_another_training(tmp_path: Path, wrapper: str) -> None:
    together(1 if wrapper == "plain" else 2, start_warm, tmp_path / "meeting", tmp_path / "saved", wrapper)


def rewrite(rank: int, directory: Path) -> None:
    """Load the state that another number of workers wrote, and save it again."""
    training = TRAININGS["moving average"]("fsdp", "cpu")
    training.load(directory / "half", rank)
    training.save(directory / f"by-{dist.get_world_size()}", rank)


def numbers(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a checkpoint, their averages and the optimizer's, read with PyTorch's own tools."""
    file = checkpoint.with_suffix(".pt")
    dcp_to_torch_save(checkpoint, file)
    state = torch.load(file, weights_only=False)
    averages = {f"ema.{name}": one for name, one in state["extra"]["ema"].items()}
    optimizer = {
        f"{key}.{name}": one for name, values in state["optimizer"]["state"].items() for key, one in values.items()
    }
    assert optimizer
    return {**state["model"], **averages, **optimizer}


def test_parts_of_fsdp_can_be_read_by_other_numbers_of_workers(tmp_path: Path) -> None:
    together(2, resume, tmp_path / "meeting", tmp_path / "half", "moving average", "fsdp")
    expected = numbers(tmp_path / "half")
    for workers in (1, 3):
        together(workers, rewrite, tmp_path / f"meeting-of-{workers}", tmp_path)
        rewritten = numbers(tmp_path / f"by-{workers}")
        assert rewritten.keys() == expected.keys()
        for name, one in rewritten.items():
            assert torch.equal(one, expected[name]), name


@pytest.fixture
def training(group_of_one: None) -> Training:
    """Return a training that has done a step, with a scheduler."""
    training = TRAININGS["scheduler"]("plain", "cpu")
    training.step(0)
    return training


def test_weights_of_ddp_can_be_read_alone(tmp_path: Path, group_of_one: None) -> None:
    training = Training("ddp", "cpu")
    training.save(tmp_path / "half", 0)
    plain = type(training.bare)()
    torch_state.load_weights(tmp_path / "half", plain)
    for one, other in zip(plain.parameters(), training.bare.parameters(), strict=True):
        assert torch.equal(one, other)


def test_scheduler_that_is_not_saved_is_warned_of(tmp_path: Path, training: Training) -> None:
    training.extra = {}
    with pytest.warns(UserWarning, match=r"the optimizer has a scheduler that is not saved.*Fix: extra="):
        training.save(tmp_path / "half", 0)


@pytest.mark.filterwarnings("error:the optimizer has a scheduler", "error:the state of")
def test_scheduler_that_is_saved_is_not_warned_of(tmp_path: Path, training: Training) -> None:
    training.save(tmp_path / "half", 0)
    training.load(tmp_path / "half", 0)


def test_extra_object_that_only_one_side_has_is_warned_of(tmp_path: Path, training: Training) -> None:
    rate = training.optimizer.param_groups[0]["lr"]
    training.save(tmp_path / "half", 0)
    scheduler = training.extra["scheduler"]
    training.extra = {"ema": nn.Linear(2, 2), "other": scheduler}
    with pytest.warns(UserWarning, match="the state of") as warned:
        training.load(tmp_path / "half", 0)
    told = [str(one.message) for one in warned if "the state of" in str(one.message)]
    assert told == [
        "the state of ema, other is not in the checkpoint: it keeps its initial values",
        "the state of scheduler is in the checkpoint, and nothing loads it",
    ]
    assert training.optimizer.param_groups[0]["lr"] == rate


def test_state_in_parts_of_another_object_is_refused(tmp_path: Path, training: Training) -> None:
    class Shadow:
        def state_dict(self) -> dict[str, Any]:
            mesh = init_device_mesh("cpu", (1,))
            return {"shadow": [distribute_tensor(torch.ones(2), mesh)]}

    training.extra["shadow"] = Shadow()
    with pytest.raises(TypeError, match=r"extra 'shadow' is invalid.*Allowed: modules"):
        training.save(tmp_path / "half", 0)


def draw() -> tuple[float, float, float]:
    """Return a number of each generator."""
    return random.random(), np.random.rand(), torch.rand(1).item()  # noqa: S311 (what scripts use)


def test_every_generator_continues(tmp_path: Path, training: Training) -> None:
    training.save(tmp_path / "half", 0)
    drawn = draw()
    torch_state.seed_all(5)
    training.load(tmp_path / "half", 0)
    assert draw() == drawn


def test_worker_without_saved_generators_is_seeded(tmp_path: Path, training: Training) -> None:
    training.save(tmp_path / "half", 0)
    training.load(tmp_path / "half", 1)
    drawn = draw()
    torch_state.seed_all(1)
    assert draw() == drawn


def test_generator_of_the_workers_gpu_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU; tests/jobs/test_gpu.py shows it with one."""
    on_gpu = [torch.tensor([1], dtype=torch.uint8)]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", on_gpu[0].clone)
    monkeypatch.setattr(torch.cuda, "set_rng_state", on_gpu.append)
    state = generators.state()
    on_gpu.append(torch.tensor([2], dtype=torch.uint8))
    generators.restore(state)
    assert on_gpu[-1].item() == 1
