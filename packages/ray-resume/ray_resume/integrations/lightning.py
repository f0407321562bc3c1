"""PyTorch Lightning: a callback that saves, and a fit that resumes, also within an epoch.

    resume = Resume(ray_resume.Checkpoints(config["run"]))
    trainer = Trainer(
        max_epochs=3, strategy=RayDDPStrategy(), plugins=[RayLightningEnvironment()], callbacks=[resume], logger=False
    )
    resume.fit(trainer, module, DataLoader(dataset, batch_size=16, shuffle=True))

Steps are the trainer's `global_step`. A training's DataLoader keeps its arguments, but its samples come in an order of
the run: a function of the seed and the epoch, so that a checkpoint within an epoch needs only the number of batches.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed.checkpoint as dcp
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler

from ray_resume.collective import by_rank_0
from ray_resume.data_order import DataOrder, InOrder
from ray_resume.integrations import positions
from ray_resume.integrations.packages import needing
from ray_resume.runs import InvalidInputError
from ray_resume.worker import Checkpoints

with needing("PyTorch Lightning", "lightning"):
    # As Ray Train chooses (ray.train.lightning): an environment may have both.
    try:
        import lightning.pytorch as pl
    except ModuleNotFoundError:
        import pytorch_lightning as pl

__all__ = ["Resume", "load_weights"]

_FILE: Final = "lightning.ckpt"
# Those that DataLoader and torchdata's StatefulDataLoader make for `shuffle`.
_SHUFFLING: Final = ("torch.utils.data.sampler", "torchdata.stateful_dataloader.sampler")


class Resume(pl.callbacks.Checkpoint):  # type: ignore[misc]  # Lightning is in the jobs' environment only
    """Saves the trainer's state in the run's checkpoints: model, optimizers, schedulers, scaler, loops, callbacks.

    A checkpoint that is due after the last step of an epoch is saved at the end of the epoch: its metrics then include
    those of the validation.
    """

    def __init__(self, checkpoints: Checkpoints, weights: Callable[[Path], None] | None = None) -> None:
        """Save to and resume from `checkpoints`.

        Args:
            checkpoints: the run's checkpoints.
            weights: loads the weights of another run, for a run that starts with them.
        """
        self._checkpoints = checkpoints
        self._weights = weights
        self._reading = contextlib.ExitStack()
        self._step = self._saved = self._seed = 0
        self._drawing = positions.Drawing()
        self._within_epoch = False
        self._due = False

    def fit(self, trainer: pl.Trainer, *arguments: Any, **words: Any) -> None:
        """Call `trainer.fit` with these arguments; continue from the run's newest checkpoint.

        The seed of worker 0's PyTorch decides the order of the samples, and stays that of the run.

        Raises:
            InvalidInputError: no checkpoint can hold the order of a training's loader.
            ValueError: another number of workers has saved it.
        """
        self._seed = by_rank_0(torch.initial_seed)
        with self._reading:
            directory, self._step = self._reading.enter_context(self._checkpoints.restoring(self._weights))
            self._saved = self._step
            if directory is not None:
                state = positions.read(directory, trainer.global_rank, trainer.world_size)
                self._within_epoch = state["within_epoch"]
                if self._within_epoch and "seed" not in state and trainer.is_global_zero:
                    print(
                        f"warning: the checkpoint of step {self._step} holds no order of samples, because an earlier "
                        "ray-resume wrote it: this epoch may repeat or omit samples. The next epochs do not",
                        flush=True,
                    )
                self._seed = state.get("seed", self._seed)
                self._drawing = positions.Drawing(state["generators"])
            trainer.fit(*arguments, **words, ckpt_path=directory and directory / _FILE)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:  # noqa: ARG002
        if stage == "fit":
            # The one place through which a loader comes from an argument, a module or a data module.
            source = trainer.fit_loop._data_source
            source.dataloader = partial(self._resumable, trainer, partial(type(source).dataloader, source))

    def _resumable(self, trainer: pl.Trainer, loaders: Callable[[], Any]) -> Any:
        """Return the training's loaders, each of which continues within an epoch."""
        found = loaders()
        if not isinstance(found, pl.utilities.CombinedLoader):
            found = pl.utilities.CombinedLoader(found, "max_size_cycle")
        found.flattened = [self._ordered(trainer, loader, number) for number, loader in enumerate(found.flattened)]
        return found

    def _ordered(self, trainer: pl.Trainer, loader: Any, number: int) -> Any:
        """Return the loader in an order of the run, or as it is if it holds its order itself."""
        divided = isinstance(loader, DataLoader) and trainer._data_connector._requires_distributed_sampler(loader)
        if _holds_its_order(loader) and not divided:
            return loader
        if not isinstance(loader, DataLoader) or loader.batch_size is None or not _is_plain(loader.sampler):
            raise InvalidInputError(
                f"the training's loader {type(loader).__name__} is invalid: no checkpoint can hold the order of its "
                "samples. Allowed: a DataLoader without sampler and batch_sampler; a loader with state_dict and "
                "load_state_dict. Fix: DataLoader(dataset, batch_size=16, shuffle=True)"
            )
        share = trainer.distributed_sampler_kwargs if divided else None
        rank, world = (share["rank"], share["num_replicas"]) if share else (0, 1)
        samples, batch = len(loader.dataset), loader.batch_size * world
        shuffled = not isinstance(loader.sampler, SequentialSampler) and not trainer.overfit_batches
        order = (
            self._checkpoints.data_order(samples, batch, self._seed + number)
            if shuffled
            else InOrder(samples, batch, self._seed)
        )
        return _Ordered(trainer, loader, order, rank, world)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        # The iterator of an epoch draws from the generators when it is created, which may be before the epoch begins.
        if not self._within_epoch:
            self._drawing.restore()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        if self._within_epoch:
            return
        # Lightning first ends the epoch of the checkpoint, and then creates the next epoch's iterator again. Its loop
        # does so only if it is not restarting.
        if not trainer.fit_loop.epoch_loop.restarting:
            self._drawing.restore()
        self._drawing.forget()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        self._reading.close()

    def on_train_batch_start(self, *_: Any) -> None:
        self._drawing.resume()

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,  # noqa: ARG002
        outputs: Any,
        *_: Any,
    ) -> None:
        if trainer.global_step == self._step:
            return  # gradients are accumulated
        self._step = trainer.global_step
        self._checkpoints.meter.step(self._step, loss=outputs["loss"] if outputs else None)
        self._due = self._checkpoints.due(self._step)
        if self._due and not trainer.is_last_batch:
            self._save(trainer, within_epoch=True)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        if self._due:
            self._save(trainer, within_epoch=False)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        if self._step != self._saved:
            self._save(trainer, within_epoch=not trainer.is_last_batch)

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: Any, checkpoint: dict[str, Any]) -> None:  # noqa: ARG002
        if not self._within_epoch:
            # Lightning takes the last batch without asking the loader whether another follows: the loader's state says
            # that its epoch is not over, and the next epoch would have no batches.
            checkpoint["loops"]["fit_loop"]["state_dict"].pop("combined_loader", None)

    def _save(self, trainer: pl.Trainer, *, within_epoch: bool) -> None:
        self._due, self._saved, self._within_epoch = False, self._step, within_epoch

        def write(directory: Path) -> None:
            with _own_directory(trainer.strategy):
                trainer.save_checkpoint(directory / _FILE)
            worker = trainer.global_rank, trainer.world_size
            positions.write(directory, *worker, within_epoch=within_epoch, seed=self._seed)

        self._checkpoints.save(self._step, write, dict(trainer.callback_metrics))


