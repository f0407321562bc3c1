"""The job supervisor's rule: what follows the end of an attempt of a run.

Ray 2.42.1 does not say why a job failed. Three facts show whether the infrastructure or the code failed: Ray's message
if the entry point did not end by itself, names of failures in the last lines of the output (`job_faults`), and Ray pods
that were lost since the last progress.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from controllers.job_faults import Evidence, evidence_in

LOST: Final = "LOST"
"""The status of a job that the head forgot: the head was restarted, and Ray keeps jobs in the head's memory."""

WITHDRAWN: Final = "WITHDRAWN"
"""The status of an attempt that its supervisor stopped while it waited for resources behind an older run."""

STOPPED_CODE: Final = 130
"""Exit code of a stopped run: the shell's code for an interrupted command."""

# Python refuses to read numbers of thousands of digits.
PROGRESS: Final = re.compile(r"\b(?:checkpoint of step (?=[0-9]+ written\b)|ends at step (?=[0-9]+ \())([0-9]{1,18})\b")
"""What a job prints once a checkpoint is safe, or its last (as ray_resume does): its progress, a number that grows."""

RESUMED: Final = re.compile(r"\bresumes from step ([0-9]+)\b")
"""What a job prints once it has loaded a checkpoint (as ray_resume does)."""

WAITS: Final = re.compile(r"\bwaits for resources: (.+)")
"""What a job prints while its workers have no resources, with the resources (as ray_resume does)."""

BEGAN: Final = re.compile(r"\b(?:has its resources\b|(?P<trains>(?:starts at|resumes from|checkpoint of) step [0-9]))")
"""What a job prints once its workers have their resources, or have begun (`trains`)."""

STARTS: Final = re.compile(r"\bstarts [0-9]+ workers?\b")
"""What a job prints before its workers start, which may take minutes (as ray_resume does)."""

WORKERS: Final = re.compile(r"\bruns with [0-9]+ of [0-9]+ workers\b")
"""What a job prints when its workers begin, if their number may change (as ray_resume does)."""

_NUMBER: Final = r"[-+]?(?:[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?|nan|inf)"

FIGURES: Final = re.compile(
    rf"\bstep (?P<step>[0-9]+): (?:loss (?P<loss>{_NUMBER}), )?(?P<steps_per_second>{_NUMBER}) steps/s\b"
    rf"(?:.*\bgoodput (?P<goodput>{_NUMBER}) %)?"
)
"""What a job may print of its speed, once per interval (as ray_resume does); goodput in percent."""

BAD_INPUT: Final = 2
"""Exit code of a job with invalid input; another attempt would end the same way."""

_FIRST_DELAY_SECONDS: Final = 2.0
_LONGEST_DELAY_SECONDS: Final = 300.0
_DEFAULT_CODE: Final = 1

# How Ray's message begins if a job's entry point did not end by itself (ray: dashboard/modules/job/job_manager.py): the
# actor that supervises the entry point was lost, did not start in time or could not be scheduled.
_RAYS_OWN: Final = (
    "Unexpected error occurred",
    "Job supervisor actor failed to start",
    "Job supervisor actor could not be scheduled",
)
# If Ray could not make the environment of a job, such as its packages (same file).
_ENVIRONMENT_FAILED: Final = "runtime_env setup failed"


class Cause(StrEnum):
    """Why an attempt ended."""

    SUCCESS = "success"
    STOP = "stop"
    QUEUE = "queue"
    INFRASTRUCTURE = "infrastructure"
    PEER = "peer"
    """Another worker ended or hangs, which the infrastructure or the code may have caused."""
    CODE = "code"


@dataclass(frozen=True)
class Ending:
    """How an attempt ended; `status` is Ray's job status, or LOST."""

    status: str
    exit_code: int | None = None
    message: str = ""
    output: Sequence[str] = ()
    """The last lines."""
    lost_pods: Sequence[str] = ()
    """Pods of the RayCluster that were lost since the last progress, or since the attempt began."""
    progressed: bool = False
    """Whether the run made more progress than ever before."""
    fresh: bool = False
    """Whether a later attempt than the first did not resume, as far as its output shows."""
    waited: bool = False
    """Whether the attempt waited for resources when it ended."""


@dataclass(frozen=True)
class Limits:
    """Maxima of a run.

    `attempts`: submissions in total. `stalled`: failures in a row without progress, which end the run once attempts
    have run and waited to be retried for `seconds` without progress.
    """

    attempts: int
    stalled: int
    seconds: float


