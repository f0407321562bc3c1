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
from ray_resume.collective import by_rank_0, gathered, raise_first
from ray_resume.storage import full_disk, reason, sha256

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
        self._directory = Path()
        self._failure: str | None = None
        self._mine: dict[str, str] = {}
        self._digests: dict[str, str] = {}

    def begin(self, write: Write) -> Rest | None:
        """Let `write` write this worker's part, or copy it; return what is left to do.

        Raises:
            OSError: some worker could not write or copy its part.
        """
        rest, files = None, contextlib.ExitStack()
        with self._failing():
            self._directory = files.enter_context(self._store.storage.writing(self.saved.folder))
        # Before the collective operations of `write`, in which a worker without a directory takes no part.
        self._agree()
        with self._failing(), files:
            rest = write(self._directory)
            if rest:
                self._files = files.pop_all()
            else:
                self._mine = digests(self._directory)
        self._agree()
        return rest

    def finish(self, rest: Rest, group: dist.ProcessGroup | None) -> None:
        """Write the copy, sync it, and commit the checkpoint; raise as `begin` and `commit`."""
        with self._failing(), self._files:
            rest(group)
            self._mine = digests(self._directory)
        self._agree(group)
        self.commit(group)

    def commit(self, group: dist.ProcessGroup | None = None) -> None:
        """Commit the checkpoint, whose files are all on the medium, then remove what the run does not keep.

        Raises:
            OSError: the manifest could not be written.
            StaleAttemptError: newer workers have begun.
        """
        with self._removing():
            by_rank_0(self._write_manifest, group)
        if self._rank == 0:
            self._store.prune(self._keep)
        self.seconds = time.monotonic() - self._started

    def _write_manifest(self) -> None:
        try:
            self._store.commit(self.saved, self.metrics, self._order, self._digests)
        except OSError as error:
            raise OSError(f"checkpoint of step {self.saved.step}: {reason(error)}") from error

    def unblock(self) -> None:
        """Record that the training continues."""
        self.blocked = time.monotonic() - self._started

    def _agree(self, group: dist.ProcessGroup | None = None) -> None:
        """Share failures and digests with all workers. Raises OSError if some worker failed."""
        answers = gathered((self._failure, self._mine), group)
        with self._removing():
            raise_first([failure for failure, _ in answers], OSError)
        self._digests = {name: digest for _, mine in answers for name, digest in mine.items()}

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError) as error:
            full = full_disk(error, self._directory)
            if not full and not isinstance(error, OSError):
                raise
            self._failure = f"checkpoint of step {self.saved.step}: {reason(full) if full else error}"

    @contextlib.contextmanager
    def _removing(self) -> Iterator[None]:
        """Remove the files of a checkpoint that cannot be committed."""
        try:
            yield
        except OSError:
            if self._rank == 0:
                self._store.storage.remove(self.saved.folder)
            raise


def digests(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below a directory, by its relative name. Raises OSError."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            with path.open("rb") as content:
                found[str(path.relative_to(directory))] = sha256(content)
    return found


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
