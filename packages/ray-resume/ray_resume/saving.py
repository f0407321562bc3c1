"""Save a checkpoint: every worker writes its part, then rank 0 commits it; at once, or while the training continues."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from ray_resume.checkpoint_store import CheckpointStore, Keep, Saved
from ray_resume.collective import agree, by_rank_0

if TYPE_CHECKING:
    from ray.train import CheckpointConfig

Rest = Callable[[dist.ProcessGroup | None], None]
"""Writes what was copied to memory, while the training continues.

Its argument is the process group for its collective operations: the training uses its own group at the same time.
"""
Write = Callable[[Path], Rest | None]
"""Writes a worker's part into a directory; or copies the part to memory, and returns what writes the copy there."""


class Save:
    """The save of one checkpoint. All workers call `begin` together, then `commit`; with a rest, `finish` instead."""

    def __init__(
        self,
        store: CheckpointStore,
        saved: Saved,
        metrics: Mapping[str, Any],
        *,
        order: int | None,
        keep: CheckpointConfig | Keep,
        rank: int,
    ) -> None:
        self.saved = saved
        self.metrics = metrics
        self.seconds = self.blocked = 0.0
        self._started = time.monotonic()
        self._store = store
        self._order = order
        self._keep = keep
        self._rank = rank
        self._files = contextlib.ExitStack()
        self._failure: str | None = None

    def begin(self, write: Write) -> Rest | None:
        """Let `write` write this worker's part, or copy it; return what is left to do.

        Raises:
            OSError: some worker could not write or copy its part.
        """
        rest, files = None, contextlib.ExitStack()
        with self._failing():
            directory = files.enter_context(self._store.storage.writing(self.saved.folder))
        # Before the collective operations of `write`, in which a worker without a directory takes no part.
        self._agree()
        with self._failing(), files:
            rest = write(directory)
            if rest:
                self._files = files.pop_all()
        self._agree()
        return rest

    def finish(self, rest: Rest, group: dist.ProcessGroup | None) -> None:
        """Write the copy, sync it, and commit the checkpoint; raise as `begin` and `commit`."""
        with self._failing(), self._files:
            rest(group)
        self._agree(group)
        self.commit(group)

    def commit(self, group: dist.ProcessGroup | None = None) -> None:
        """Commit the checkpoint, whose files are all on the medium, then remove what the run does not keep.

        Raises:
            OSError: the manifest could not be written.
            StaleAttemptError: newer workers have begun.
        """
        with self._removing():
            by_rank_0(lambda: self._store.commit(self.saved, self.metrics, self._order), group)
        if self._rank == 0:
            self._store.prune(self._keep)
        self.seconds = time.monotonic() - self._started

    def unblock(self) -> None:
        """Record that the training continues."""
        self.blocked = time.monotonic() - self._started

    def _agree(self, group: dist.ProcessGroup | None = None) -> None:
        with self._removing():
            agree(self._failure, OSError, group)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._failure = f"checkpoint of step {self.saved.step}: {error}"

    @contextlib.contextmanager
    def _removing(self) -> Iterator[None]:
        """Remove the files of a checkpoint that cannot be committed."""
        try:
            yield
        except OSError:
            if self._rank == 0:
                self._store.storage.remove(self.saved.folder)
            raise


def in_background(call: Callable[[], None]) -> Future[None]:
    """Run `call` in a thread, and return its outcome.

    The thread ends with its process, whatever it does: it then leaves a checkpoint that was never committed.
    """
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 (`result` raises it)
            outcome.set_exception(error)
        else:
            outcome.set_result(None)

    threading.Thread(target=run, name="checkpoint", daemon=True).start()
    return outcome
