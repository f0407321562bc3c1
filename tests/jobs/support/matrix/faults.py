"""Faults of a worker: at one of its operations on the files of a checkpoint, or before a step."""

import contextlib
import errno
import io
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

from ray_resume.checkpoint_store import CheckpointStore, Saved


def _fail(number: int) -> None:
    raise OSError(number, os.strerror(number))


DEEDS: Final[dict[str, Callable[[], None]]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "freeze": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "EIO": lambda: _fail(errno.EIO),
    "ENOSPC": lambda: _fail(errno.ENOSPC),
}


@dataclass(frozen=True)
class Fault:
    """What happens to worker `rank`: at an operation of the save of `step`, or before `step` (`operation` None)."""

    deed: str
    rank: int
    step: int
    operation: int | None = None


class Operations:
    """Count a worker's operations on the files of each checkpoint, and let the fault happen at one of them."""

    def __init__(self, fault: Fault | None) -> None:
        self._fault = fault
        self.of_save: Counter[int] = Counter()

    def next(self, path: Path | str) -> None:
        """Count the operation that follows, if it concerns a checkpoint."""
        found = re.search(r"(\d{9})@", str(path))
        if not found:
            return
        step = int(found[1])
        fault, number = self._fault, self.of_save[step]
        self.of_save[step] += 1
        if fault and fault.operation is not None and fault.step == step:
            # A full disk stays full.
            happens = number >= fault.operation if fault.deed == "ENOSPC" else number == fault.operation
            if happens:
                DEEDS[fault.deed]()

    def before_step(self, step: int) -> None:
        if self._fault and self._fault.operation is None and self._fault.step == step:
            DEEDS[self._fault.deed]()

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count in this block: files that are opened for writing, their first bytes, syncs, renames and commits."""
        opened, replaced, renamed, synced = Path.open, Path.replace, Path.rename, os.fsync
        committed = CheckpointStore.commit

        def open_(path: Path, mode: str = "r", *arguments: Any, **words: Any) -> Any:
            if mode != "wb":
                return opened(path, mode, *arguments, **words)
            self.next(path)
            return io.BufferedWriter(_Raw(path, self))

        def replace(path: Path, target: Any) -> Path:
            self.next(path)
            return replaced(path, target)

        def rename(path: Path, target: Any) -> Path:
            self.next(path)
            return renamed(path, target)

        def sync(descriptor: int) -> None:
            self.next(Path(f"/proc/self/fd/{descriptor}").readlink())
            synced(descriptor)

        def commit(store: CheckpointStore, saved: Saved, *arguments: Any) -> None:
            self.next(saved.folder)
            committed(store, saved, *arguments)
            self.next(saved.folder)

        with (
            mock.patch.object(Path, "open", open_),
            mock.patch.object(Path, "replace", replace),
            mock.patch.object(Path, "rename", rename),
            mock.patch.object(os, "fsync", sync),
            mock.patch.object(CheckpointStore, "commit", commit),
        ):
            yield


class _Raw(io.FileIO):
    """A file whose first bytes are written in two halves, with an operation between them."""

    def __init__(self, path: Path, operations: Operations) -> None:
        super().__init__(path, "wb")
        self._path = path
        self._operations: Operations | None = operations

    def write(self, content: Any, /) -> int:
        if self._operations is None:
            return super().write(content) or 0
        operations, self._operations = self._operations, None
        content = memoryview(content).cast("B")
        half = len(content) // 2
        super().write(content[:half])
        operations.next(self._path)
        return half + (super().write(content[half:]) or 0)
