"""Stream a run's output across its supervisor pods, with the supervisor's own messages in between."""

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import urllib3
from kubernetes.client import ApiException
from rich.console import Console
from rich.markup import escape

from k8s_charts.shared.names import JOB_SUPERVISOR, RAYJOB_SUBMITTER
from ops.jobs.runs import Run, Runs, as_submitter

_LOOK: Final = 1.0
_ASIDE: Final = {"time", "message", "controller"}
_CONTROLLERS: Final = {JOB_SUPERVISOR, RAYJOB_SUBMITTER}


def follow(runs: Runs, name: str, console: Console) -> int:
    """Show the output of a run until it ends; return its exit code. Raises RunError and UnreachableError."""
    told = ""
    shown: dict[str, int] = {}
    while True:
        with as_submitter():
            run = runs.get(name)
            pods = runs.pods(name)
        reason = str(run.state.get("reason", ""))
        if not pods and reason and not run.finished and reason != told:
            _aside(console, run.phase, {"reason": reason})
            told = reason
        for pod in pods:
            if pod.status.phase == "Pending":
                waits = _waits(pod)
                if waits != told:
                    _aside(console, "waiting for the supervisor", {"reason": waits})
                    told = waits
            else:
                _show(runs, pod.metadata.name, shown, console)
        if run.finished:
            return _exit_code(run, pods)
        time.sleep(_LOOK)


def show(line: str, console: Console) -> None:
    """Print a line of the output: a job's line unchanged, a supervisor's message highlighted."""
    said = _said(line)
    if said is None:
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    else:
        _aside(console, said["message"], {key: value for key, value in said.items() if key not in _ASIDE})


def _show(runs: Runs, pod: str, shown: dict[str, int], console: Console) -> None:
    """Print a pod's new log lines until the pod or the connection ends."""
    known = shown.get(pod, 0)
    try:
        for number, line in enumerate(lines_of(runs.log(pod))):
            if number >= known:
                show(line, console)
                shown[pod] = number + 1
    except (ApiException, urllib3.exceptions.HTTPError) as error:
        # The pod has not started or is gone, or the API server closed the connection: the next poll shows which.
        if isinstance(error, ApiException) and error.status in (401, 403):
            with as_submitter():
                raise


def lines_of(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a text that arrives in pieces."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")


def _said(line: str) -> dict[str, Any] | None:
    """Return the supervisor's message in a line as a dict; None if the line is the job's."""
    if not line.startswith("{"):
        return None
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) and said.get("controller") in _CONTROLLERS and "message" in said else None


def _aside(console: Console, message: str, fields: dict[str, Any]) -> None:
    told = ", ".join(f"{key} {value}" if key != "reason" else str(value) for key, value in fields.items())
    text = f"── {message}{': ' + told if told else ''}"
    console.print(f"[cyan]{escape(text)}[/]", soft_wrap=True, highlight=False)


def _waits(pod: Any) -> str:
    """Return why the supervisor's pod is pending, in the scheduler's or the kubelet's words."""
    for condition in pod.status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            return str(condition.message or condition.reason)
    for container in pod.status.container_statuses or []:
        if waiting := container.state.waiting:
            return str(waiting.message or waiting.reason)
    return "its pod is starting"


def _exit_code(run: Run, pods: list[Any]) -> int:
    """Return the exit code that the supervisor recorded, else that of its last pod."""
    code = run.state.get("exit_code")
    if code is not None:
        return int(code)
    for pod in reversed(pods):
        for container in pod.status.container_statuses or []:
            if container.state.terminated:
                return int(container.state.terminated.exit_code)
    return 1