class _Ordered:
    """The batches of a DataLoader, which take the samples of an order, from the batch on that the trainer is at.

    No DataLoader itself: Lightning would replace its sampler.
    """

    def __init__(self, trainer: pl.Trainer, loader: DataLoader[Any], order: DataOrder, rank: int, world: int) -> None:
        self._trainer = trainer
        self._loader = copy.copy(loader)
        self._share = rank, world, loader.batch_size
        self._order = order
        self._batches = _Batches()
        # A DataLoader refuses an assignment: for users, a changed sampler would have no effect.
        vars(self._loader)["batch_sampler"] = self._batches
        self._length = order.samples // order.batch if loader.drop_last else order.steps_per_epoch

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        # Lightning makes an iterator before it knows the epoch: this runs when it takes the first batch.
        start = self._trainer.current_epoch * self._order.steps_per_epoch
        done = self._trainer.fit_loop.epoch_loop.batch_progress.current.ready % self._length
        self._batches.now = self._order.batches(range(start + done, start + self._length), *self._share)
        yield from self._loader

    # Lightning warns of a loader without them. Its own progress holds the position.
    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass

    @property
    def worker_init_fn(self) -> Any:
        """Lightning sets it for `seed_everything(workers=True)`."""
        return self._loader.worker_init_fn

    @worker_init_fn.setter
    def worker_init_fn(self, call: Callable[[int], None]) -> None:
        self._loader.worker_init_fn = call


class _Batches:
    """A batch sampler whose batches change with the epochs: persistent workers keep the first batch sampler."""

    now: Sequence[list[int]] = ()

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.now)

    def __len__(self) -> int:
        return len(self.now)


def _is_plain(sampler: Any) -> bool:
    """Return whether the sampler is what a DataLoader makes for `shuffle`."""
    if type(sampler) is SequentialSampler:
        return True
    shuffles = type(sampler).__name__ == RandomSampler.__name__ and type(sampler).__module__ in _SHUFFLING
    return shuffles and not sampler.replacement and sampler.num_samples == len(sampler.data_source)


def _holds_its_order(loader: Any) -> bool:
    """Return whether the loader's state says which samples follow."""
    if not _has_state(loader):
        return False
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return True
    return _has_state(loader.sampler) or _has_state(loader.batch_sampler)


def _has_state(thing: Any) -> bool:
    return hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")


@contextlib.contextmanager
def _own_directory(strategy: Any) -> Iterator[None]:
    """Let each worker write into a directory of its own, whose files are synced and moved when all are written.

    Strategies that write in parts broadcast the path: all workers would write into the directory of worker 0, which may
    be on a disk of its node, and whose files only worker 0 would sync.
    """
    strategy.broadcast = lambda obj, src=0: obj  # noqa: ARG005
    try:
        yield
    finally:
        del strategy.broadcast


def load_weights(directory: Path, module: pl.LightningModule) -> None:
    """Read only the module's weights from a checkpoint, also from one in parts. All workers call it together."""
    file = directory / _FILE
    if file.is_dir():
        weights = module.state_dict()
        dcp.load({"model": weights}, checkpoint_id=file)
    else:
        weights = torch.load(file, map_location="cpu", weights_only=False)["state_dict"]
    module.load_state_dict(weights)
