"""Runs one program, and ends it with everything that it has started: whatever happens, nothing outlives the account.

Usage: python -I -S keeper.py PROGRAM [ARGUMENT …]

Who started the keeper holds the other end of its stdin. When that end closes (on purpose, or because its process was
killed), or when a signal asks the keeper to end, it kills the program and all its descendants, also those in sessions
of their own; when it is killed itself, the kernel kills the program. A byte on stdin stops the program's process group
or lets it continue. The exit status is the program's.
"""

import ctypes
import os
import select
import signal
import sys
from contextlib import suppress

STOP = b"s"
CONTINUE = b"c"

_SIGNALS = {STOP: signal.SIGSTOP, CONTINUE: signal.SIGCONT}
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STDIN = 0
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


def main(program: list[str]) -> int:
    """Run the program in a session of its own; return its exit code, negative for a signal."""
    libc = ctypes.CDLL(None)
    # Orphans become the keeper's own children: a descendant that left the session is found by that.
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    told_to_end, telling = os.pipe()
    pid = _start(program, libc)
    for number in _ENDINGS:
        signal.signal(number, lambda *_: os.write(telling, b"."))
    ended = os.pidfd_open(pid)
    poll = select.poll()
    for each in (_STDIN, ended, told_to_end):
        poll.register(each, select.POLLIN)
    while dict(poll.poll()).keys() == {_STDIN}:
        command = os.read(_STDIN, 1)
        if not command:
            break
        with suppress(ProcessLookupError):
            os.killpg(pid, _SIGNALS[command])
    exit_code = _end_all(pid)
    if exit_code < 0:
        # The caller sees the program's signal; a core dump would be the keeper's, not the program's.
        libc.prctl(_PR_SET_DUMPABLE, 0)
        with suppress(OSError):  # SIGKILL and SIGSTOP have no handler to restore
            signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -exit_code)
    return exit_code


def _start(program: list[str], libc: ctypes.CDLL) -> int:
    """Start the program in a session of its own, without input; it ends with the keeper. Return its id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), _STDIN)
        os.execv(program[0], program)  # noqa: S606 - there is no shell to be wanted
    finally:
        os._exit(127)


def _end_all(program: int) -> int:
    """Kill every child until none comes up any more; return the program's exit code."""
    status = 0
    while True:
        for child in _children():
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            reaped, its_status = os.waitpid(-1, 0)
        except ChildProcessError:
            return os.waitstatus_to_exitcode(status)
        if reaped == program:
            status = its_status


def _children() -> list[int]:
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - pathlib takes longer to import than this
        with suppress(OSError), open(f"/proc/{entry}/stat", "rb") as file:  # noqa: PTH123
            if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.append(int(entry))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
