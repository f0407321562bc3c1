"""A worker's side of a run: restore the newest checkpoint, save the next one."""

from __future__ import annotations

import contextlib
import copy
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import torch.distributed as dist

from ray_resume import warm_start
from ray_resume.checkpoint_store import CheckpointStore, Saved, Writer
from ray_resume.collective import agree, by_rank_0, gathered, raise_first, world_size
from ray_resume.data_order import DataOrder
from ray_resume.launchers import launcher
from ray_resume.node_memory.group import NodeMemory, new_namespace
from ray_resume.node_memory.saves import MemorySave
from ray_resume.requests.profiles import ProfileRequests, Recorder
from ray_resume.requests.save_requests import Requested, SaveRequests
from ray_resume.runs import Run
from ray_resume.saving import Rest, Save, Write, in_background
from ray_resume.storage import StorageError, open_storage, reason
from ray_resume.telemetry.meter import Meter


class Checkpoints:
    """A worker's access to the run's checkpoints. All workers must call its methods together, in the same order."""

    _latest: ClassVar[Checkpoints | None] = None
    """The process has one training at a time; `completing` ends its last save."""

    def __init__(self, run: Run) -> None:
        """Register this group of workers.

        Raises:
            StaleAttemptError: a newer attempt of the run has begun.
            StorageError: this worker's node does not see the run's folder, or no checkpoint of the run is whole.
        """
        self._run = run
        self._launcher = launcher.current(run.name)
        self._rank = self._launcher.rank
        self._store = CheckpointStore(open_storage(run.storage, run.name))
        sees = self._store.storage.read("run.json") is not None
        agree(None if sees else f"{run.storage} on this node is not the storage that the job sees", StorageError)
        self._memory = NodeMemory(run, self._store, self._rank, self._say_of_run)
        self._fetched = self._memory.fetch()
        origin = self._choose()
        began: tuple[Writer, Saved | None, int, str] = by_rank_0(partial(self._begin, origin))
        self._writer, self._origin, self._order_version, namespace = began
        self._memory.begin(self._writer, namespace)
        if self._fetched and self._fetched.held.saved != self._origin:
            self._fetched.remove()
            self._fetched = None
        self._into_memory = False
        self._order: int | None = None
        self._restored = False
        self._last = False
        self._writing: tuple[Save | MemorySave, Future[None]] | None = None
        Checkpoints._latest = self
        profiles = ProfileRequests(self._store.storage)
        recorder = Recorder(profiles, rank=self._rank, world=world_size(), say=self._say_as_any)
        self._requested = Requested(SaveRequests(self._store), self._writer, self._rank, recorder)
        self.meter = Meter(
            run.name,
            self._store,
            self._writer,
            rank=self._rank,
            world=world_size(),
            say=self._say,
            exports=self._launcher.exports,
        )

    def data_order(self, samples: int, batch: int, seed: int) -> DataOrder:
        """Return the run's order of samples; a run keeps the version of the order with which it began."""
        self._order = self._order_version
        return DataOrder(samples, batch, seed, self._order_version)

    def restore(self, read: Callable[[Path], None], weights: Callable[[Path], None] | None = None) -> int:
        """Let `read` load the newest checkpoint from a directory; return how many steps are done (0: a fresh start).

        A run that starts with the weights of another run, and has no checkpoint of its own yet, calls `weights`.
        """
        with self.restoring(weights) as (directory, done):
            if directory is not None:
                read(directory)
        return done

    @contextlib.contextmanager
    def restoring(self, weights: Callable[[Path], None] | None = None) -> Iterator[tuple[Path | None, int]]:
        """Yield the newest checkpoint's directory (None: a fresh start) and how many steps are done.

        For frameworks that read a checkpoint themselves: leave the block when everything is read.
        """
        self._restored = True
        done = 0
        if self._origin is None:
            warm = warm_start.load(self._store, weights)
            message = f" with the weights of {warm}" if warm else ""
            self._say(f"starts at step 0{message}" + (": there is no checkpoint" if self._run.attempt > 1 else ""))
            yield None, done
        else:
            started, done = time.monotonic(), self._origin.step
            try:
                with self._reading(self._origin) as directory:
                    yield directory, done
            except Exception:
                self._say_as_any(f"could not load {self._origin.name}")
                raise
            seconds = time.monotonic() - started
            place = " from the nodes' memory" if self._fetched else ""
            self._fetched = None
            self._say(f"resumes from step {done} ({self._origin.name}, read{place} in {seconds:.2f} s)")
        self.meter.ready(done)

    def due(self, step: int, *, last: bool = False) -> bool:
        """Return whether a checkpoint is due after `step` steps, in the storage or in memory, or somebody wants one.

        Call it after each step, at all workers: it is also the sign of life that patience counts from. `last` says
        that no step follows, so that a checkpoint is due: without it, the run's result is an earlier checkpoint.
        """
        if self._rank == 0:
            self._launcher.reached(str(self._writer), step)
        self._last = last
        regular = last or step % self._run.every == 0
        into_storage = self._requested.at(step, saves=regular) or regular
        self._into_memory = not into_storage and self._memory.due(step)
        return into_storage or self._into_memory

    def save(self, step: int, write: Write, metrics: Mapping[str, Any]) -> None:
        """Let `write` write this worker's part into a directory, commit the checkpoint, and report it to Ray Train.

        With `torch_state.async_save` as `write`, the training continues as soon as the part is copied to memory.
        Writing and the commit follow in the background. One checkpoint is written at a time: the next call waits for
        it, and raises its errors.

        A checkpoint that is due in the nodes' memory only goes there. If that fails, it is printed, and nothing raised.

        A metric is anything that JSON can hold, or a tensor or NumPy value with one element. `step` is added to the
        report.

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
        save = self._next(Saved(step, self._writer), metrics)
        started = time.monotonic()
        self.wait()
        rest = save.begin(write)
        if rest is None:
            save.commit()
            self._say(_message(save))
            self._ended(save)
        else:
            call = partial(self._finish, save, rest, self._group)
            save.unblock()
            self._writing = save, in_background(call)
        self.meter.saved(step, time.monotonic() - started)
        with self.meter.waiting():
            if self._requested.holds:
                # The hold must begin after the commit: whoever asked ends the workers during it.
                self.wait()
            self._requested.wait(step, self._say)
        if not self._last and isinstance(save, Save):
            self._launcher.end_if_asked(self.wait)

    def wait(self) -> None:
        """Wait until the checkpoint that is written in the background exists, and report it as `save` does.

        Raises:
            OSError, StaleAttemptError: as `save`.
        """
        if self._writing is None:
            return
        (save, outcome), self._writing = self._writing, None
        started, early = time.monotonic(), not outcome.done()
        outcome.result()
        if early:
            self._say(f"waited {time.monotonic() - started:.2f} s for the checkpoint of step {save.saved.step}")
        self._ended(save)

    def _next(self, saved: Saved, metrics: Mapping[str, Any]) -> Save | MemorySave:
        """Return the save of a checkpoint, into the place for which it is due."""
        into_memory, self._into_memory = self._into_memory, False
        if into_memory:
            return self._memory.save(saved, self._order)
        return Save(self._store, saved, metrics, order=self._order, keep=self._run.keep, rank=self._rank)

    def _finish(self, save: Save | MemorySave, rest: Rest, group: dist.ProcessGroup | None) -> None:
        save.finish(rest, group)
        self._say(_message(save))

    @cached_property
    def _group(self) -> dist.ProcessGroup | None:
        """The process group of the background, on CPUs: the training uses its own group at the same time."""
        return dist.new_group(backend="gloo") if dist.is_initialized() else None

    def _ended(self, save: Save | MemorySave) -> None:
        """Report a checkpoint in the storage; one in memory is nobody's business but this run's."""
        if isinstance(save, MemorySave):
            self._memory.ended(save)
            return
        self._memory.committed()
        times = {"checkpoint_seconds": save.seconds, "checkpoint_blocked_seconds": save.blocked or save.seconds}
        self._launcher.report({**save.metrics, "step": save.saved.step, **times})

    def _complete(self) -> None:
        """Wait as `wait`, after an error of the training, which must not be replaced by another."""
        if self._writing is None:
            return
        # Without a report to Ray Train, which would wait for reports of the other workers.
        (save, outcome), self._writing = self._writing, None
        if error := outcome.exception():
            self._say(f"checkpoint of step {save.saved.step} was not written: {error}")

    def _finished(self) -> None:
        """Leave nothing in the nodes' memory after the last checkpoint."""
        if self._last:
            self._memory.finished()

    def _choose(self) -> Saved | None:
        """Return the newest whole checkpoint, of whose files each worker reads a share; None: a fresh start."""
        held = self._fetched.held.saved if self._fetched else None

        def candidates() -> list[Saved]:
            self._store.require_newest(self._run.attempt)
            return self._store.candidates(held)

        found = by_rank_0(candidates, errors=(StorageError,))
        return self._store.first_whole(
            found, lambda saved: "" if saved == held else self._damage(saved), self._say_of_run
        )

    def _damage(self, saved: Saved) -> str:
        """Return what is damaged of a checkpoint, the same at all workers."""
        what, failure = "", None
        try:
            what = self._store.damage(saved, self._rank, world_size())
        except OSError as error:
            failure = reason(error)
        answers = gathered((what, failure))
        raise_first([failure for _, failure in answers], OSError)
        return next((what for what, _ in answers if what), "")

    def _begin(self, origin: Saved | None) -> tuple[Writer, Saved | None, int, str]:
        held = self._fetched.held if self._fetched else None
        writer, _ = self._store.begin(self._run.attempt, lambda _: origin, held.saved if held else None)
        known = held.data_order if held and origin == held.saved else None
        order = known or self._store.data_order(origin)
        return writer, origin, order, new_namespace(self._run.name, writer)

    @contextlib.contextmanager
    def _reading(self, origin: Saved) -> Iterator[Path]:
        """Yield a local directory with the checkpoint from which the workers resume."""
        if self._fetched is None:
            with self._store.storage.reading(origin.folder) as directory:
                yield directory
            return
        try:
            yield self._fetched.directory
        except Exception:
            self._memory.unusable(origin)
            raise
        self._fetched.remove()

    def _say(self, text: str) -> None:
        if self._rank == 0:
            self._say_as_any(text)

    def _say_of_run(self, text: str) -> None:
        """Print a line before the workers have a number."""
        if self._rank == 0:
            print(f"run {self._run.name} attempt {self._run.attempt:04}: {text}", flush=True)

    def _say_as_any(self, text: str) -> None:
        print(f"run {self._run.name} attempt {self._writer}: {text}", flush=True)


