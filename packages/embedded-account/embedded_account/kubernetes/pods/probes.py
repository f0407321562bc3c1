"""Probe a container with HTTP requests, and in a sandbox also with commands."""

import os
import signal
import subprocess
import time
from typing import Final, Protocol

import urllib3

from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.pods.launch import Launch
from embedded_account.kubernetes.pods.references import ContainerConfigError

_http = urllib3.PoolManager(retries=False)
_FIRST_REQUESTS_EVERY_SECONDS: Final = 0.25
_FIRST_COMMANDS_EVERY_SECONDS: Final = 1.0


class _Check(Protocol):
    """One check, which may take some time."""

    @property
    def under_way(self) -> bool: ...

    def outcome(self) -> bool | None:
        """Start the check unless it is running; return its outcome, or None if it is not known yet."""


class Probe:
    """Runs a container's check when it is due."""

    def __init__(self, spec: Object, container: Object, launch: Launch) -> None:
        """Read the probe.

        Raises ContainerConfigError for another kind of probe, or for a port that the program does not open.
        """
        timeout = float(spec.get("timeoutSeconds", 1))
        self.first_period = _FIRST_REQUESTS_EVERY_SECONDS
        self._check: _Check
        if http := spec.get("httpGet"):
            self._check = _Request(http, container, launch, timeout)
        elif "exec" in spec and launch.sandbox:
            self._check = _Command([*launch.sandbox.enter, *spec["exec"]["command"]], launch, timeout)
            self.first_period = _FIRST_COMMANDS_EVERY_SECONDS
        else:
            raise ContainerConfigError("the rehearsal supports only httpGet probes here")
        self.initial_delay = float(spec.get("initialDelaySeconds", 0))
        self.period = float(spec.get("periodSeconds", 10))
        self.threshold = int(spec.get("failureThreshold", 3))
        self.failures = 0
        self._next = 0.0

    def ask(self, now: float, *, again_after: float) -> bool | None:
        """Return the outcome of the check if it is known, else None. Start the check first if it is due."""
        if not self._check.under_way:
            if now < self._next:
                return None
            self._next = now + again_after
        outcome = self._check.outcome()
        if outcome is not None:
            self.failures = 0 if outcome else self.failures + 1
        return outcome


class _Request:
    """An HTTP request; status 200 to 399 is a success, as for kubelet."""

    under_way = False

    def __init__(self, http: Object, container: Object, launch: Launch, timeout: float) -> None:
        port = _port_number(http["port"], container)
        self._network = launch.sandbox.network if launch.sandbox else None
        if launch.sandbox:
            address = f"{launch.sandbox.address}:{port}"
        elif port in launch.ports:
            address = f"127.0.0.1:{launch.ports[port]}"
        else:
            raise ContainerConfigError(f"a probe uses port {port}, but the program opens only {sorted(launch.ports)}")
        self._url = f"{http.get('scheme', 'HTTP').lower()}://{address}{http.get('path', '/')}"
        self._timeout = timeout

    def outcome(self) -> bool:
        return self._network.run(self._ask) if self._network else self._ask()

    def _ask(self) -> bool:
        try:
            return 200 <= _http.request("GET", self._url, timeout=self._timeout).status < 400
        except urllib3.exceptions.HTTPError:
            return False


class _Command:
    """A command; exit code 0 within the timeout is a success."""

    def __init__(self, argv: list[str], launch: Launch, timeout: float) -> None:
        self._argv = argv
        self._environment = dict(launch.environment)
        self._timeout = timeout
        self._running: subprocess.Popen[bytes] | None = None
        self._late = 0.0

    @property
    def under_way(self) -> bool:
        return self._running is not None

    def outcome(self) -> bool | None:
        if self._running is None:
            self._late = time.monotonic() + self._timeout
            quiet = subprocess.DEVNULL
            self._running = subprocess.Popen(
                self._argv, env=self._environment, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
            )
        code = self._running.poll()
        if code is None and time.monotonic() < self._late:
            return None
        if code is None:
            os.killpg(self._running.pid, signal.SIGKILL)
            self._running.wait()
        self._running = None
        return code == 0


def _port_number(port: int | str, container: Object) -> int:
    """Return the number of a port that a probe gives by number or by name."""
    if isinstance(port, int):
        return port
    for declared in container.get("ports", ()):
        if declared.get("name") == port:
            return int(declared["containerPort"])
    raise ContainerConfigError(f"a probe uses port {port}, which the container does not declare")
