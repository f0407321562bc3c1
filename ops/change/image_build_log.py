"""Follow a build of the Ray image: stream its log and show what it waits for."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import kubernetes
import urllib3
from kubernetes.client import ApiException

from config import EksEnvironment
from k8s_charts.shared.names import IMAGE_BUILD_NAMESPACE
from ops.change.image_build import BuildError
from ops.clients import REQUEST_TIMEOUT, Clients
from ops.durations import elapsed
from ops.errors import NoAnswerError, in_plain_words
from ops.jobs.operators.follow import lines_of
from ops.readiness.item import ReadinessState
from ops.readiness.one_off_jobs import end_of_log, progress, pushed, variables
from ops.readiness.simulated import explanation

# Containers of the build's pod, in running order. The third, `report`, prints nothing new.
_CONTAINERS: Final = ("prepare", "build")
# Print the elapsed time after this many seconds without a line.
_SILENCE_SECONDS: Final = 60

Say = Callable[[str], None]


@dataclass(frozen=True)
class BuildOutcome:
    """How a build ended, READY or FAILED, and after how many seconds."""

    state: ReadinessState
    detail: str
    seconds: float


@dataclass
class BuildFollower:
    """Streams a build's log to `say`; polls every `interval` seconds, for at most `timeout` seconds."""

    environment: EksEnvironment
    clients: Clients
    say: Say
    timeout: float
    interval: float = 2.0
    _shown: dict[tuple[str, str], int] = field(default_factory=dict)
    _whole: set[tuple[str, str]] = field(default_factory=set)
    _refusals: set[str] = field(default_factory=set)

    def follow(self, name: str) -> BuildOutcome:
        """Return how the Job ended. Raises BuildError if it has not ended in time, and UnreachableError."""
        started = reported_at = time.monotonic()
        before = ""
        while True:
            lines = 0
            try:
                with in_plain_words():
                    job, state, details = self._poll(name)
                    lines = self._show(name)
                    if state is not ReadinessState.WAITING:
                        return self._outcome(job, state, details, time.monotonic() - started)
                text = "; ".join(details)
            except NoAnswerError as error:
                text = f"no answer, retrying: {error.what}"
            now = time.monotonic()
            reported_at = now if lines else reported_at
            if text != before or now - reported_at >= _SILENCE_SECONDS:
                self.say(f"── {elapsed(now - started)}: {text}")
                before, reported_at = text, now
            if now - started >= self.timeout:
                raise BuildError(
                    f"Job {name} has not ended after {elapsed(now - started)}; it continues. "
                    f"Fix: `ops wait --env {self.environment.name}`. Last seen: {text}"
                )
            time.sleep(self.interval)

    def _poll(self, name: str) -> tuple[Any, ReadinessState, list[str]]:
        api = self.clients.kubernetes
        read = kubernetes.client.BatchV1Api(api).read_namespaced_job
        job = read(name, IMAGE_BUILD_NAMESPACE, _request_timeout=REQUEST_TIMEOUT)
        return job, *progress(api, job, running="building")

    def _outcome(self, job: Any, state: ReadinessState, details: list[str], seconds: float) -> BuildOutcome:
        build, repository = variables(job), str(self.environment.image.repository)
        if state is ReadinessState.FAILED:
            return BuildOutcome(state, "; ".join([*details, end_of_log(build, self.clients.s3)]), seconds)
        found = pushed(repository, build["TAG"], self.clients.ecr)
        if found is None:
            return BuildOutcome(ReadinessState.FAILED, f"complete, but the registry has no tag {build['TAG']}", seconds)
        return BuildOutcome(state, found, seconds)

    def _show(self, name: str) -> int:
        """Print the new log lines of the Job's pods; return their number."""
        core = kubernetes.client.CoreV1Api(self.clients.kubernetes)
        selector = f"batch.kubernetes.io/job-name={name}"
        pods = core.list_namespaced_pod(
            IMAGE_BUILD_NAMESPACE, label_selector=selector, _request_timeout=REQUEST_TIMEOUT
        ).items
        return sum(
            self._show_container(core, pod.metadata.name, status)
            for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp)
            for status in _in_order(pod)
        )

    def _show_container(self, core: kubernetes.client.CoreV1Api, pod: str, status: Any) -> int:
        key = pod, status.name
        if key in self._whole or not (status.state.running or status.state.terminated):
            return 0
        known = self._shown.get(key, 0)
        try:
            for number, line in enumerate(_log(core, pod, status.name)):
                if number >= known:
                    self.say(line)
                    self._shown[key] = number + 1
            if status.state.terminated:
                self._whole.add(key)
        except (ApiException, urllib3.exceptions.HTTPError) as error:
            self._cannot_show(key, error)
        return self._shown.get(key, 0) - known

    def _cannot_show(self, key: tuple[str, str], error: Exception) -> None:
        """Leave a timeout or a closed connection to the next poll; print a rehearsal's refusal once."""
        if isinstance(error, ApiException) and error.status in (401, 403):
            raise error
        if simulated := explanation(error):
            self._whole.add(key)
            if simulated not in self._refusals:
                self.say(f"── {simulated}")
                self._refusals.add(simulated)


def _in_order(pod: Any) -> list[Any]:
    statuses = [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]
    by_name = {status.name: status for status in statuses}
    return [by_name[name] for name in _CONTAINERS if name in by_name]


def _log(core: kubernetes.client.CoreV1Api, pod: str, container: str) -> Iterator[str]:
    """Stream a container's lines from the first, until the container or the connection ends."""
    answer = core.read_namespaced_pod_log(
        pod,
        IMAGE_BUILD_NAMESPACE,
        container=container,
        follow=True,
        _preload_content=False,
        _request_timeout=REQUEST_TIMEOUT,
    )
    yield from lines_of(answer.stream())
