"""One container as a local process: started again when it ends, ready when its probe says so."""

import logging
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import urllib3

from rehearsal.kubernetes.api import Object
from rehearsal.kubernetes.launch import Launch
from rehearsal.kubernetes.podserver import ContainerRecord
from rehearsal.kubernetes.references import ContainerConfigError
from rehearsal.processes import end_with_parent

# Kubelet waits 10 s to 5 min; a rehearsal that ends is shown sooner, by the same status.
_FIRST_BACK_OFF: Final = 1.0
_LONGEST_BACK_OFF: Final = 30.0
_FIRST_PROBES_EVERY: Final = 0.25

_log = logging.getLogger(__name__)
_http = urllib3.PoolManager(retries=False)


class Probe:
    """An HTTP probe against the local port that stands for the container's."""

    def __init__(self, spec: Object, container: Object, ports: Launch) -> None:
        """Raises ContainerConfigError for a probe of another kind, or of a port that the program does not open."""
        http = spec.get("httpGet")
        if http is None:
            raise ContainerConfigError("the rehearsal knows httpGet probes only")
        port = _port_number(http["port"], container)
        if port not in ports.ports:
            raise ContainerConfigError(f"a probe asks port {port}, but the program opens {sorted(ports.ports)} only")
        self._url = f"{http.get('scheme', 'HTTP').lower()}://127.0.0.1:{ports.ports[port]}{http.get('path', '/')}"
        self._timeout = float(spec.get("timeoutSeconds", 1))
        self.initial_delay = float(spec.get("initialDelaySeconds", 0))
        self.period = float(spec.get("periodSeconds", 10))
        self.threshold = int(spec.get("failureThreshold", 3))
        self.failures = 0
        self._next = 0.0

    def is_due(self, now: float) -> bool:
        return now >= self._next

    def ask(self, now: float, *, again_after: float) -> bool:
        """Ask once; an answer of 200 to 399 is a success, as kubelet has it."""
        self._next = now + again_after
        try:
            status = _http.request("GET", self._url, timeout=self._timeout).status
        except urllib3.exceptions.HTTPError:
            status = 0
        succeeded = 200 <= status < 400
        self.failures = 0 if succeeded else self.failures + 1
        return succeeded


class Container:
    """The life of one container under its pod's restart policy."""

    def __init__(self, spec: Object, restart_policy: str, prepare: Callable[[], Launch], log: Path) -> None:
        self.spec = spec
        self._restart_policy = restart_policy
        self._prepare = prepare
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._launch: Launch | None = None
        self._readiness: Probe | None = None
        self._liveness: Probe | None = None
        self._started_at = ""
        self._started = 0.0
        self._start_again = 0.0
        self._starts = 0
        self._waiting: Object = {"reason": "ContainerCreating"}
        self._terminated: Object | None = None
        self.ready = False

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def exit_code(self) -> int | None:
        """The code with which the container ended for good; None while it runs or will run again."""
        if self._process or self._terminated is None or self._restarts_after(self._terminated["exitCode"]):
            return None
        return int(self._terminated["exitCode"])

    def step(self) -> None:
        """Bring the process on: notice its end, start it, probe it."""
        now = time.monotonic()
        if self._process and (code := self._process.poll()) is not None:
            self._ended(code, now)
        if self._process:
            self._probe(now)
        elif self.exit_code is None and now >= self._start_again:
            self._start(now)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it runs."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(number)

    def has_ended(self) -> bool:
        """Whether no process is left."""
        return self._process is None or self._process.poll() is not None

    def record(self) -> ContainerRecord | None:
        """How kubectl reaches it; None before the first start."""
        if self._launch is None:
            return None
        environment = [f"{name}={value}" for name, value in self._launch.environment.items()]
        return ContainerRecord(str(self._log), self.is_running, (), environment, self._launch.environment["HOME"])

    def ports(self) -> dict[int, str]:
        """Its ports → where they are on this machine."""
        return {port: f"127.0.0.1:{local}" for port, local in self._launch.ports.items()} if self._launch else {}

    def status(self) -> Object:
        """The container's `containerStatuses` entry."""
        status: Object = {
            "name": self.spec["name"],
            "image": self.spec["image"],
            "imageID": "",
            "ready": self.ready,
            "started": self.is_running,
            "restartCount": max(0, self._starts - 1),
        }
        if self._process:
            status["state"] = {"running": {"startedAt": self._started_at}}
        elif self.exit_code is not None:
            status["state"] = {"terminated": self._terminated}
        else:
            status["state"] = {"waiting": self._waiting}
        if self._terminated and self.exit_code is None:
            status["lastState"] = {"terminated": self._terminated}
        return status

    def _start(self, now: float) -> None:
        try:
            launch = self._prepare()
            self._readiness = self._probe_of("readinessProbe", launch)
            self._liveness = self._probe_of("livenessProbe", launch)
        except ContainerConfigError as error:
            self._waiting = {"reason": "CreateContainerConfigError", "message": str(error)}
            self._start_again = now + _FIRST_BACK_OFF
            return
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                launch.argv,
                env=dict(launch.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call
            )
        self._launch = launch
        _log.info("started %s as process %s", self.spec["name"], self._process.pid)
        self._starts += 1
        self._started, self._started_at = now, timestamp()
        self.ready = self._readiness is None

    def _probe_of(self, kind: str, launch: Launch) -> Probe | None:
        if "startupProbe" in self.spec:
            raise ContainerConfigError("the rehearsal does not know startupProbe")
        return Probe(self.spec[kind], self.spec, launch) if kind in self.spec else None

    def _probe(self, now: float) -> None:
        """Readiness is asked at once and often until it is there: the initial delay only spares a slow start."""
        probe = self._readiness
        if probe and probe.is_due(now):
            succeeded = probe.ask(now, again_after=probe.period if self.ready else _FIRST_PROBES_EVERY)
            self.ready = succeeded or (self.ready and probe.failures < probe.threshold)
        probe = self._liveness
        if probe and now >= self._started + probe.initial_delay and probe.is_due(now):
            probe.ask(now, again_after=probe.period)
            if probe.failures >= probe.threshold:
                _log.warning("%s failed its liveness probe %s times", self.spec["name"], probe.failures)
                self.signal(signal.SIGKILL)

    def _ended(self, code: int, now: float) -> None:
        self._process = None
        self.ready = False
        code = code if code >= 0 else 128 - code  # as a shell reports a signal
        self._terminated = {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": self._started_at,
            "finishedAt": timestamp(),
        }
        back_off = min(_FIRST_BACK_OFF * 2 ** (self._starts - 1), _LONGEST_BACK_OFF)
        self._start_again = now + back_off
        self._waiting = {
            "reason": "CrashLoopBackOff",
            "message": f"back-off {back_off:.0f}s restarting failed container; its log: {self._log}",
        }
        _log.warning("%s ended with code %s", self.spec["name"], code)

    def _restarts_after(self, code: int) -> bool:
        return self._restart_policy == "Always" or (self._restart_policy == "OnFailure" and code != 0)


def timestamp() -> str:
    """Now, as Kubernetes writes times."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _port_number(port: int | str, container: Object) -> int:
    """The number of a port that a probe gives by number or by name."""
    if isinstance(port, int):
        return port
    for declared in container.get("ports", ()):
        if declared.get("name") == port:
            return int(declared["containerPort"])
    raise ContainerConfigError(f"a probe asks port {port}, which the container does not declare")
