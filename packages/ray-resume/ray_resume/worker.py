"""A worker's side of a run: restore the newest checkpoint, save the next one."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ray.train

from ray_resume import warm_start
from ray_resume.checkpoint_store import CheckpointStore, Saved, Writer
from ray_resume.collective import agree, by_rank_0, world_size
from ray_resume.data_order import DataOrder
from ray_resume.runs import Run
from ray_resume.storage import StorageError, open_storage
from ray_resume.telemetry.meter import Meter


class Checkpoints:
    """A worker's access to the run's checkpoints. All workers must call its methods together, in the same order."""

    def __init__(self, run: Run) -> None:
        """Register this group of workers.

        Raises:
            StaleAttemptError: a newer attempt of the run has begun.
            StorageError: this worker's node does not see the run's folder.
        """
        self._run = run
        self._rank = ray.train.get_context().get_world_rank()
        self._store = CheckpointStore(open_storage(run.storage, run.name))
        sees = self._store.storage.read("run.json") is not None
        agree(None if sees else f"{run.storage} on this node is not the storage that the job sees", StorageError)
        began: tuple[Writer, Saved | None, int] = by_rank_0(self._begin)
        self._writer, self._origin, self._order_version = began
        self._order: int | None = None
        self._restored = False
        self.meter = Meter(run.name, self._store, self._writer, rank=self._rank, world=world_size(), say=self._say)

    def data_order(self, samples: int, batch: int, seed: int) -> DataOrder:
        """Return the run's order of samples; a run keeps the version of the order with which it began."""
        self._order = self._order_version
        return DataOrder(samples, batch, seed, self._order_version)

    def restore(self, read: Callable[[Path], None], weights: Callable[[Path], None] | None = None) -> int:
        """Let `read` load the newest checkpoint from a directory; return how many steps are done (0: a fresh start).

        A run that starts with the weights of another run, and has no checkpoint of its own yet, calls `weights`.
        """
        done = self._restore(read, weights)
        self.meter.ready(done)
        return done

    def _restore(self, read: Callable[[Path], None], weights: Callable[[Path], None] | None) -> int:
        self._restored = True
        if self._origin is None:
            warm = warm_start.load(self._store, weights)
            told = f" with the weights of {warm}" if warm else ""
            self._say(f"starts at step 0{told}" + (": there is no checkpoint" if self._run.attempt > 1 else ""))
            return 0
        started = time.monotonic()
        with self._store.storage.reading(self._origin.folder) as directory:
            read(directory)
        self._say(
            f"resumes from step {self._origin.step} ({self._origin.name}, read in {time.monotonic() - started:.2f} s)"
        )
        return self._origin.step

    def due(self, step: int, *, last: bool = False) -> bool:
        """Return whether a checkpoint is due after `step` steps."""
        return last or step % self._run.every == 0

    def save(self, step: int, write: Callable[[Path], None], metrics: Mapping[str, Any]) -> None:
        """Let `write` write this worker's part into a directory, commit the checkpoint, and report it to Ray Train.

        A metric is anything that JSON can hold, or a tensor or NumPy value with one element.

        Raises:
            OSError: some worker could not write. The earlier checkpoints are untouched.
            StaleAttemptError: newer workers have begun.
            TypeError: a metric is neither.
        """
        metrics = {name: _plain(name, value) for name, value in metrics.items()}
        if self._origin and not self._restored:
            self._restored = True
            self._say(
                f"warning: nothing was loaded from {self._origin.name}. Fix: call `restore` before the first step"
            )
        saved = Saved(step, self._writer)
        started = time.monotonic()
        failure = None
        try:
            with self._store.storage.writing(saved.folder) as directory:
                write(directory)
        except OSError as error:
            failure = f"checkpoint of step {step}: {error}"
        try:
            agree(failure, OSError)
            by_rank_0(lambda: self._store.commit(saved, metrics, self._order))
        except OSError:
            if self._rank == 0:
                self._store.storage.remove(saved.folder)
            raise
        if self._rank == 0:
            self._store.prune(self._run.keep)
        seconds = time.monotonic() - started
        self._say(f"checkpoint of step {step} written in {seconds:.2f} s")
        self.meter.saved(step, seconds)
        ray.train.report({**metrics, "step": step, "checkpoint_seconds": seconds})

    def _begin(self) -> tuple[Writer, Saved | None, int]:
        writer, origin = self._store.begin(self._run.attempt)
        return writer, origin, self._store.data_order(origin)

    def _say(self, text: str) -> None:
        if self._rank == 0:
            print(f"run {self._run.name} attempt {self._writer}: {text}", flush=True)


def _plain(name: str, value: Any) -> Any:
    """Return a metric as JSON holds it; `item` is the method of tensors and NumPy's values."""
    if getattr(value, "size", None) is not None and callable(getattr(value, "item", None)):
        with contextlib.suppress(ValueError, RuntimeError):
            return value.item()
    else:
        with contextlib.suppress(TypeError, ValueError):
            json.dumps(value)
            return value
    raise TypeError(f"metric {name!r} of {type(value)} is invalid. Allowed: values of JSON; one number of a tensor")
