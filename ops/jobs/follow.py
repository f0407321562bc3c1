"""Stream a run's output across its supervisor pods, with the supervisor's own messages in between."""

import time
from functools import partial
from typing import Any

import urllib3
from kubernetes.client import ApiException
from rich.console import Console

from ops.jobs.operators.follow import POLL_SECONDS, asked, follow_first_worker, lines_of
from ops.jobs.run import ExistingRun
from ops.jobs.runs import Runs, as_submitter, pending_reason
from ops.jobs.shown import Shown
from ops.jobs.stored.elsewhere import Elsewhere
from ops.sign_of_life import SILENCE


def follow(runs: Runs, name: str, console: Console) -> int:
    """Show the output of a run until it ends; return its exit code. Raises RunError and UnreachableError."""
    if not runs.get(name).kind.on_ray:
        return follow_first_worker(runs, name, console)
    reported, again, read = "", False, False
    elsewhere = Elsewhere(runs, runs.get(name))
    shown = Shown(console, elsewhere)
    while True:
        run, pods = asked(lambda: (runs.get(name), runs.pods(name)), again=again)
        again = True
        reason = str(run.state.get("reason", ""))
        if not pods and reason and not run.finished and reason != reported:
            shown.aside(run.phase, {"reason": reason})
            reported = reason
        for pod in pods:
            if pod.status.phase == "Pending":
                waits = pending_reason(pod)
                if waits != reported:
                    shown.aside("waiting for the supervisor", {"reason": waits})
                    reported = waits
            else:
                asked(partial(_show, runs, pod.metadata.name, shown), again=read)
                read = True
        if run.finished:
            if not shown.is_over:
                for job in elsewhere.attempts(run):
                    shown.finish(job)
            return _exit_code(run, pods)
        time.sleep(POLL_SECONDS)


@SILENCE.wanted()
def _show(runs: Runs, pod: str, shown: Shown) -> None:
    """Show a pod's log until the pod or the connection ends, or the log is silent for long.

    The node removes the beginning of a long log, and some kubelets then send nothing more: reading it again helps.
    """
    shown.read(pod)
    try:
        for line in lines_of(runs.log(pod)):
            shown.line(line)
    except (ApiException, urllib3.exceptions.HTTPError) as error:
        # The pod has not started or is gone, or the API server closed the connection: the next poll shows which.
        if isinstance(error, ApiException) and error.status in (401, 403):
            with as_submitter():
                raise
    shown.end()


def _exit_code(run: ExistingRun, pods: list[Any]) -> int:
    """Return the exit code that the supervisor recorded, else that of its last pod."""
    code = run.state.get("exit_code")
    if code is not None:
        return int(code)
    for pod in reversed(pods):
        for container in pod.status.container_statuses or []:
            if container.state.terminated:
                return int(container.state.terminated.exit_code)
    return 1
