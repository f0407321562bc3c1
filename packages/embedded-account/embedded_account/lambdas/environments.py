"""Keep the execution environments of functions: one process per running invocation, reused for the next, as on Lambda.

An environment ends when its function's code or configuration changes, when its credentials are renewed, after a crash
or a timeout, and after a long idle time. Between invocations it is frozen, with all processes that it started.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from embedded_account.context import Account
from embedded_account.lambdas import keeper
from embedded_account.lambdas.configuration import CHANNEL, Configuration, environment_variables

IDLE_SECONDS: Final = 120.0
"""Lambda documents no number; some minutes have been observed."""

_INIT_SECONDS: Final = 10.0
"""The seconds that Lambda gives a function's code to load, before the function's own timeout counts."""

PATIENCE_SECONDS: Final = 0.5
"""Seconds without a free environment after which a function gets more environments than there are cores.

It applies if a core was idle for at least half of that time.
"""

BUSY_PATIENCE_SECONDS: Final = 5.0
"""The same if no core was idle: the running invocations may wait for this one."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class EnvironmentEndedError(Exception):
    """The environment's process ended on its own. `exit_code` is negative for a signal."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code


class Environment:
    """The process of one function, its folder and its log stream. Used by one thread at a time."""

    def __init__(self, account: Account, configuration: Configuration, folder: Path) -> None:
        self.configuration = configuration
        self.initialized = False
        self.log_stream = _log_stream(account, configuration)
        self.idle_since = 0.0
        self._folder = folder
        variables = environment_variables(account, configuration, folder, self.log_stream)
        self._output = folder / "output.log"
        self._channel, channel = socket.socketpair()
        self._orders, orders = socket.socketpair()
        command = [str(channel.fileno()) if word == CHANNEL else word for word in configuration.command]
        with channel, orders, self._output.open("wb") as output:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__, *command],
                stdin=orders.fileno(),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=configuration.package.task,
                pass_fds=[channel.fileno()],
                start_new_session=True,
            )
        self._answers = self._channel.makefile("rb")
        self._reported = 0
        self._has_ended = False

    @property
    def usable(self) -> bool:
        """Return whether the next invocation can use the environment."""
        return not self._has_ended and self._keeper.poll() is None

    def initialize(self) -> dict[str, Any]:
        """Wait until the function's code is loaded; return the runtime's report.

        Raises TimeoutError and EnvironmentEndedError; the environment has then ended.
        """
        self._channel.settimeout(_INIT_SECONDS + self.configuration.timeout)
        report = self._report()
        self.initialized = True
        return report

    def invoke(self, invocation: Mapping[str, Any]) -> dict[str, Any]:
        """Return the runtime's report of one invocation.

        Raises TimeoutError and EnvironmentEndedError; the environment has then ended.
        """
        self._channel.settimeout(self.configuration.timeout)
        try:
            self._channel.sendall(json.dumps(invocation).encode() + b"\n")
        except BrokenPipeError:
            raise EnvironmentEndedError(self.kill()) from None
        return self._report()

    def _report(self) -> dict[str, Any]:
        try:
            line = self._answers.readline()
        except TimeoutError:
            self.kill()
            raise
        except ConnectionResetError:
            line = b""
        if not line:
            raise EnvironmentEndedError(self.kill())
        report: dict[str, Any] = json.loads(line)
        self._has_ended = report.get("ended", False)
        return report

    def new_output(self) -> list[str]:
        """Return the lines that the function printed since the last call."""
        with self._output.open("rb") as file:
            file.seek(self._reported)
            text = file.read()
            self._reported = file.tell()
        return text.decode(errors="replace").splitlines()

    def freeze(self) -> None:
        """Stop all processes of the environment."""
        self._order(keeper.STOP)

    def thaw(self) -> None:
        """Let all processes of the environment continue."""
        self._order(keeper.CONTINUE)

    def kill(self) -> int:
        """Kill all processes of the environment; return the exit code of its main process."""
        self._has_ended = True
        self._orders.close()
        return self._keeper.wait()

    def end(self) -> None:
        """Kill all processes of the environment and remove its folder."""
        self.kill()
        self._answers.close()
        self._channel.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _order(self, order: bytes) -> None:
        with suppress(OSError):  # it has ended, and the next invocation will notice
            self._orders.sendall(order)


@dataclass
class _Fleet:
    """The environments of one function."""

    idle: list[Environment] = field(default_factory=list)
    """The one used last comes last, and is reused first."""
    busy: set[Environment] = field(default_factory=set)
    moved_at: float = 0.0
    """When the last environment was created or became free."""
    spare_then: float = 0.0
    """`spare_seconds` at `moved_at`."""

    def note_move(self) -> None:
        """Record that an environment was created or became free."""
        self.moved_at, self.spare_then = time.monotonic(), spare_seconds()

    @property
    def is_stuck(self) -> bool:
        """Return whether the busy environments seem to wait for something other than a core."""
        waited = time.monotonic() - self.moved_at
        has_idle_core = spare_seconds() - self.spare_then >= waited / 2
        return waited >= (PATIENCE_SECONDS if has_idle_core else BUSY_PATIENCE_SECONDS)

    def take_idle(self, is_taken: Callable[[Environment], bool]) -> list[Environment]:
        """Remove and return the idle environments for which `is_taken` is true."""
        taken = [each for each in self.idle if is_taken(each)]
        self.idle = [each for each in self.idle if each not in taken]
        return taken


class Environments:
    """All environments of the account, with a limit per function.

    If a function has as many environments as there are cores, and all are busy, an invocation waits for one of them:
    another environment would only slow them down. If none becomes free while a core is idle, they wait for something,
    perhaps for this invocation, and another environment is created. On a busy machine it is created later, so that no
    invocation waits forever.
    """

    def __init__(self, account: Account, folder: Path, idle_seconds: float) -> None:
        self._account = account
        self._folder = folder
        self._idle_seconds = idle_seconds
        self._cores = os.cpu_count() or 1
        self._fleets: defaultdict[str, _Fleet] = defaultdict(_Fleet)
        self.changed = threading.Condition()
        """Notified when an environment becomes free."""
        self._closed = False
        threading.Thread(target=self._end_idle_ones, name="idle-functions", daemon=True).start()

    @contextmanager
    def borrowed(self, configuration: Configuration) -> Iterator[Environment]:
        """Yield an environment of this configuration for one invocation."""
        environment = self._acquire(configuration)
        try:
            environment.thaw()
            yield environment
        finally:
            self._release(environment)

    def close(self) -> None:
        """End all environments, also those that run an invocation; no environment can be created afterwards."""
        with self.changed:
            self._closed = True
            idle = [each for fleet in self._fleets.values() for each in fleet.idle]
            busy = [each for fleet in self._fleets.values() for each in fleet.busy]
            self._fleets.clear()
            self.changed.notify_all()
        for environment in busy:
            environment.kill()  # the thread that uses it notices and ends it
        for environment in idle:
            environment.end()

    def _acquire(self, configuration: Configuration) -> Environment:
        outdated: list[Environment] = []
        with self.changed:
            fleet = self._fleets[configuration.name]
            while True:
                if self._closed:
                    raise RuntimeError("the account is stopping: it starts no more functions")
                outdated += fleet.take_idle(lambda each: each.configuration != configuration or not each.usable)
                if fleet.idle:
                    environment = fleet.idle.pop()
                    break
                if len(fleet.busy) < self._cores or fleet.is_stuck:
                    environment = Environment(self._account, configuration, self._folder / uuid.uuid4().hex)
                    fleet.note_move()
                    break
                self.changed.wait(PATIENCE_SECONDS)
            fleet.busy.add(environment)
        for each in outdated:
            each.end()
        return environment

    def _release(self, environment: Environment) -> None:
        with self.changed:
            fleet = self._fleets[environment.configuration.name]
            fleet.busy.discard(environment)
            is_kept = environment.usable and not self._closed
            if is_kept:
                environment.freeze()
                environment.idle_since = time.monotonic()
                fleet.idle.append(environment)
            fleet.note_move()
            self.changed.notify_all()
        if not is_kept:
            environment.end()

    def _end_idle_ones(self) -> None:
        while True:
            with self.changed:
                if self._closed:
                    return
                fleets = list(self._fleets.values())
                limit = time.monotonic() - self._idle_seconds
                over = [each for fleet in fleets for each in fleet.take_idle(partial(_idle_before, limit))]
                if not over:
                    oldest = min((each.idle_since for fleet in fleets for each in fleet.idle), default=None)
                    self.changed.wait(None if oldest is None else oldest - limit)
            for environment in over:
                environment.end()


def spare_seconds() -> float:
    """Return the idle seconds of all cores together since the machine started."""
    with open("/proc/stat", "rb") as file:  # noqa: PTH123 - called often, so it must be fast
        return int(file.readline().split()[4]) / _TICKS


def _idle_before(limit: float, environment: Environment) -> bool:
    return environment.idle_since <= limit


def _log_stream(account: Account, configuration: Configuration) -> str:
    return f"{account.clock.now():%Y/%m/%d}/[{configuration.function.version}]{uuid.uuid4().hex}"
