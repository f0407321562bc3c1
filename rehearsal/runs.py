"""The folders of runs: one rehearsal holds a folder at a time, and what lives in it is found and ended.

A lock belongs to a process and ends with it, however that ends. What a kept rehearsal left lives in a folder that
nobody holds.
"""

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from embedded_account.machine.processes import ProcessError, is_alive, stop_recorded
from rehearsal import paths

_ORDERLY_SECONDS: Final = 60.0
_SETTLING_SECONDS: Final = 2.0
"""What the end of a recorded process takes along is gone by then."""
_KILL_SECONDS: Final = 10.0
_HOME: Final = b"HOME="


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
    """Hold the folder of a run. Raises UnderWayError when another process holds it."""
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
    """The folders of runs that exist, sorted."""
    return sorted(each for pattern in paths.RUN_PATTERNS for each in paths.ROOT.glob(pattern) if each.is_dir())


def end(directory: Path) -> list[str]:
    """End every process that lives in a run's folder, in order where it has a record; return their names."""
    ended = stop_recorded(directory / "run")
    killed = _left_after(_SETTLING_SECONDS, directory)
    for pid in killed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # By pid: a dying process loses its environment first, and `living` finds it no more.
    left = _alive_after(_KILL_SECONDS, killed)
    return [*ended, *sorted({name for pid, name in killed.items() if pid not in left})]


def end_kept(directory: Path, *, force: bool = False) -> list[str]:
    """End what lives in a folder that nobody holds, or, with `force`, the rehearsal that holds it, too.

    Return names. Raises UnderWayError when the folder is held.
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
    """Remove a folder unless a rehearsal holds it or something lives in it; return whether it is gone."""
    try:
        with held(directory):
            if living(directory):
                return False
            shutil.rmtree(directory)
            return True
    except UnderWayError:
        return False


def _interrupt(holder: int) -> None:
    """Interrupt a rehearsal and wait for its orderly end; kill it when that does not come."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(holder, number)
        deadline = time.monotonic() + _ORDERLY_SECONDS
        while is_alive(holder) and time.monotonic() < deadline:
            time.sleep(0.05)


def end_all(folders: Iterable[Path]) -> dict[int, str]:
    """End what lives in these folders; return what is still alive then."""
    left: dict[int, str] = {}
    for each in folders:
        end(each)
        left |= living(each)
    return left


def living(directory: Path) -> dict[int, str]:
    """Names of the processes of a run by pid: those whose home is below its folder (machine/isolation.py).

    A shell into which somebody pasted what a kept rehearsal prints has a home of its own.
    """
    home = _HOME + os.fsencode(directory)
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # ended while it was looked at, or somebody else's
                variables = (entry / "environ").read_bytes().split(b"\0")
                if any(each == home or each.startswith(home + b"/") for each in variables):
                    found[int(entry.name)] = _name((entry / "cmdline").read_bytes())
    return {pid: name for pid, name in found.items() if is_alive(pid)}


def _left_after(seconds: float, directory: Path) -> dict[int, str]:
    """Return what lives in a folder after so much time to end."""
    deadline = time.monotonic() + seconds
    while (left := living(directory)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _alive_after(seconds: float, pids: Iterable[int]) -> set[int]:
    """Return which processes are alive after so much time to end."""
    deadline = time.monotonic() + seconds
    while (left := set(filter(is_alive, pids))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _name(command: bytes) -> str:
    """A program's name; of Python's programs, the module's or the file's."""
    program, *words = [Path(os.fsdecode(word)).name for word in command.split(b"\0") if word] or ["?"]
    if program.startswith("python"):
        return next((word for word in words if not word.startswith("-")), program)
    return program


def _lock_of(directory: Path) -> Path:
    """A file beside the folder, which stays when the folder is removed; no environment's name has a dot."""
    return directory.with_name(f"{directory.name}.lock")


def _holder(directory: Path) -> int:
    return int(_lock_of(directory).read_text() or 0)
