"""Submit the Ray job of a RayJob, and show its output until Ray says that the job has ended.

KubeRay starts this program in the RayJob's submitter pod; `python -m controllers.rayjob_submitter --help` lists its
arguments. KubeRay 1.2.0's own command, `ray job submit`, ends when the head or the connection is lost, and fails if
it is started again beside its job (kuberay: controllers/ray/common/job.go). KubeRay then gives the whole RayCluster up.
This program attaches to a job that already runs, and submits the job again to a new head of the same RayCluster.

The job finds its run in the variables RUN_NAME and RUN_STORAGE. It gets no RUN_ATTEMPT, because nobody counts attempts
across RayClusters: the training library numbers on from the run's storage.

KubeRay reads from Ray how the job ended, once this program has ended with 0. Therefore 0 says only that the job is
over; 1 means that Ray refuses the job, and 75 that the process was terminated.
"""

import argparse
import os
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from controllers.job_output import OUTPUT_MARK, JobOutput
from controllers.ray_jobs_api import AUTH_TOKEN, ENDED, HeadUnavailableError, RayError, RayJobs, by_name, submission
from controllers.telemetry import Metrics, end_on_signals, log, serve

NAME: Final = "rayjob-submitter"
TERMINATED: Final = 75
REFUSED: Final = 1
LIFE: Final = "life"
"""Metadata of a Ray job that tells its submissions under one id apart: each has an output of its own."""

_POLL_SECONDS: Final = 2.0
_REFUSALS: Final = 2
_SILENT_SECONDS: Final = 120.0


class Submitter:
    """One Ray job, from its first submission to its end; `ending` ends the program early."""

    def __init__(self, ray: RayJobs, request: Mapping[str, Any], package: Path | None) -> None:
        self.ending = threading.Event()
        self._ray = ray
        self._request = request
        self._id: str = request["submission_id"]
        self._package = package
        self._life = ""
        self._output = JobOutput(self._id, self._mark)
        self._refusals = 0
        self._alive_at = time.monotonic()
        self.waits_for = ""
        """The last message; empty while the job runs."""

    def stall(self) -> str:
        """Return the fault that a restart would fix; empty if there is none."""
        silent = time.monotonic() - self._alive_at
        return f"no sign of life for {silent:.0f} s" if silent > _SILENT_SECONDS else ""

    def run(self) -> int:
        """Return 0 once the job has ended, REFUSED if Ray refuses it, and TERMINATED after `ending`."""
        try:
            while not self.ending.is_set():
                if self._is_over():
                    return 0
                if self._refusals >= _REFUSALS:
                    return REFUSED
            return TERMINATED
        finally:
            self._output.end()

    def _is_over(self) -> bool:
        """Submit the job unless the head knows it, show output for a while, and return whether the job has ended."""
        self._alive_at = time.monotonic()
        try:
            job = self._ray.get(self._id)
            if job is None:
                self._submit()
                return False
            self._say("")
            self._life = job.metadata.get(LIFE, "")
            if job.status in ENDED:
                self._output.show_rest(self._ray)
                return True
            self._listen()
        except HeadUnavailableError as error:
            self._output.close()
            self._say("waiting for the head", reason=str(error))
            self.ending.wait(_POLL_SECONDS)
        except RayError as error:
            # A new head has no agent yet that could start a job, and answers 500.
            self._refusals += error.status < 500
            self._say("waiting for Ray", reason=str(error))
            self.ending.wait(_POLL_SECONDS)
        return False

    def _submit(self) -> None:
        # A new head sends the output of the job's new life only.
        self._output.end()
        self._output = JobOutput(self._id, self._mark)
        if self._package:
            self._ray.upload(self._package.name, self._package.read_bytes())
        metadata = {**self._request.get("metadata", {}), LIFE: uuid.uuid4().hex}
        self._ray.submit({**self._request, "metadata": metadata})
        self._say("submitted", submission_id=self._id)

    def _listen(self) -> None:
        until = time.monotonic() + _POLL_SECONDS
        while (left := until - time.monotonic()) > 0 and not self.ending.is_set():
            if not self._output.follow(self._ray, left):
                self.ending.wait(left)

    def _mark(self, position: int) -> None:
        log(OUTPUT_MARK, controller=NAME, job=f"{self._id} {self._life}", position=position)

    def _say(self, message: str, **fields: object) -> None:
        """Log a new message; a repeated or an empty one is not logged."""
        if message and message != self.waits_for:
            log(message, controller=NAME, **fields)
        self.waits_for = message


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=NAME, description="Submit the Ray job of a RayJob and show its output.")
    parser.add_argument("--run", required=True, help="name of the run")
    parser.add_argument("--entrypoint", required=True, help="shell command line that the job starts")
    parser.add_argument("--storage", required=True, help="folder or address under which the run keeps its checkpoints")
    parser.add_argument("--package", type=Path, help="zip file that becomes the working directory")
    parser.add_argument("--variable", action="append", default=[], help="KEY=VALUE: the job's own; repeatable")
    parser.add_argument("--pip", action="append", default=[], help="line of the job's requirements; repeatable")
    parser.add_argument("--listen", required=True, help="HOST:PORT of /metrics and /healthz")
    return parser.parse_args()


def main() -> int:
    """Submit and follow the job that KubeRay names in the environment; return the exit code."""
    arguments = _arguments()
    # KubeRay sets these, the token where the head wants one (kuberay: rayjob_controller.go, getSubmitterTemplate).
    host, _, port = os.environ["RAY_DASHBOARD_ADDRESS"].rpartition(":")
    request = submission(
        os.environ["RAY_JOB_SUBMISSION_ID"],
        arguments.entrypoint,
        env={**by_name(arguments.variable), "RUN_NAME": arguments.run, "RUN_STORAGE": arguments.storage},
        metadata={"run": arguments.run},
        package=arguments.package.name if arguments.package else None,
        pip=arguments.pip,
    )
    ray = RayJobs(host, int(port), token=os.environ.get(AUTH_TOKEN, ""))
    submitter = Submitter(ray, request, arguments.package)
    end_on_signals(submitter.ending)
    serve(arguments.listen, Metrics(), {"/healthz": submitter.stall})
    return submitter.run()


if __name__ == "__main__":
    sys.exit(main())
