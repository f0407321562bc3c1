"""Child processes of a rehearsal: each has a log, a pid file, and ends with whoever started it."""

import ctypes
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

LOG_LINES: Final = 12
"""So many last lines of a program's log are shown."""
_WATCH_SECONDS: Final = 0.1
_MOST_RESTARTS: Final = 3
"""A program that ends more often is broken, and restarting it would hide that."""

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
# The kernel's parent-death signal means the parent *thread*: children started by a request's thread would end
# with it. One thread that lives as long as the interpreter starts them all.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="process-starter")


_log = logging.getLogger(__name__)


class ProcessError(Exception):
    """A child did not start; the message names it and its log."""


class ProgramEndedError(Exception):
    """A program that a run needs has ended by itself; the message names it and its log."""


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends (Linux only)."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Child:
    """A started process with its log."""

    def __init__(self, name: str, spawn: Callable[[], subprocess.Popen[bytes]], log: Path) -> None:
        """`spawn` starts the process, now and at each restart."""
        self.name = name
        self.log = log
        self.is_watched = False
        self.restarts = 0
        self._spawn = spawn
        self._popen = spawn()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        return self._popen.poll()

    def restart(self) -> None:
        """Start it again after its end."""
        self.restarts += 1
        self._popen = self._spawn()

    def wait(self) -> int:
        """Wait until it has ended by itself; return its exit code."""
        return self._popen.wait()

    def tail(self, lines: int = LOG_LINES) -> str:
        """The last lines of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def account_of_end(self, lines: int = LOG_LINES) -> str:
        """How it ended, where its log is, and the log's last lines."""
        code = self._popen.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return f"{self.name} {how}; its log: {self.log}\n{self.tail(lines)}"

    def stop(self, grace: float = 5.0, *, gracefully: bool = True) -> None:
        """End the process and its group: SIGTERM, after `grace` seconds (or at once) SIGKILL."""
        if self._popen.poll() is not None:
            return
        if gracefully:
            self._signal(signal.SIGTERM)
            try:
                self._popen.wait(grace)
                return
            except subprocess.TimeoutExpired:
                pass
        self._signal(signal.SIGKILL)
        self._popen.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, number)


class Supervisor:
    """Starts children with logs in `directory`/logs and pid files in `directory`/run; stops them in reverse."""

    def __init__(self, directory: Path) -> None:
        self.logs = directory / "logs"
        self.run = directory / "run"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.run.mkdir(parents=True, exist_ok=True)
        self.children: list[Child] = []
        self._lock = threading.RLock()
        self._stopped = threading.Event()

    def watch(
        self,
        failed: Callable[[ProgramEndedError], None],
        *,
        restarted: Collection[str] = (),
        lines: int = LOG_LINES,
    ) -> None:
        """From now on, notice each child that ends by itself, those to come included.

        Those named in `restarted` are started again, up to three times; `failed` is told of every other end, once,
        from a thread, with so many lines of the log.
        """
        threading.Thread(target=self._watch, args=(failed, restarted, lines), name="watch", daemon=True).start()

    def start(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        ready: Callable[[], bool] | None = None,
        timeout: float = 30.0,
        survives_parent: bool = False,
        ends_by_itself: bool = False,
        cwd: Path | None = None,
    ) -> Child:
        """Start `argv`; with `ready`, return once it is true.

        A program that `ends_by_itself` is not watched: whoever waits for it looks at its exit code. Raises
        ProcessFailure when the program is missing, ends before it is ready, or is not ready in `timeout` seconds; the
        process is gone then.
        """
        log = self.logs / f"{name}.log"

        def spawn() -> subprocess.Popen[bytes]:
            with log.open("ab") as output:
                popen = _starter.submit(
                    subprocess.Popen[bytes],
                    list(argv),
                    env=dict(env),
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C reaches the rehearsal alone, which ends its children in order
                    preexec_fn=None if survives_parent else end_with_parent,
                ).result()
            (self.run / f"{name}.pid").write_text(f"{popen.pid}\n")
            return popen

        try:
            child = Child(name, spawn, log)
        except OSError as error:
            raise ProcessError(f"{name}: {argv[0]} cannot run: {error.strerror}. Fix: `make setup`") from error
        with self._lock:
            self.children.append(child)
        if ready:
            self._wait_until(ready, child, timeout)
        child.is_watched = not ends_by_itself
        return child

    def stop(self, child: Child, *, grace: float = 5.0, gracefully: bool = True) -> None:
        """End one child and forget it."""
        with self._lock:
            self.children.remove(child)
        child.stop(grace, gracefully=gracefully)
        (self.run / f"{child.name}.pid").unlink(missing_ok=True)

    def stop_all(self, *, grace: float = 5.0, gracefully: bool = True) -> None:
        """End all children, the last started first, and watch no longer."""
        self._stopped.set()
        for child in reversed(list(self.children)):
            self.stop(child, grace=grace, gracefully=gracefully)

    def _watch(self, failed: Callable[[ProgramEndedError], None], restarted: Collection[str], lines: int) -> None:
        while not self._stopped.wait(_WATCH_SECONDS):
            for child in list(self.children):
                if child.is_watched and child.returncode is not None and not self._restart(child, restarted):
                    child.is_watched = False
                    failed(ProgramEndedError(child.account_of_end(lines)))

    def _restart(self, child: Child, restarted: Collection[str]) -> bool:
        """Start an ended child again where that is wanted; return whether nobody needs to be told of its end."""
        with self._lock:
            if child not in self.children:
                return True  # it was stopped meanwhile
            if child.name not in restarted or child.restarts == _MOST_RESTARTS:
                return False
            _log.warning("%s", child.account_of_end())
            child.restart()
            return True

    def _wait_until(self, ready: Callable[[], bool], child: Child, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not ready():
            if child.returncode is not None:
                self.stop(child)
                raise ProcessError(child.account_of_end())
            if time.monotonic() > deadline:
                self.stop(child, gracefully=False)
                late = f"{child.name} was not ready in {timeout:.0f} s; its log: {child.log}"
                raise ProcessError(f"{late}\n{child.tail()}")
            time.sleep(0.05)


def stop_recorded(run: Path, *, grace: float = 10.0) -> list[str]:
    """End the processes whose pid files an earlier rehearsal left in `run`; return their names.

    A pid is only signalled if the process still is the leader of the session that the supervisor made for it:
    a number that the system has given to another program since is left alone.
    """
    ended = []
    for pid_file in sorted(run.glob("*.pid"), reverse=True):
        pid = int(pid_file.read_text())
        if is_alive(pid) and os.getsid(pid) == pid:
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + grace
            while is_alive(pid) and time.monotonic() < deadline:
                time.sleep(0.05)
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
            ended.append(pid_file.stem)
        pid_file.unlink()
    return ended
