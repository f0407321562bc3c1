"""The saved state is all that a training needs to resume: two processes over gloo, without Ray."""

import random
from collections import deque
from contextlib import nullcontext
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


OPTIMIZERS = {
    name: kind
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer
}
NEVER_LOAD = {"LBFGS", "SparseAdam"}
MATRIX = 2
"""The dimensions of a parameter that Muon takes (PyTorch 2.9 and newer)."""


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_optimizer_of_pytorch_resumes_or_is_refused_at_the_first_save(
    name: str, tmp_path: Path, group_of_one: None
) -> None:
    def build() -> Training:
        training = Training("plain", "cpu")
        trained = [each for each in training.wrapped.parameters() if name != "Muon" or each.ndim == MATRIX]
        training.optimizer = OPTIMIZERS[name](trained, lr=0.1)
        return training

    training = build()
    if name in NEVER_LOAD:
        with pytest.raises(TypeError, match=rf"^optimizer {name} is invalid: .*Allowed: "):
            training.save(tmp_path / "half", 0)
        return
    for step in range(3):
        training.step(step)
    training.save(tmp_path / "half", 0)
    resumed = build()
    resumed.load(tmp_path / "half", 0)
    for one in (training, resumed):
        torch_state.seed_all(1)
        for step in range(3, 6):
            one.step(step)
    assert all(torch.equal(*pair) for pair in zip(training.result(), resumed.result(), strict=True))


class TwoModelsOneOptimizer(Training):
    """Trains two models with one optimizer, and saves them as the refusal of one of them says."""

    def __init__(self, wrapper: str, device: str) -> None:
        super().__init__(wrapper, device)
        self.only = self.wrapped
        self.wrapped = nn.ModuleList([self.only, Training(wrapper, device).wrapped])
        self.optimizer = torch.optim.Adam(self.wrapped.parameters(), lr=0.1)

    def loss(self, step: int) -> torch.Tensor:
        losses = [one(self.inputs(step), step).float().square().mean() for one in self.wrapped]
        return sum(losses[1:], losses[0])


def train_two(rank: int, directory: Path, wrapper: str) -> None:
    training, resumed = (TwoModelsOneOptimizer(wrapper, "cpu") for _ in range(2))
    for save in (torch_state.save, torch_state.async_save):
        with pytest.raises(TypeError, match=r"of them are not the model's\. .*Fix: give torch\.nn\.ModuleList"):
            save(directory, training.only, training.optimizer, rank=rank)
    assert not directory.exists()
    training.step(0)
    training.save(directory, rank)
    resumed.load(directory, rank)
    for one in (training, resumed):
        torch_state.seed_all(rank)
        one.step(1)
    assert all(torch.equal(*pair) for pair in zip(training.result(), resumed.result(), strict=True))


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_one_optimizer_of_two_models_is_refused_at_the_first_save_and_the_fix_works(
    tmp_path: Path, wrapper: str
) -> None:
    together(1 if wrapper == "plain" else 2, train_two, tmp_path / "meeting", tmp_path / "half", wrapper)


class Held:
    """Has any state."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state["state"]


class Position:
    """Is a value without an order or a fixed representation."""

    def __init__(self, at: int) -> None:
        self.at, self.itself = at, self


def draw_one() -> float:
    return random.random()  # noqa: S311 (what scripts use)


def draw_other() -> float:
    return random.gauss(0, 1)


DIFFERING: dict[str, tuple[Any, Any]] = {
    "a number": (0.25, 0.5),
    "a type": (1, True),
    "a text": ("train", "test"),
    "nothing": (None, 0),
    "a tensor's values": (torch.zeros(3), torch.tensor([0.0, 0.0, -0.0])),
    "a tensor's type": (torch.zeros(3), torch.zeros(3, dtype=torch.bfloat16)),
    "a tensor's shape": (torch.zeros(2, 3), torch.zeros(3, 2)),
    "an array": (np.arange(4), np.arange(1, 5)),
    "an array of objects": (np.array([{"a": 1}, None]), np.array([{"a": 2}, None])),
    "a random generator": (np.random.RandomState(1).get_state(), np.random.RandomState(2).get_state()),
    "something deep": ({"a": [(1, {"b": {2, 3}})]}, {"a": [(1, {"b": {2, 4}})]}),
    "an order": ([1, 2], [2, 1]),
    "a key": ({"a": 1}, {"b": 1}),
    "an object": (Position(1), Position(2)),
    "a queue": (deque([1, 2]), deque([1, 3])),
    "a function": (draw_one, draw_other),
}
EQUAL: dict[str, tuple[Any, Any]] = {
    "the order of keys": ({"a": 1, "b": [2.0]}, {"b": [2.0], "a": 1}),
    "strides": (torch.arange(6).reshape(2, 3), torch.arange(6).reshape(2, 3).T.contiguous().T),
    "nothing at all": (float("nan"), float("nan")),
    "addresses": (Position(1), Position(1)),
    "a set's order": ({"one", "two", "three"}, {"three", "two", "one"}),
    "a class": (Path, Path),
    "no elements": (torch.zeros(0), torch.zeros(0)),
}


def save_states(rank: int, directory: Path) -> None:
    training = Training("ddp", "cpu")
    for name, states in DIFFERING.items():
        training.extra = {"alike": Held(1), "loader": Held(states[rank])}
        for save in (training.save, training.async_save):
            with pytest.raises(
                ValueError, match=r"extra 'loader' is invalid: the state of worker 1 differs.*Fix: move"
            ):
                save(directory / name, rank)
    for name, states in EQUAL.items():
        training.extra = {"loader": Held(states[rank])}
        training.save(directory / name, rank)


def test_state_that_is_saved_once_must_be_the_same_at_all_workers(tmp_path: Path) -> None:
    together(2, save_states, tmp_path / "meeting", tmp_path)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == set(EQUAL)


def save_own_states(rank: int, directory: Path) -> None:
    training = Training("ddp", "cpu")
    words = {"model": training.wrapped, "optimizer": training.optimizer, "rank": rank}
    loader = Held([rank, torch.full((2,), float(rank))])
    training.step(0)
    torch_state.save(directory / "saved", **words, extra_per_worker={"loader": loader})
    rest = torch_state.async_save(directory / "copied", **words, extra_per_worker={"loader": loader})
    loader.state = None
    rest(None)
    for folder in ("saved", "copied"):
        torch_state.load(directory / folder, **words, reseed=1, extra_per_worker={"loader": loader})
        assert loader.state[0] == rank
        assert loader.state[1].tolist() == [rank, rank]
    with pytest.warns(UserWarning, match="the state of other is not in the checkpoint") if rank == 0 else nullcontext():
        torch_state.load(directory / "saved", **words, reseed=1, extra_per_worker={"other": loader, "loader": loader})


def load_own_states(rank: int, directory: Path) -> None:
    training, loader = Training("ddp", "cpu"), Held("as it was")
    words = {"model": training.wrapped, "optimizer": training.optimizer, "rank": rank, "reseed": 1}
    told = r"extra_per_worker of 2 workers does not fit 3 workers: loader\. Fix: use 2 workers, or leave"
    with pytest.raises(ValueError, match=told):
        torch_state.load(directory / "saved", **words, extra_per_worker={"loader": loader})
    torch_state.load(directory / "saved", **words)
    assert loader.state == "as it was"


def test_each_worker_gets_its_own_state_back_and_other_numbers_of_workers_are_refused(tmp_path: Path) -> None:
    together(2, save_own_states, tmp_path / "meeting", tmp_path)
    together(3, load_own_states, tmp_path / "other-meeting", tmp_path)


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
