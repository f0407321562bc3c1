"""Run `ray_jobs/smoke.py` on a RayCluster as a supervised job, and return what it printed."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from config import EksEnvironment, Environment
from k8s_charts.shared.names import RAY_DIRECTORY
from ops.errors import NoAnswerError
from ops.jobs import direct
from ops.jobs.operators.follow import lines_of
from ops.jobs.package import JOBS, entry
from ops.jobs.packing import LARGEST_BYTES, LargePackage
from ops.jobs.run import RunRequest
from ops.jobs.runs import Runs, as_submitter

MARK: Final = "smoke: "
"""What the line with the result begins with, in `ray_jobs/smoke.py`."""
_POLL_SECONDS: Final = 1.0
_LAST_LINES: Final = 5

Say = Callable[[str], None]


class SmokeError(Exception):
    """The all-reduce could not be run, or gave no result; the message says why."""


def run(runs: Runs, environment: EksEnvironment, cluster: str, say: Say, *, timeout: float) -> dict[str, Any]:
    """Return the result of the all-reduce on a RayCluster; stop the job if it does not end in `timeout` seconds.

    Raises SmokeError, RunError and ApiException.
    """
    direct.refuse_simulated(runs.core, environment.ray.namespace, cluster)
    request = _request(environment, cluster, timeout)
    say(f"{cluster}: all-reduce over all workers, run {request.name}")
    runs.create(request, again=False)
    try:
        _wait(runs, request.name, say, timeout)
    except BaseException:
        # The supervisor stops the job on Ray; a deleted run would leave it there.
        runs.stop(request.name)
        raise
    output = [line for pod in runs.pods(request.name) for line in lines_of(runs.log(pod.metadata.name))]
    results = [line.removeprefix(MARK) for line in output if line.startswith(MARK)]
    if not results:
        raise SmokeError(
            f"the job on {cluster} ended without a result: {' | '.join(output[-_LAST_LINES:]) or 'no output'}. "
            f"Fix: see `ops job logs {request.name}`"
        )
    runs.delete(request.name)
    result: dict[str, Any] = json.loads(results[-1])
    return result


def _request(environment: Environment, cluster: str, timeout: float) -> RunRequest:
    # A step of the script has half of the time: then the script still says what it waited for.
    started = entry("smoke", ["--patience", str(max(1, round(timeout / 2)))], None, [])
    if isinstance(started.package, LargePackage):
        raise SmokeError(
            f"{JOBS} is larger than {LARGEST_BYTES / 1e6:g} MB when packed. Fix: remove what is not the project's"
        )
    return RunRequest(
        name=f"smoke-{cluster[:24].rstrip('-')}-{datetime.now(UTC):%Y%m%d-%H%M%S}",
        cluster=cluster,
        command=started.command,
        storage=f"{environment.fsx.mount_path}/{RAY_DIRECTORY}/runs",
        package=started.package,
        max_attempts=1,
        max_stalled=1,
        give_up_after=timeout,
    )


def _wait(runs: Runs, name: str, say: Say, timeout: float) -> None:
    """Wait for the end of the run. Raises SmokeError if it does not end in time."""
    began, reported = time.monotonic(), ""
    finished, line = False, "submitted"
    while not finished:
        # A short silence of the API server is no end of the job.
        with suppress(NoAnswerError), as_submitter():
            state = runs.get(name)
            finished, reason = state.finished, str(state.state.get("reason") or "")
            line = f"{state.phase}{f' ({reason})' if reason else ''}"
        if line != reported:
            say(f"{name}: {line}, {time.monotonic() - began:.0f} s")
            reported = line
        if not finished and time.monotonic() - began > timeout:
            raise SmokeError(
                f"{name} did not end in {timeout:.0f} s: {line}. Fix: see `ops status`, or raise --timeout"
            )
        if not finished:
            time.sleep(_POLL_SECONDS)
