"""Start and watch the child processes of a rehearsal: each has a log and a pid file, and ends with its parent."""

import ctypes
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

LOG_LINES: Final = 12
"""How many last lines of a program's log are shown."""
_WATCH_SECONDS: Final = 0.1
_SETTLING_SECONDS: Final = 2.0
"""The time after which everything that ends with another process of a run has ended."""
_KILL_SECONDS: Final = 10.0
_MOST_RESTARTS: Final = 3
"""A program that ends more often is broken; more restarts would hide that."""
_HOME: Final = b"HOME="

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
# The kernel sends the parent-death signal when the parent *thread* ends: a child that a request's thread started would
# end with that thread. One thread that lives as long as the interpreter therefore starts all children.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="process-starter")


_log = logging.getLogger(__name__)


class ProcessError(Exception):
    """A child did not start; the message names the child and its log."""


class ProgramEndedError(Exception):
    """A program that a run needs ended on its own; the message names the program and its log."""


def free_port() -> int:
    """Return a free TCP port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends (Linux only)."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Child:
    """A child process with its log."""

    def __init__(self, name: str, spawn: Callable[[], subprocess.Popen[bytes]], log: Path) -> None:
        """Start the process with `spawn`, which also restarts it."""
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

    @property
    def has_ended(self) -> bool:
        """Return whether the process has ended, also while another thread asks: then `poll` has no answer."""
        return self.returncode is not None or not is_alive(self.pid)

    def restart(self) -> None:
        """Start the ended process again."""
        self.restarts += 1
        self._popen = self._spawn()

    def wait(self) -> int:
        """Wait until the process has ended on its own; return its exit code."""
        return self._popen.wait()

    def tail(self, lines: int = LOG_LINES) -> str:
        """Return the last lines of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def account_of_end(self, lines: int = LOG_LINES) -> str:
        """Return how the process ended, where its log is, and the log's last lines."""
        code = self._popen.wait()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return f"{self.name} {how}; its log: {self.log}\n{self.tail(lines)}"

    def stop(self, grace: float = 5.0, *, gracefully: bool = True) -> None:
        """End the process and its group: SIGTERM, and SIGKILL after `grace` seconds (or SIGKILL at once)."""
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


class ProcessSupervisor:
    """Starts children with logs in `directory`/logs and pid files in `directory`/run; stops them in reverse order."""

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
        """From now on, notice each child that ends on its own, also children that start later.

        Children named in `restarted` are restarted, up to three times. For every other end, `failed` is called once,
        from a thread, with the last `lines` lines of the log.
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
        """Start `argv` and return the child; with `ready`, wait until it returns true.

        A program that `ends_by_itself` is not watched: the caller waits for it and reads its exit code. Raises
        ProcessError if the program is missing, ends before it is ready, or is not ready after `timeout` seconds; the
        process has then been ended.
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
                    start_new_session=True,  # Ctrl-C reaches only the rehearsal, which ends its children in order
                    preexec_fn=None if survives_parent else end_with_parent,
                ).result()
            _record(self.run / f"{name}.pid", popen.pid)
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
        """End all children, the last started first, and stop watching."""
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
        """Restart an ended child if its name is in `restarted`; return whether its end needs no report."""
        with self._lock:
            if child not in self.children:
                return True  # it was stopped in the meantime
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


def _record(pid_file: Path, pid: int) -> None:
    """Write a pid file atomically: who reads it while its program restarts finds the old pid or the new one."""
    new = pid_file.with_suffix(".new")
    new.write_text(f"{pid}\n")
    new.replace(pid_file)


def stop_recorded(run: Path, *, grace: float = 10.0) -> list[str]:
    """End the processes whose pid files an earlier rehearsal left in `run`; return their names.

    A pid is signalled only if its process still leads the session that the supervisor created for it. A pid that the
    system has since given to another program is left alone.
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


def living(directory: Path) -> dict[int, str]:
    """Return the processes of a run, pid → name: those whose home is below its folder (machine/isolation.py).

    A shell into which someone pasted the commands of a kept rehearsal keeps its own home.
    """
    home = _HOME + os.fsencode(directory)
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # ended meanwhile, or belongs to another user
                variables = (entry / "environ").read_bytes().split(b"\0")
                if any(each == home or each.startswith(home + b"/") for each in variables):
                    found[int(entry.name)] = _name((entry / "cmdline").read_bytes())
    return {pid: name for pid, name in found.items() if is_alive(pid)}


def end_living(directory: Path) -> list[str]:
    """End the processes of a run that do not end by themselves; return their names."""
    killed = _left_after(_SETTLING_SECONDS, directory)
    for pid in killed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # By pid: a dying process loses its environment first, and `living` no longer finds it.
    left = _alive_after(_KILL_SECONDS, killed)
    return sorted({name for pid, name in killed.items() if pid not in left})


def _left_after(seconds: float, directory: Path) -> dict[int, str]:
    """Return the processes of a run's folder that are left after `seconds`."""
    deadline = time.monotonic() + seconds
    while (left := living(directory)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _alive_after(seconds: float, pids: Iterable[int]) -> set[int]:
    """Return which processes are alive after `seconds`."""
    deadline = time.monotonic() + seconds
    while (left := set(filter(is_alive, pids))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _name(command: bytes) -> str:
    """Return a program's name; for Python, the name of its module or file."""
    program, *words = [Path(os.fsdecode(word)).name for word in command.split(b"\0") if word] or ["?"]
    if program.startswith("python"):
        return next((word for word in words if not word.startswith("-")), program)
    return program
