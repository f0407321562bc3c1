"""Short Ray jobs by which `ops` asks a run something: to save, for a profile, for what it printed.

They need the head's own API only, which submitters reach anyway: `ops` needs no access to the run's storage.
"""

import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

from ops.jobs.head_api import ENDED, HeadApi

_ASKS: Final = ("checkpoint-of", "profile-of", "output-of")

# Longer than Ray needs to start a job.
_START_SECONDS: Final = 120.0


class UnansweredError(Exception):
    """Ray did not run the job that asks, or not to its end; the message says why."""


def is_question(job: Mapping[str, Any]) -> bool:
    """Return whether `ops` started this job of Ray in order to ask."""
    return any(key in (job.get("metadata") or {}) for key in _ASKS)


def ask(head: HeadApi, of: str, what: str, entrypoint: str, runtime_env: dict[str, Any]) -> str:
    """Start a job that asks for `what` (checkpoint, profile or output) of a run or job; return its submission id.

    Raises HeadUnreachableError and RayApiError.
    """
    id = f"{of}-{what}-{secrets.token_hex(4)}"
    metadata = {f"{what}-of": of}
    head.submit({"submission_id": id, "entrypoint": entrypoint, "runtime_env": runtime_env, "metadata": metadata})
    return id


def answer(head: HeadApi, id: str, *, seconds: float, interval: float) -> tuple[bool, str]:
    """Wait for the end of a job that asks, `seconds` and the start of a job at most.

    Return whether it succeeded, and its output. Raises UnansweredError, HeadUnreachableError and RayApiError.
    """
    deadline = time.monotonic() + seconds + _START_SECONDS
    while (job := head.job(id))["status"] not in ENDED:
        if time.monotonic() >= deadline:
            raise UnansweredError("Ray did not answer. Fix: see `ops status`")
        time.sleep(interval)
    return job["status"] == "SUCCEEDED", "".join(head.tail(id)) or str(job.get("message") or "")


def last_line(output: str) -> str:
    """Return the last line that is not empty."""
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
