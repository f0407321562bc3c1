"""Ask a running job for a profile of one worker, as `ops.jobs.checkpoint` asks it to save."""

import json
import shlex
from dataclasses import dataclass

from ops.jobs import questions
from ops.jobs.checkpoint import RunningJob
from ops.jobs.questions import UnansweredError

_BEGINS_SECONDS = 300.0
"""How long the worker may take to begin: it does so between two steps."""


class ProfileError(Exception):
    """There is no profile; the message says why."""


@dataclass(frozen=True)
class Profile:
    """A trace of some steps of a worker; `address` is a path that Ray's pods see, or begins with s3://."""

    job: RunningJob
    worker: int
    address: str
    begin: int
    end: int
    seconds: float

    @property
    def file(self) -> str:
        """The trace's name without its folder."""
        return self.address.rpartition("/")[2]

    def sentences(self) -> list[str]:
        """Return what it shows, where it lies, and how to open it."""
        copy = f"aws s3 cp {shlex.quote(self.address)} ."
        if not self.address.startswith("s3://"):
            namespace, _, pod = self.job.head.name.partition("/")
            copy = f"kubectl exec -n {namespace} {pod} -- cat {shlex.quote(self.address)} > {self.file}"
        return [
            f"run {self.job.run}: worker {self.worker} profiled steps {self.begin} to {self.end}, {self.seconds:.1f} s",
            f"trace: {self.address}",
            f"copy:  {copy}",
            "open:  https://ui.perfetto.dev (it stays in the browser), or chrome://tracing",
        ]


def profile(job: RunningJob, *, worker: int, seconds: float, interval: float = 1.0) -> Profile:
    """Wait for a profile of `seconds` seconds of the worker of this rank.

    Raises ProfileError, HeadUnreachableError and RayApiError.
    """
    words = ["profile", f"--seconds={seconds:g}", f"--worker={worker}", f"--timeout={_BEGINS_SECONDS:g}"]
    entry = shlex.join(["python", "-m", "ray_resume", *words])
    id = questions.ask(job.head, job.id, "profile", entry, job.runtime_env)
    try:
        done, output = questions.answer(job.head, id, seconds=_BEGINS_SECONDS + seconds, interval=interval)
    except UnansweredError as error:
        raise ProfileError(f"{job} was asked, but {error}") from error
    line = questions.last_line(output)
    if not done:
        raise ProfileError(
            f"{job} has no profile. Fix: see whether it trains (`ops job logs {job.run}`). Last line: {line}"
        )
    found = json.loads(line)
    storage = job.runtime_env["env_vars"]["RUN_STORAGE"].rstrip("/")
    address = f"{storage}/{job.run}/{found['trace']}"
    return Profile(job, worker, address, found["begin"], found["end"], found["seconds"])
