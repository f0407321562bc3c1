"""PyTorch Lightning: a callback that saves, and a fit that resumes, also within an epoch.

    resume = Resume(ray_resume.Checkpoints(config["run"]))
    trainer = Trainer(
        max_epochs=3, strategy=RayDDPStrategy(), plugins=[RayLightningEnvironment()], callbacks=[resume], logger=False
    )
    resume.fit(trainer, module, StatefulDataLoader(dataset, batch_size=16, shuffle=True))

Steps are the trainer's `global_step`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed.checkpoint as dcp

from ray_resume.integrations import positions
from ray_resume.integrations.packages import needing
from ray_resume.worker import Checkpoints

with needing("PyTorch Lightning", "lightning"):
    # As Ray Train chooses (ray.train.lightning): an environment may have both.
    try:
        import lightning.pytorch as pl
    except ModuleNotFoundError:
        import pytorch_lightning as pl

__all__ = ["Resume", "load_weights"]

_FILE: Final = "lightning.ckpt"


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
        self._step = self._saved = 0
        self._drawing = positions.Drawing()
        self._within_epoch = False
        self._due = False

    def fit(self, trainer: pl.Trainer, *arguments: Any, **words: Any) -> None:
        """Call `trainer.fit` with these arguments; continue from the run's newest checkpoint.

        Raises:
            ValueError: another number of workers has saved it.
        """
        with self._reading:
            directory, self._step = self._reading.enter_context(self._checkpoints.restoring(self._weights))
            self._saved = self._step
            if directory is not None:
                state = positions.read(directory, trainer.global_rank, trainer.world_size)
                self._within_epoch = state["within_epoch"]
                self._drawing = positions.Drawing(state["generators"])
            trainer.fit(*arguments, **words, ckpt_path=directory and directory / _FILE)

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
            positions.write(directory, trainer.global_rank, trainer.world_size, within_epoch=within_epoch)

        self._checkpoints.save(self._step, write, dict(trainer.callback_metrics))


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
