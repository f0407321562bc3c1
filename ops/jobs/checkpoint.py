"""Ask running jobs to save a checkpoint now.

A short Ray job asks, with the environment of the job that it asks: the same code, storage and run
(`python -m ray_resume checkpoint`). So `ops` needs no access to the storage, and nothing beside the head's own API.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import kubernetes

from ops.jobs import questions
from ops.jobs.head_api import ENDED, HeadApi, heads
from ops.jobs.questions import UnansweredError
from ops.jobs.running import ray_jobs

SAVE_SECONDS: Final = 600.0
"""How long a change waits for the jobs that it asked."""

HOLD_SECONDS: Final = 300.0
"""How long the workers wait after a save for the change that ends them."""

_RUNNING: Final = "RUNNING"

Say = Callable[[str], None]


class CheckpointError(Exception):
    """A job cannot save, or did not save in time; the message says why."""


@dataclass(frozen=True)
class RunningJob:
    """A running job of the training library; `runtime_env` is the one that Ray started it with."""

    head: HeadApi
    id: str
    run: str
    runtime_env: dict[str, Any]

    def __str__(self) -> str:
        return f"job {self.id}"


@dataclass(frozen=True)
class Asked:
    """A Ray job that asks `job` to save; it gives up after `seconds`."""

    job: RunningJob
    id: str
    seconds: float


def job_of(head: HeadApi, run: str) -> RunningJob:
    """Return the job that runs `run` now. Raises CheckpointError, HeadUnreachableError and RayApiError."""
    found = [job for job in _running(head) if job["status"] == _RUNNING and _variables(job).get("RUN_NAME") == run]
    if not found:
        raise CheckpointError(f"the run {run} is not running on Ray. Fix: see `ops job list` for its state")
    return _job(head, found[-1])


def jobs_on(api: kubernetes.client.ApiClient, namespace: str, cluster: str) -> list[RunningJob]:
    """Return the jobs that run on a RayCluster.

    Raises CheckpointError if one of them cannot save on request, HeadUnreachableError and RayApiError.
    """
    core = kubernetes.client.CoreV1Api(api)
    found = [
        (HeadApi(core, namespace, pod), job)
        for pod in heads(core, namespace, cluster)
        for job in _running(HeadApi(core, namespace, pod))
    ]
    known = {job.get("submission_id") for _, job in found}
    others = [
        f"RayJob {each['metadata']['name']}"
        for each in ray_jobs(api, namespace, cluster)
        if (status := each.get("status", {})).get("rayClusterName") and status.get("jobId") not in known
    ]
    others += [f"job {_id(job)}" for _, job in found if not {"RUN_NAME", "RUN_STORAGE"} <= _variables(job).keys()]
    if others:
        raise CheckpointError(
            f"on RayCluster {namespace}/{cluster} runs {', '.join(others)}, which cannot be asked to save. "
            "Fix: wait for its end or stop it, or override with `--force`, which takes its workers away"
        )
    return [_job(head, job) for head, job in found]


def ask(job: RunningJob, *, seconds: float, hold: float = 0.0) -> Asked:
    """Start the request; afterwards the job's workers wait `hold` seconds instead of training on.

    Raises HeadUnreachableError and RayApiError.
    """
    words = ["python", "-m", "ray_resume", "checkpoint", f"--timeout={seconds:g}", f"--hold={hold:g}"]
    return Asked(job, questions.ask(job.head, job.id, "checkpoint", shlex.join(words), job.runtime_env), seconds)


def answer(asked: Asked, interval: float = 1.0) -> str:
    """Wait for the answer; return a sentence with the step.

    Raises CheckpointError if the job did not save in time, HeadUnreachableError and RayApiError.
    """
    try:
        saved, output = questions.answer(asked.job.head, asked.id, seconds=asked.seconds, interval=interval)
    except UnansweredError as error:
        raise CheckpointError(f"{asked.job} was asked, but {error}") from error
    line = questions.last_line(output)
    if not saved:
        raise CheckpointError(
            f"{asked.job} has not saved. Fix: see whether it trains (`ops job logs {asked.job.run}`). Last line: {line}"
        )
    return line


def save_all(jobs: Sequence[RunningJob], say: Say) -> None:
    """Let the jobs save, at the same time, and wait until the workers are ended.

    Raises CheckpointError, HeadUnreachableError and RayApiError.
    """
    asked = []
    for job in jobs:
        asked.append(ask(job, seconds=SAVE_SECONDS, hold=HOLD_SECONDS))
        say(f"{job}: asked to save")
    for each in asked:
        say(answer(each))


def _running(head: HeadApi) -> list[dict[str, Any]]:
    return [job for job in head.jobs() if job["status"] not in ENDED and not questions.is_question(job)]


def _job(head: HeadApi, job: dict[str, Any]) -> RunningJob:
    return RunningJob(head, _id(job), _variables(job)["RUN_NAME"], job["runtime_env"])


def _variables(job: dict[str, Any]) -> dict[str, str]:
    variables: dict[str, str] = (job.get("runtime_env") or {}).get("env_vars") or {}
    return variables


def _id(job: dict[str, Any]) -> str:
    return str(job.get("submission_id") or job.get("job_id"))
