"""The loaders of a Lightning training: whose order a checkpoint holds, and which are refused before the first step."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import ray
import torch
from ray.train import CheckpointConfig
from ray.train.base_trainer import TrainingFailedError
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, WeightedRandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader

from ray_resume import InvalidInputError, Run, training
from ray_resume.data_order import DataOrder
from ray_resume.integrations.lightning import Resume

SAMPLES = 22
BATCH = 4
EVERY = 4


class Checkpoints:
    """One checkpoint in a folder, without a run."""

    def __init__(self, directory: Path, every: int = EVERY) -> None:
        self.directory = directory
        self.every = every
        self.meter = self
        self.saved = 0

    @contextlib.contextmanager
    def restoring(self, _: object) -> Iterator[tuple[Path | None, int]]:
        yield (self.directory, self.saved) if self.saved else (None, 0)

    def data_order(self, samples: int, batch: int, seed: int) -> DataOrder:
        return DataOrder(samples, batch, seed, version=2)

    def due(self, step: int) -> bool:
        return step % self.every == 0

    def save(self, step: int, write: Callable[[Path], None], _: Mapping[str, Any]) -> None:
        write(self.directory)
        self.saved = step

    def step(self, *_: object, **__: object) -> None:
        pass


class EndedError(Exception):
    """Ends a training before a step."""


class Module(pl.LightningModule):  # type: ignore[misc]  # Lightning is in the jobs' environment only
    def __init__(self, loader: Any = None, end: int | None = None) -> None:
        super().__init__()
        self.end = end
        self.layer = nn.Linear(1, 1)
        self.taken: list[list[int]] = []
        self.loader = loader

    def train_dataloader(self) -> Any:
        return self.loader

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        if self.global_step == self.end:
            raise EndedError
        batch = torch.cat(batch) if isinstance(batch, (list, tuple)) else batch
        self.taken.append(batch.tolist())
        return self.layer(batch[:, None].float()).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Numbers(IterableDataset[int]):  # type: ignore[misc]  # PyTorch is in the jobs' environment only
    def __iter__(self) -> Iterator[int]:
        return iter(range(SAMPLES))


def fit(directory: Path, loader: Any, **words: Any) -> list[list[int]]:
    """Return the samples of each batch of a training."""
    return resumed(Checkpoints(directory), loader, **words)


def resumed(checkpoints: Any, loader: Any, *, hook: bool = False, end: int | None = None) -> list[list[int]]:
    """Return the samples of each batch of a training that is continued, and ends before the step `end`."""
    torch.manual_seed(7)
    resume, module = Resume(checkpoints), Module(copy.copy(loader), end)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = pl.Trainer(max_epochs=2, accelerator="cpu", callbacks=[resume], **quiet)
    with pytest.raises(EndedError) if end else contextlib.nullcontext():
        resume.fit(trainer, module, *(() if hook else (module.loader,)))
    return module.taken


def plain(**words: Any) -> DataLoader[int]:
    return DataLoader(range(SAMPLES), **{"batch_size": BATCH, **words})


def stateful(**words: Any) -> DataLoader[int]:
    return StatefulDataLoader(range(SAMPLES), **{"batch_size": BATCH, **words})


OURS = {
    "shuffled": plain(shuffle=True),
    "in order": plain(),
    "without the remainder": plain(shuffle=True, drop_last=True),
    "torchdata's": stateful(shuffle=True),
}


@pytest.mark.parametrize("hook", [False, True], ids=["argument", "hook"])
@pytest.mark.parametrize("loader", OURS.values(), ids=OURS)
def test_a_training_ended_within_an_epoch_takes_the_samples_that_are_left(
    tmp_path: Path, loader: Any, hook: bool
) -> None:
    whole = fit(tmp_path, loader, hook=hook)
    length = len(loader)
    for epoch in (whole[:length], whole[length:]):
        taken = sorted(one for batch in epoch for one in batch)
        assert len(set(taken)) == len(taken) == (SAMPLES if not loader.drop_last else length * BATCH)
    assert (whole[:length] == whole[length:]) == (loader is OURS["in order"])
    for end in (3, length, length + 2):
        checkpoints = Checkpoints(tmp_path, every=end)
        before = resumed(checkpoints, loader, hook=hook, end=end)
        assert before + resumed(checkpoints, loader, hook=hook) == whole, end


def test_processes_that_outlive_an_epoch_take_the_samples_of_the_next(tmp_path: Path) -> None:
    whole = fit(tmp_path, plain(shuffle=True))
    checkpoints = Checkpoints(tmp_path)
    before = resumed(checkpoints, plain(shuffle=True), end=EVERY)
    assert before + resumed(checkpoints, plain(shuffle=True, num_workers=1, persistent_workers=True)) == whole


def test_two_loaders_continue_where_each_was(tmp_path: Path) -> None:
    both = [plain(shuffle=True), plain(shuffle=True, batch_size=8)]
    whole = fit(tmp_path, both)
    assert len(whole) == 2 * len(both[0])
    checkpoints = Checkpoints(tmp_path)
    assert resumed(checkpoints, both, end=EVERY) + resumed(checkpoints, both) == whole


REFUSED = {
    "own sampler": plain(sampler=WeightedRandomSampler([1.0] * SAMPLES, SAMPLES)),
    "own sampler of torchdata's": stateful(sampler=WeightedRandomSampler([1.0] * SAMPLES, SAMPLES)),
    "with replacement": plain(sampler=RandomSampler(range(SAMPLES), replacement=True)),
    "own batches": DataLoader(range(SAMPLES), batch_sampler=[[0, 1], [2, 3]]),
    "no batches": plain(batch_size=None),
    "stream": DataLoader(Numbers(), batch_size=BATCH),
    "a list": [torch.tensor([1, 2])],
}


@pytest.mark.parametrize("loader", [pytest.param(each, id=name) for name, each in REFUSED.items()])
def test_a_loader_whose_order_no_checkpoint_holds_is_refused_with_the_fix(tmp_path: Path, loader: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"Fix: DataLoader\(dataset, batch_size=16, shuffle=True\)"):
        fit(tmp_path, {"one": loader} if isinstance(loader, DataLoader) else Plain(loader))
    dataset: Any = range(SAMPLES)
    assert fit(tmp_path, DataLoader(dataset, batch_size=16, shuffle=True))


class Plain:
    """An iterable that is neither a collection of loaders nor a DataLoader."""

    def __init__(self, batches: list[torch.Tensor]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self.batches)


class Stating(Plain):
    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


@pytest.mark.parametrize("loader", [StatefulDataLoader(Numbers(), batch_size=BATCH), Stating([torch.tensor([1, 2])])])
def test_a_loader_that_holds_its_order_stays_as_it_is(tmp_path: Path, loader: Any) -> None:
    batches = [batch.tolist() for batch in loader]
    assert fit(tmp_path, loader) == 2 * batches


def test_a_checkpoint_of_an_earlier_version_is_continued_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = Checkpoints(tmp_path)
    resumed(checkpoints, plain(shuffle=True), end=EVERY)
    [file] = tmp_path.glob("generators-*.pt")
    state = torch.load(file, weights_only=False)
    del state["seed"]
    torch.save(state, file)
    assert len(resumed(checkpoints, plain(shuffle=True))) == 2 * -(-SAMPLES // BATCH) - EVERY
    assert "holds no order of samples" in capsys.readouterr().out


def test_bad_input_that_a_worker_finds_is_the_jobs_bad_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ray.exceptions import RayTaskError

    found = RayTaskError(
        "train", "Traceback …\nray_resume.runs.InvalidInputError: no. Fix: yes", InvalidInputError("no")
    )

    def fails(*_: object, **__: object) -> None:
        raise TrainingFailedError("restore") from found.as_instanceof_cause()

    monkeypatch.setattr(training, "_fit", fails)
    # Before it handles SIGTERM, `fit` would connect this process to Ray.
    monkeypatch.setattr(ray, "init", lambda: None)
    run = Run("job", str(tmp_path), 1, EVERY, CheckpointConfig())
    with pytest.raises(InvalidInputError, match=r"^no\. Fix: yes$"):
        training.fit(run, print, {}, training.workers(1))
