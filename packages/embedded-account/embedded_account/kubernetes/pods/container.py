"""Run one container as a local process: restart it when it ends, and report it as ready when its probe succeeds."""

import logging
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.pods.launch import Launch
from embedded_account.kubernetes.pods.podserver import ContainerRecord
from embedded_account.kubernetes.pods.probes import Probe
from embedded_account.kubernetes.pods.references import ContainerConfigError
from embedded_account.machine.processes import end_with_parent

# Kubelet waits 10 s to 5 min. The rehearsal waits less, so that a container that keeps ending is seen sooner.
_FIRST_BACK_OFF_SECONDS: Final = 1.0
_LONGEST_BACK_OFF_SECONDS: Final = 30.0

_log = logging.getLogger(__name__)


class Container:
    """The lifecycle of one container under its pod's restart policy."""

    def __init__(self, spec: Object, restart_policy: str, prepare: Callable[[], Launch], log: Path) -> None:
        self.spec = spec
        self._restart_policy = restart_policy
        self._prepare = prepare
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._launch: Launch | None = None
        self._hook: subprocess.Popen[bytes] | None = None
        self._told = False
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
        """Return the container's final exit code, or None while it runs or will restart."""
        if self._process or self._terminated is None or self._restarts_after(self._terminated["exitCode"]):
            return None
        return int(self._terminated["exitCode"])

    def step(self) -> None:
        """Advance the container: notice its end, start it, probe it."""
        now = time.monotonic()
        if self._process and (code := self._process.poll()) is not None:
            self._ended(code, now)
        if self._process:
            self._probe(now)
        elif self.exit_code is None and now >= self._start_again:
            self._start(now)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process if it is running."""
        if self._process and self._process.poll() is None:
            if self._launch and self._launch.sandbox:
                self._launch.sandbox.signal(self._process, number)
            else:
                self._process.send_signal(number)

    def end(self) -> None:
        """Advance an orderly end: the preStop hook (only in a sandbox: it may end other processes), then SIGTERM."""
        if self._hook is None and self.is_running:
            self._hook = self._start_hook()
        if (self._hook is None or self._hook.poll() is not None) and not self._told:
            self._told = True
            self.signal(signal.SIGTERM)

    def has_ended(self) -> bool:
        """Return whether no process is left."""
        return self._process is None or self._process.poll() is not None

    def record(self) -> ContainerRecord | None:
        """Return how kubectl reaches the container, or None before its first start."""
        if self._launch is None:
            return None
        environment = [f"{name}={value}" for name, value in self._launch.environment.items()]
        enter = tuple(self._launch.sandbox.enter) if self._launch.sandbox else ()
        return ContainerRecord(str(self._log), self.is_running, enter, environment, self._launch.environment["HOME"])

    def ports(self) -> dict[int, str]:
        """Return the container's ports → their addresses on this machine."""
        return {port: f"127.0.0.1:{local}" for port, local in self._launch.ports.items()} if self._launch else {}

    def status(self) -> Object:
        """Return the container's entry of `containerStatuses`."""
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
            self._start_again = now + _FIRST_BACK_OFF_SECONDS
            return
        self._process = self._run(launch.argv, launch)
        self._launch = launch
        _log.info("started %s as process %s", self.spec["name"], self._process.pid)
        self._starts += 1
        self._started, self._started_at = now, timestamp()
        self.ready = self._readiness is None

    def _run(self, argv: Sequence[str], launch: Launch) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as output:
            return subprocess.Popen(
                argv,
                env=dict(launch.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call
            )

    def _start_hook(self) -> subprocess.Popen[bytes] | None:
        hook = self.spec.get("lifecycle", {}).get("preStop", {}).get("exec")
        if hook is None or self._launch is None or self._launch.sandbox is None:
            return None
        return self._run([*self._launch.sandbox.enter, *hook["command"]], self._launch)

    def _probe_of(self, kind: str, launch: Launch) -> Probe | None:
        if "startupProbe" in self.spec:
            raise ContainerConfigError("the rehearsal does not support startupProbe")
        return Probe(self.spec[kind], self.spec, launch) if kind in self.spec else None

    def _probe(self, now: float) -> None:
        """Run the probes that are due.

        Readiness is probed at once, and often until it succeeds: the initial delay only spares slow starts.
        """
        probe = self._readiness
        if probe:
            succeeded = probe.ask(now, again_after=probe.period if self.ready else probe.first_period)
            if succeeded is not None:
                self.ready = succeeded or (self.ready and probe.failures < probe.threshold)
        probe = self._liveness
        if probe and now >= self._started + probe.initial_delay:
            probe.ask(now, again_after=probe.period)
            if probe.failures >= probe.threshold:
                _log.warning("%s failed its liveness probe %s times", self.spec["name"], probe.failures)
                self.signal(signal.SIGKILL)

    def _ended(self, code: int, now: float) -> None:
        self._process = None
        self.ready = False
        code = code if code >= 0 else 128 - code  # as shells report a signal
        self._terminated = {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": self._started_at,
            "finishedAt": timestamp(),
        }
        back_off = min(_FIRST_BACK_OFF_SECONDS * 2 ** (self._starts - 1), _LONGEST_BACK_OFF_SECONDS)
        self._start_again = now + back_off
        self._waiting = {
            "reason": "CrashLoopBackOff",
            "message": f"back-off {back_off:.0f}s restarting failed container; its log: {self._log}",
        }
        _log.warning("%s ended with code %s", self.spec["name"], code)

    def _restarts_after(self, code: int) -> bool:
        return self._restart_policy == "Always" or (self._restart_policy == "OnFailure" and code != 0)


def timestamp() -> str:
    """Return the current time in Kubernetes' format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
