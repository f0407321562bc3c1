"""Hold the folders of runs, one rehearsal per folder at a time, and find and end the processes of a folder.

A lock belongs to a process and ends with it, however that process ends. The processes of a kept rehearsal belong to a
folder that nobody holds.
"""

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Final

from embedded_account.machine.processes import ProcessError, end_living, is_alive, living, stop_recorded
from rehearsal import paths

_DISCARDED: Final = ".discarded"
_ORDERLY_SECONDS: Final = 60.0


class UnderWayError(ProcessError):
    """Another rehearsal holds the folder."""

    def __init__(self, directory: Path, pid: int) -> None:
        super().__init__(
            f"a rehearsal in {directory} is under way (process {pid}). "
            "Fix: wait for it, or end it with `make rehearse-down FORCE=1`"
        )
        self.pid = pid


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold the folder of a run. Raises UnderWayError if another process holds it."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _lock_of(directory).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnderWayError(directory, _holder(directory)) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def directories() -> list[Path]:
    """Return the existing folders of runs, sorted."""
    found = sorted(each for pattern in paths.RUN_PATTERNS for each in paths.ROOT.glob(pattern) if each.is_dir())
    return [each for each in found if each.suffix != _DISCARDED]


def end(directory: Path) -> list[str]:
    """End all processes of a run's folder, in order if they are recorded; return their names."""
    return [*stop_recorded(directory / "run"), *end_living(directory)]


def end_kept(directory: Path, *, force: bool = False) -> list[str]:
    """End the processes of a folder that nobody holds; return their names.

    With `force`, also end the rehearsal that holds it. Raises UnderWayError if the folder is held.
    """
    try:
        with held(directory):
            return end(directory)
    except UnderWayError as error:
        if not force or not error.pid:
            raise
        _interrupt(error.pid)
        with held(directory):
            return [f"the rehearsal in {directory}", *end(directory)]


def remove(directory: Path) -> bool:
    """Remove a folder unless a rehearsal holds it or a process uses it; return whether it was removed."""
    try:
        with held(directory):
            if living(directory):
                return False
            shutil.rmtree(directory)
            shutil.rmtree(_discarded(directory), ignore_errors=True)
            return True
    except UnderWayError:
        return False


def discard(directory: Path) -> None:
    """Move a folder that the caller holds out of the way, and remove it beside the caller's work: it takes a second."""
    moved = _discarded(directory)
    # One that an interrupted run was still removing.
    shutil.rmtree(moved, ignore_errors=True)
    with suppress(FileNotFoundError):
        directory.rename(moved)
        Thread(target=shutil.rmtree, args=(moved,), kwargs={"ignore_errors": True}).start()


def _interrupt(holder: int) -> None:
    """Interrupt a rehearsal and wait for its orderly end; kill it if it does not end."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(holder, number)
        deadline = time.monotonic() + _ORDERLY_SECONDS
        while is_alive(holder) and time.monotonic() < deadline:
            time.sleep(0.05)


def end_all(folders: Iterable[Path]) -> dict[int, str]:
    """End the processes of these folders; return those that are still alive."""
    left: dict[int, str] = {}
    for each in folders:
        end(each)
        left |= living(each)
    return left


def _lock_of(directory: Path) -> Path:
    """Return a file beside the folder, which stays when the folder is removed; no environment's name has a dot."""
    return directory.with_name(f"{directory.name}.lock")


def _discarded(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}{_DISCARDED}")


def _holder(directory: Path) -> int:
    return int(_lock_of(directory).read_text() or 0)
