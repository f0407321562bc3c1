"""Lock and prune the folders of `.rehearsal/cache`, which are named after hashes."""

import fcntl
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_BEING_REMOVED: Final = ".removed-"
# Folder → open file descriptor. The kernel releases the folder's lock when the process ends.
_held: dict[Path, int] = {}


def hold(directory: Path) -> None:
    """Keep `prune` from removing a folder until this process ends, however it ends. Create a missing folder."""
    while directory not in _held or not _is_at(directory, _held[directory]):
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _held[directory] = descriptor


def prune(cache: Path, named: Collection[str]) -> list[str]:
    """Remove the folders that are neither `named` nor held by a process; return their names, sorted."""
    return [each.name for each in sorted(cache.iterdir()) if each.is_dir() and each.name not in named and _remove(each)]


@contextmanager
def only_builder(directory: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the builder's lock of a folder. Call `waiting` once if another builder holds it.

    The lock is the kernel's: it is released when the process ends.
    """
    with (directory / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_at(directory: Path, descriptor: int) -> bool:
    """Return whether the open folder still has this name: it may have been removed before the lock was taken."""
    try:
        return os.path.samestat(directory.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove(directory: Path) -> bool:
    """Remove a folder that no process holds, and return whether it was removed.

    Rename it first, so that nobody finds a half-removed folder under the old name.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unnamed = directory.with_name(f"{_BEING_REMOVED}{directory.name.removeprefix(_BEING_REMOVED)}")
        directory.rename(unnamed)
        shutil.rmtree(unnamed)
    except (BlockingIOError, FileNotFoundError):
        return False
    finally:
        os.close(descriptor)
    return True
