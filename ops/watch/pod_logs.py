"""Print the logs of pods, and follow them across restarts and replacements."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import kubernetes
import urllib3
from kubernetes.client import ApiException

from ops.clients import REQUEST_TIMEOUT
from ops.errors import NoAnswerError, as_viewer
from ops.jobs.operators.follow import lines_of
from ops.readiness.simulated import explanation
from ops.sign_of_life import SILENCE
from ops.watch.logs import NoLogsError, Pods, Say

# Seconds to connect, and seconds without a line after which a log is requested again.
_SILENCE: Final = (REQUEST_TIMEOUT[0], 3600)
# The kubelet's answers about a container without a log yet, and about one that is gone.
_NO_LOG: Final = {400, 404, 500}

_Key = tuple[str, str]


@dataclass
class PodLogs:
    """Prints the logs of `pods`: each line with the name of its pod. `since` is in seconds; None means all."""

    core: kubernetes.client.CoreV1Api
    pods: Pods
    say: Say
    since: float | None = None
    interval: float = 2.0
    _started: float = field(default_factory=time.monotonic)
    _shown: dict[_Key, int] = field(default_factory=dict)
    _followed: dict[_Key, threading.Thread] = field(default_factory=dict)
    _refusals: list[Exception] = field(default_factory=list)

    def print(self) -> None:
        """Print what has been logged. Raises NoLogsError if no container has a log, and ApiException."""
        reasons = []
        containers = list(self._containers())
        for pod, container, _ in containers:
            try:
                self._print(pod, container, follow=False)
            except ApiException as error:
                if error.status not in _NO_LOG:
                    raise
                reasons.append(explanation(error) or f"{pod}: {_message(error)}")
        if not containers:
            raise NoLogsError(f"no pod {self.pods.selector} in namespace {self.pods.namespace}. Fix: see `ops status`")
        if len(reasons) == len(containers):
            raise NoLogsError(f"no logs: {'; '.join(dict.fromkeys(reasons))}. Fix: see `ops status`")

    @SILENCE.wanted()
    def follow(self) -> None:
        """Print what has been logged and what will be, of present and future pods; only an exception ends it."""
        while not self._refusals:
            try:
                with as_viewer():
                    for pod, container, runs in self._containers():
                        self._start(pod, container, runs=runs)
            except NoAnswerError as error:
                self.say(f"── no answer, retrying: {error.what}")
            time.sleep(self.interval)
        raise self._refusals[0]

    def _containers(self) -> Iterator[tuple[str, str, bool]]:
        """Yield pod, container and whether it runs, for each container that has been started."""
        listed = self.core.list_namespaced_pod(
            self.pods.namespace, label_selector=self.pods.selector, _request_timeout=REQUEST_TIMEOUT
        ).items
        for pod in sorted(listed, key=lambda pod: str(pod.metadata.creation_timestamp)):
            for status in [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]:
                wanted = self.pods.container in {"", status.name}
                if wanted and (status.state.running or status.state.terminated):
                    yield pod.metadata.name, status.name, bool(status.state.running)

    def _start(self, pod: str, container: str, *, runs: bool) -> None:
        """Follow the container in a thread, unless one does; one that has ended is read once more to its end."""
        thread = self._followed.get((pod, container))
        if thread and (thread.is_alive() or not runs):
            return
        thread = threading.Thread(target=self._follow, args=(pod, container), daemon=True)
        self._followed[pod, container] = thread
        thread.start()

    def _follow(self, pod: str, container: str) -> None:
        try:
            self._print(pod, container, follow=True)
        except (ApiException, urllib3.exceptions.HTTPError) as error:
            if message := explanation(error):
                self._refusals.append(
                    NoLogsError(f"no logs: {message}. Fix: `make rehearse KEEP=1 JOBS=1` runs real Ray")
                )
            elif isinstance(error, ApiException) and error.status in (401, 403):
                self._refusals.append(error)
            # Else the container is starting or gone, or the connection ended: the next look shows which.

    def _print(self, pod: str, container: str, *, follow: bool) -> None:
        """Print the lines that were not printed before: every request starts at the same moment."""
        options: dict[str, Any] = {}
        if self.since is not None:
            options["since_seconds"] = max(1, round(self.since + time.monotonic() - self._started))
        answer = self.core.read_namespaced_pod_log(
            pod,
            self.pods.namespace,
            container=container,
            follow=follow,
            _preload_content=False,
            _request_timeout=_SILENCE if follow else REQUEST_TIMEOUT,
            **options,
        )
        known = self._shown.get((pod, container), 0)
        for number, line in enumerate(lines_of(answer.stream())):
            if number >= known:
                self.say(f"[{pod}] {line}")
                self._shown[pod, container] = number + 1


def _message(error: ApiException) -> str:
    body = error.body
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or error.reason)
    return text.strip()
