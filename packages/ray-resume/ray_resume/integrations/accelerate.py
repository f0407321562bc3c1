"""Hugging Face Accelerate: the batches of a training that continues within an epoch, and saves after its steps.

    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    resume = Resume(ray_resume.Checkpoints(config["run"]), accelerator)
    for batch in resume.batches(loader, epochs=3):
        with accelerator.accumulate(model):
            loss = model(batch)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        resume.after_batch({"loss": loss})

A step is one of the optimizer: with accumulated gradients, it takes several batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from torch.utils.data import RandomSampler

from ray_resume.integrations import positions
from ray_resume.integrations.packages import needing
from ray_resume.worker import Checkpoints

with needing("accelerate", "accelerate"):
    from accelerate import Accelerator, skip_first_batches
    from accelerate.data_loader import SeedableRandomSampler, get_sampler

__all__ = ["Resume"]

_STATE: Final = "accelerate"


class Resume:
    """Restores and saves all that an Accelerator prepared or has registered for checkpointing.

    `step` says how many steps are done.
    """

    def __init__(
        self, checkpoints: Checkpoints, accelerator: Accelerator, weights: Callable[[Path], None] | None = None
    ) -> None:
        """Restore the newest checkpoint into what `accelerator.prepare` has returned.

        Args:
            weights: loads the weights of another run, for a run that starts with them.

        Raises:
            ValueError: the Accelerator names its checkpoints itself, or another number of workers has saved.
        """
        if accelerator.project_configuration.automatic_checkpoint_naming:
            raise ValueError(
                "automatic_checkpoint_naming=True is invalid: the run names the checkpoints. Fix: remove it"
            )
        self._checkpoints = checkpoints
        self._accelerator = accelerator
        self._epoch = self._batches = self._epochs = self._length = 0
        self._drawing = positions.Drawing()
        self.step = checkpoints.restore(self._load, weights)

    def batches(self, loader: Any, epochs: int) -> Iterator[Any]:
        """Yield the batches that are left of these epochs from a prepared loader.

        Raises:
            ValueError: the loader's order cannot be repeated.
        """
        sampler = get_sampler(loader)
        if isinstance(sampler, RandomSampler) and not isinstance(sampler, SeedableRandomSampler):
            raise ValueError(
                "the loader's order is random, and cannot be repeated. "
                "Fix: Accelerator(dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))"
            )
        self._epochs, self._length = epochs, len(loader)
        while self._epoch < epochs:
            loader.set_epoch(self._epoch)
            if not self._batches:
                # The iterator of an epoch draws from the generators when the epoch begins.
                self._drawing.resume()
            for batch in skip_first_batches(loader, self._batches) if self._batches else loader:
                self._drawing.resume()
                yield batch
            self._epoch, self._batches = self._epoch + 1, 0

    def after_batch(self, metrics: Mapping[str, Any]) -> None:
        """Count a batch, and save if a checkpoint is due; call it after each batch, at all workers.

        `metrics` are those of `Checkpoints.save`; "loss" is shown as the run's progress.
        """
        self._batches += 1
        if not self._accelerator.sync_gradients:
            return
        self.step += 1
        self._checkpoints.meter.step(self.step, loss=metrics.get("loss"))
        last = self._epoch + 1 == self._epochs and self._batches == self._length
        if self._checkpoints.due(self.step, last=last):
            self._checkpoints.save(self.step, self._save, metrics)

    def _save(self, directory: Path) -> None:
        self._accelerator.save_state(str(directory / _STATE))
        over = self._batches == self._length
        epoch, batches = (self._epoch + 1, 0) if over else (self._epoch, self._batches)
        positions.write(directory, *self._worker, epoch=epoch, batches=batches)

    def _load(self, directory: Path) -> None:
        state = positions.read(directory, *self._worker)
        self._accelerator.load_state(str(directory / _STATE))
        self._epoch, self._batches = state["epoch"], state["batches"]
        self._drawing = positions.Drawing(state["generators"])

    @property
    def _worker(self) -> tuple[int, int]:
        return self._accelerator.process_index, self._accelerator.num_processes
