"""Execution environments of functions, as on Lambda: one process for one invocation at a time, kept for the next one.

An environment goes with its function's code and configuration, with its credentials, after a crash or a time-out, and
when it was idle for long. Between invocations it is frozen, with all that it started.
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
"""Lambda says no number; some minutes are seen."""

_INIT_SECONDS: Final = 10.0
"""Time that Lambda gives the loading of a function's code, before the function's own time-out counts."""

PATIENCE_SECONDS: Final = 0.5
"""Time without any of a function's environments coming free, after which one more than there are cores is made, where
a core was idle for at least half of it."""

BUSY_PATIENCE_SECONDS: Final = 5.0
"""The same where no core was: what runs may still wait for this very invocation."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class EnvironmentEndedError(Exception):
    """The environment's process ended by itself: `exit_code` says how, negative for a signal."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code


class Environment:
    """The process that runs one function, its folder and its log stream. Used by one thread at a time."""

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
        """Whether the next invocation can have it."""
        return not self._has_ended and self._keeper.poll() is None

    def initialize(self) -> dict[str, Any]:
        """Wait until the function's code is loaded; return the runtime's report.

        Raises TimeoutError and EnvironmentEndedError; the environment has ended then.
        """
        self._channel.settimeout(_INIT_SECONDS + self.configuration.timeout)
        report = self._report()
        self.initialized = True
        return report

    def invoke(self, invocation: Mapping[str, Any]) -> dict[str, Any]:
        """Return the runtime's report of one invocation.

        Raises TimeoutError and EnvironmentEndedError; the environment has ended then.
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
        """Stop everything that runs in the environment."""
        self._order(keeper.STOP)

    def thaw(self) -> None:
        """Let everything continue."""
        self._order(keeper.CONTINUE)

    def kill(self) -> int:
        """Kill everything that runs in the environment; return its process's exit code."""
        self._has_ended = True
        self._orders.close()
        return self._keeper.wait()

    def end(self) -> None:
        """Kill everything that runs in the environment and remove its folder."""
        self.kill()
        self._answers.close()
        self._channel.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _order(self, order: bytes) -> None:
        with suppress(OSError):  # it has ended, which the next invocation will find
            self._orders.sendall(order)


@dataclass
class _Fleet:
    """The environments of one function."""

    idle: list[Environment] = field(default_factory=list)
    """The one used last comes last, and is used again first."""
    busy: set[Environment] = field(default_factory=set)
    moved_at: float = 0.0
    """When one was made or came free last."""
    spare_then: float = 0.0
    """`spare_seconds` of that moment."""

    def note_move(self) -> None:
        """Say that one was made or came free."""
        self.moved_at, self.spare_then = time.monotonic(), spare_seconds()

    @property
    def is_stuck(self) -> bool:
        """Whether those that are busy seem to wait for something else than a core."""
        waited = time.monotonic() - self.moved_at
        has_idle_core = spare_seconds() - self.spare_then >= waited / 2
        return waited >= (PATIENCE_SECONDS if has_idle_core else BUSY_PATIENCE_SECONDS)

    def take_idle(self, is_taken: Callable[[Environment], bool]) -> list[Environment]:
        """Remove and return the idle environments for which `is_taken` holds."""
        taken = [each for each in self.idle if is_taken(each)]
        self.idle = [each for each in self.idle if each not in taken]
        return taken


class Environments:
    """All environments of the account, at most as many of a function at once as it makes sense to run.

    Where a function has as many environments as there are cores, all busy, an invocation waits for one of them: making
    another would only slow those down. If none comes free while a core is idle (they wait for something, perhaps for
    this very invocation), another is made; on a busy machine in the end, too, so that nothing waits for ever.
    """

    def __init__(self, account: Account, folder: Path, idle_seconds: float) -> None:
        self._account = account
        self._folder = folder
        self._idle_seconds = idle_seconds
        self._cores = os.cpu_count() or 1
        self._fleets: defaultdict[str, _Fleet] = defaultdict(_Fleet)
        self.changed = threading.Condition()
        """Notified when an environment came free."""
        self._closed = False
        threading.Thread(target=self._end_idle_ones, name="idle-functions", daemon=True).start()

    @contextmanager
    def borrowed(self, configuration: Configuration) -> Iterator[Environment]:
        """Give an environment of this configuration for one invocation."""
        environment = self._acquire(configuration)
        try:
            environment.thaw()
            yield environment
        finally:
            self._release(environment)

    def close(self) -> None:
        """End all environments, also under an invocation; none is made afterwards."""
        with self.changed:
            self._closed = True
            idle = [each for fleet in self._fleets.values() for each in fleet.idle]
            busy = [each for fleet in self._fleets.values() for each in fleet.busy]
            self._fleets.clear()
            self.changed.notify_all()
        for environment in busy:
            environment.kill()  # whoever uses it finds that and ends it
        for environment in idle:
            environment.end()

    def _acquire(self, configuration: Configuration) -> Environment:
        outdated: list[Environment] = []
        with self.changed:
            fleet = self._fleets[configuration.name]
            while True:
                if self._closed:
                    raise RuntimeError("the account is ending: no function starts any more")
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
    """Return the time that cores had nothing to do, of all cores together, since the machine started."""
    with open("/proc/stat", "rb") as file:  # noqa: PTH123 - as quick as it is often asked
        return int(file.readline().split()[4]) / _TICKS


def _idle_before(limit: float, environment: Environment) -> bool:
    return environment.idle_since <= limit


def _log_stream(account: Account, configuration: Configuration) -> str:
    return f"{account.clock.now():%Y/%m/%d}/[{configuration.function.version}]{uuid.uuid4().hex}"