@contextlib.contextmanager
def completing() -> Iterator[None]:
    """Complete the checkpoint that the training in this block leaves in the background, also after an error."""
    Checkpoints._latest = None
    try:
        yield
    except BaseException:
        if Checkpoints._latest:
            Checkpoints._latest._complete()
        raise
    if Checkpoints._latest:
        Checkpoints._latest.wait()
        Checkpoints._latest._finished()


def _message(save: Save | MemorySave) -> str:
    """Return the line about a checkpoint."""
    step = save.saved.step
    place = ""
    if isinstance(save, MemorySave):
        if save.failure:
            return (
                f"step {step} is not in the nodes' memory; the next try follows a save in the storage: {save.failure}"
            )
        place = " into the nodes' memory"
    waited = f", for which training waited {save.blocked:.2f} s" if save.blocked else ""
    return f"checkpoint of step {step} written{place} in {save.seconds:.2f} s{waited}"


def _plain(name: str, value: Any) -> Any:
    """Return a metric as JSON holds it; `item` is the method of tensors and NumPy's values."""
    if getattr(value, "size", None) is not None and callable(getattr(value, "item", None)):
        with contextlib.suppress(ValueError, RuntimeError):
            return value.item()
    else:
        with contextlib.suppress(TypeError, ValueError):
            json.dumps(value)
            return copy.deepcopy(value)
    raise TypeError(f"metric {name!r} of {type(value)} is invalid. Allowed: values of JSON; one number of a tensor")