@dataclass(frozen=True)
class AttemptDecision:
    """What follows the end of an attempt. `exit_code` is None if the run is submitted again after `delay` seconds."""

    cause: Cause
    reason: str
    exit_code: int | None
    stalled: int = 0
    """Failures in a row without progress, this one included."""
    delay: float = 0.0
    counts: bool = True
    """Whether the attempt counts against the run's maxima: not if it lost its head or node while it only waited."""

    @property
    def again(self) -> bool:
        """Return whether the run is submitted again."""
        return self.exit_code is None


def decide(ending: Ending, *, attempts: int, stalled: int, seconds: float, limits: Limits) -> AttemptDecision:
    """Return what follows the end of an attempt.

    A failure of the infrastructure is retried until too many in a row bring no progress for too long: a node's
    replacement takes longer than a few fast tries. A failure of a peer may be one of the code, and is retried a few
    times only. A failure of the code is retried only if the attempt made progress: code that fails twice at the same
    place would fail there forever. An attempt that only waited for resources counts for nothing.

    Args:
        ending: how the attempt ended.
        attempts: number of attempts that count, this one included.
        stalled: failures in a row without progress before this one.
        seconds: how long attempts have run, and waited to be retried, since the last progress.
        limits: of the run.
    """
    if ending.status == "SUCCEEDED":
        message = "; its last attempt did not resume from a checkpoint" if ending.fresh else ""
        return AttemptDecision(Cause.SUCCESS, f"the job succeeded{message}", 0)
    if ending.status == "STOPPED":
        return AttemptDecision(Cause.STOP, "the job was stopped", STOPPED_CODE)
    if ending.status == WITHDRAWN:
        return AttemptDecision(Cause.QUEUE, ending.message, None, stalled, counts=False)
    cause, reason = _cause(ending)
    if ending.waited and cause is Cause.INFRASTRUCTURE:
        return AttemptDecision(
            cause, f"{reason}; it waited for resources", None, stalled, _FIRST_DELAY_SECONDS, counts=False
        )
    failures = 1 if ending.progressed else stalled + 1
    if against := _against(ending, cause, failures, attempts=attempts, seconds=seconds, limits=limits):
        return AttemptDecision(cause, f"{reason}; {against}", _exit_code(ending.exit_code), failures)
    delay = min(_FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, _LONGEST_DELAY_SECONDS), _LONGEST_DELAY_SECONDS)
    return AttemptDecision(cause, reason, None, failures, delay)


def _against(ending: Ending, cause: Cause, failures: int, *, attempts: int, seconds: float, limits: Limits) -> str:
    """Return the reason against another attempt; empty if there is none."""
    if ending.exit_code == BAD_INPUT:
        return "another attempt would end the same way"
    if cause is Cause.CODE and not ending.progressed:
        return "not retried: it made no progress"
    if failures >= limits.stalled and cause is not Cause.INFRASTRUCTURE:
        return f"{failures} failures in a row without progress, {limits.stalled} are allowed"
    if failures >= limits.stalled and seconds >= limits.seconds:
        return f"{failures} failures in a row without progress, for {seconds / 60:.0f} minutes"
    if attempts >= limits.attempts:
        return f"that was attempt {attempts} of {limits.attempts}"
    return ""


def _cause(ending: Ending) -> tuple[Cause, str]:
    if ending.exit_code == BAD_INPUT:
        return Cause.CODE, "the job rejected its input (exit code 2)"
    if ending.status == LOST:
        return Cause.INFRASTRUCTURE, "the head was lost, and with it the job"
    if ending.exit_code is None and ending.message.startswith(_RAYS_OWN):
        return Cause.INFRASTRUCTURE, _first_line(ending.message)
    message = f"the job failed with exit code {ending.exit_code}"
    if ending.exit_code is None:
        message = f"the job failed: {_summary(ending.message)}"
    if ending.lost_pods:
        return Cause.INFRASTRUCTURE, f"{message} after {', '.join(ending.lost_pods)} was lost"
    if found := evidence_in(ending.output):
        evidence, words = found
        return Cause.PEER if evidence is Evidence.PEER else Cause.INFRASTRUCTURE, f"{message}: {words}"
    # The package index may be down, or a hash may be wrong: as little is known as of a peer.
    return Cause.PEER if ending.message.startswith(_ENVIRONMENT_FAILED) else Cause.CODE, message


def _exit_code(code: int | None) -> int:
    """Return the exit code as a shell does: for a signal, 128 plus its number. A failed job never ends with 0."""
    if code is None:
        return _DEFAULT_CODE
    return (128 - code if code < 0 else code) or _DEFAULT_CODE


def _summary(message: str) -> str:
    """Return pip's error, which is below a traceback of Ray's, or the first line."""
    errors = [line.strip() for line in message.splitlines() if line.strip().startswith("ERROR: ")]
    return _first_line(errors[0] if message.startswith(_ENVIRONMENT_FAILED) and errors else message)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300] or "no reason given"
