"""Folders of `.rehearsal/cache`, named by hashes: held while they are used, removed when nothing names them."""

import fcntl
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_BEING_REMOVED: Final = ".removed-"
# Folder → file descriptor, open until the process ends: then the kernel lets go of its lock.
_held: dict[Path, int] = {}


def hold(directory: Path) -> None:
    """Keep `prune` from a folder until this process ends, however it ends; an absent folder is made."""
    while directory not in _held or not _is_at(directory, _held[directory]):
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _held[directory] = descriptor


def prune(cache: Path, named: Collection[str]) -> list[str]:
    """Remove the folders that are neither `named` nor held by any process; return their names, sorted."""
    return [each.name for each in sorted(cache.iterdir()) if each.is_dir() and each.name not in named and _remove(each)]


@contextmanager
def only_builder(directory: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Be the one builder of a folder; `waiting` is called once if another one is at work. The kernel keeps the lock."""
    with (directory / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_at(directory: Path, descriptor: int) -> bool:
    """Whether the open folder still has this name: it may have been removed before the lock was taken."""
    try:
        return os.path.samestat(directory.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove(directory: Path) -> bool:
    """Remove a folder that nobody holds, under another name: nobody can find half of it under its own."""
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
