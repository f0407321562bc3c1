"""Child processes of a rehearsal: each has a log, a pid file, and ends with whoever started it."""

import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
# The kernel's parent-death signal means the parent *thread*: children started by a request's thread would end
# with it. One thread that lives as long as the interpreter starts them all.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="process-starter")


class ProcessFailure(Exception):
    """A child did not start or ended by itself; the message names it and its log."""


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

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._popen = popen

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        return self._popen.poll()

    def wait(self) -> int:
        """Wait until it has ended by itself; return its exit code."""
        return self._popen.wait()

    def tail(self, lines: int = 12) -> str:
        """The last lines of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def stop(self, grace: float = 5.0, *, gracefully: bool = True) -> None:
        """End the process: SIGTERM, after `grace` seconds (or at once) SIGKILL."""
        if self._popen.poll() is not None:
            return
        if gracefully:
            self._popen.terminate()
            try:
                self._popen.wait(grace)
                return
            except subprocess.TimeoutExpired:
                pass
        self._popen.kill()
        self._popen.wait()


class Supervisor:
    """Starts children with logs in `directory`/logs and pid files in `directory`/run; stops them in reverse."""

    def __init__(self, directory: Path) -> None:
        self.logs = directory / "logs"
        self.run = directory / "run"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.run.mkdir(parents=True, exist_ok=True)
        self.children: list[Child] = []

    def start(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        ready: Callable[[], bool] | None = None,
        timeout: float = 30.0,
        survives_parent: bool = False,
        cwd: Path | None = None,
    ) -> Child:
        """Start `argv`; with `ready`, return once it is true.

        Raises ProcessFailure when the program is missing, ends before it is ready, or is not ready in
        `timeout` seconds; the process is gone then.
        """
        log = self.logs / f"{name}.log"
        with log.open("ab") as output:
            try:
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
            except OSError as error:
                raise ProcessFailure(f"{name}: {argv[0]} could not be started: {error.strerror}") from error
        child = Child(name, popen, log)
        self.children.append(child)
        (self.run / f"{name}.pid").write_text(f"{popen.pid}\n")
        if ready:
            self._wait_until(ready, child, timeout)
        return child

    def stop(self, child: Child, *, grace: float = 5.0, gracefully: bool = True) -> None:
        """End one child and forget it."""
        child.stop(grace, gracefully=gracefully)
        self.children.remove(child)
        (self.run / f"{child.name}.pid").unlink(missing_ok=True)

    def stop_all(self, *, grace: float = 5.0, gracefully: bool = True) -> None:
        """End all children, the last started first."""
        for child in reversed(list(self.children)):
            self.stop(child, grace=grace, gracefully=gracefully)

    def _wait_until(self, ready: Callable[[], bool], child: Child, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not ready():
            ended = child.returncode is not None
            if ended or time.monotonic() > deadline:
                how = f"ended with code {child.returncode}" if ended else f"was not ready in {timeout:.0f} s"
                self.stop(child, gracefully=False)
                raise ProcessFailure(f"{child.name} {how}; its log: {child.log}\n{child.tail()}")
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
