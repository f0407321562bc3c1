"""Run a command so that no process outlives it, and its CPU time includes that of the processes that it started.

    python .ci/contained.py [--grace SECONDS] COMMAND…

A process whose parent ends becomes a child of this process instead of init's. The kernel therefore adds its CPU time to
that of this process's children, and processes that outlive the command can be found. The children of a process that
ignores SIGCHLD are counted nowhere: Ray's workers, which are most of what the jobs' tests cost.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_EVERY: Final = 0.05
GRACE_SECONDS: Final = 60
"""Time for processes that end by themselves soon after their parent: on a busy machine Ray's agents need over 5 s."""


def main(command: list[str], grace: float) -> int:
    """Run a command; return its exit code, or 1 if it succeeded but left a process running for `grace` seconds."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    group = _Group()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, group.signal)
    process = subprocess.Popen(command, start_new_session=True)
    group.began(process.pid)
    code = _wait_for(process.pid)
    left = _end_children(grace)
    if left:
        print(f"left running, and ended now: {', '.join(left)}", flush=True)
    return code or bool(left)


class _Group:
    """The command's process group, to which signals are passed on: those that come before its start, too."""

    def __init__(self) -> None:
        self._id: int | None = None
        self._early: list[int] = []

    def signal(self, number: int, _: object) -> None:
        """Pass on a signal, or keep it until the command has started."""
        if self._id is None:
            self._early.append(number)
        else:
            _send(-self._id, number)

    def began(self, leader: int) -> None:
        """Pass on the signals that came before the command had started."""
        self._id = leader
        for number in self._early:
            _send(-leader, number)


def _wait_for(pid: int) -> int:
    """Return the exit code of a child, as a shell reports it; reap the others that end before it."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _end_children(grace: float) -> list[str]:
    """Wait until no child is left; kill those that do not end by themselves, and return their command lines."""
    deadline = time.monotonic() + grace
    killed: dict[int, str] = {}
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        children = _children()
        if not children:
            return list(killed.values())
        if time.monotonic() > deadline:
            # Their own children become children of this process once they have ended.
            for pid in children:
                killed.setdefault(pid, _words(pid))
                _send(pid, signal.SIGKILL)
        time.sleep(_EVERY)


def _children() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


def _words(pid: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path("/proc", str(pid), "cmdline").read_text().replace("\0", " ").strip()[:100]
    return str(pid)


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    if sys.argv[1] == "--grace":
        sys.exit(main(sys.argv[3:], float(sys.argv[2])))
    sys.exit(main(sys.argv[1:], GRACE_SECONDS))
