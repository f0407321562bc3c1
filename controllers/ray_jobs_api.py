"""Ray's Jobs REST API, as Ray 2.42.1's dashboard serves it on port 8265 (ray: dashboard/modules/job/job_head.py)."""

import http.client
import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final, Self

from controllers.websocket import WebSocket

PORT: Final = 8265
AUTH_TOKEN: Final = "RAY_AUTH_TOKEN"  # noqa: S105
"""The variable of a pod from which Ray takes its token."""
NOT_FOUND: Final = 404
ENDED: Final = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
"""Ray's terminal job statuses."""

ASKS: Final = "checkpoint-of"
"""Metadata of a job that only asks another one to save: its submission id."""

_AGENT: Final = re.compile(r"Request failed with status code ([0-9]{3})")
# Ray 2.42.1's dashboard answers 500 to a request without a User-Agent (ray: dashboard/optional_utils.py).
_HEADERS: Final = {"User-Agent": "ray-on-hyperpod"}
_TIMEOUT_SECONDS: Final = 5.0
_REST_SECONDS: Final = 5.0
# Ray itself waits 10 seconds for the agent that starts the job.
_SUBMIT_TIMEOUT_SECONDS: Final = 15.0
_UPLOAD_TIMEOUT_SECONDS: Final = 60.0


class RayError(Exception):
    """Ray refused a request; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"Ray answers {status}: {message}")
        self.status = status


class HeadUnavailableError(Exception):
    """The head does not answer, or does not give a usable answer yet."""


@dataclass(frozen=True)
class RayJob:
    """A job as Ray reports it. `status`: PENDING, RUNNING, or one of `ENDED`."""

    submission_id: str
    status: str
    message: str
    exit_code: int | None
    """The entry point's exit code; negative: the signal that ended it; None if Ray knows none."""
    metadata: Mapping[str, str]

    @classmethod
    def of(cls, details: Mapping[str, Any]) -> Self:
        """Return a job from Ray's JobDetails. Raises HeadUnavailableError if they are something else."""
        try:
            made = cls(
                submission_id=details["submission_id"],
                status=details["status"],
                message=details.get("message") or "",
                exit_code=details.get("driver_exit_code"),
                metadata=dict(details.get("metadata") or {}),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise HeadUnavailableError(f"Ray's answer cannot be read: {error!r}") from error
        texts = (made.submission_id, made.status, made.message)
        if not all(isinstance(each, str) for each in texts) or not isinstance(made.exit_code, int | None):
            raise HeadUnavailableError(f"Ray's answer cannot be read: {made}")
        return made


class RayJobs:
    """The jobs of a Ray cluster, from its head at `host`; every method raises HeadUnavailableError and RayError.

    `token` is sent unless it is empty: a head with RAY_AUTH_MODE=token refuses all other requests.
    """

    def __init__(self, host: str, port: int = PORT, *, token: str = "") -> None:
        self._host = host
        self._port = port
        self._headers = _HEADERS | ({"Authorization": f"Bearer {token}"} if token else {})

    def session(self) -> str:
        """Return Ray's session name; a restarted head has another one, and has lost all jobs and packages."""
        answer = self._json("GET", "/api/version")
        if not isinstance(answer, dict) or not isinstance(name := answer.get("session_name"), str):
            raise HeadUnavailableError(f"Ray's answer cannot be read: {answer!r}")
        return name

    def get(self, submission_id: str) -> RayJob | None:
        """Return a job; None if this head does not know it."""
        try:
            return RayJob.of(self._json("GET", f"/api/jobs/{submission_id}"))
        except RayError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def list(self) -> list[RayJob]:
        """Return the jobs that were submitted through this API, without drivers that connected in another way."""
        answer = self._json("GET", "/api/jobs/")
        if not isinstance(answer, list):
            raise HeadUnavailableError(f"Ray's answer cannot be read: {answer!r}")
        return [RayJob.of(item) for item in answer if not isinstance(item, dict) or item.get("submission_id")]

    def submit(self, request: Mapping[str, Any]) -> None:
        """Start a job. Raises RayError if its `submission_id` was used before."""
        self._json("POST", "/api/jobs/", json.dumps(request).encode(), timeout=_SUBMIT_TIMEOUT_SECONDS)

    def stop(self, submission_id: str) -> None:
        """Stop a job: Ray sends SIGTERM, and SIGKILL three seconds later."""
        self._json("POST", f"/api/jobs/{submission_id}/stop", timeout=_SUBMIT_TIMEOUT_SECONDS)

    def upload(self, package: str, content: bytes) -> None:
        """Upload a package (`name.zip`) to the head unless the head has it."""
        path = f"/api/packages/gcs/{package}"
        try:
            self._request("GET", path)
        except RayError as error:
            if error.status != NOT_FOUND:
                raise
            self._request("PUT", path, content, timeout=_UPLOAD_TIMEOUT_SECONDS)

    def tail(self, submission_id: str) -> WebSocket:
        """Return a connection that sends a job's output from its beginning to its end."""
        try:
            path = f"/api/jobs/{submission_id}/logs/tail"
            return WebSocket(self._host, self._port, path, headers=self._headers, timeout=_TIMEOUT_SECONDS)
        except (OSError, HTTPException) as error:
            raise HeadUnavailableError(f"{self._host}: {error!r}") from error

    def _json(self, method: str, path: str, body: bytes | None = None, timeout: float = _TIMEOUT_SECONDS) -> Any:
        text = self._request(method, path, body, timeout)
        try:
            return json.loads(text)
        except ValueError as error:
            raise HeadUnavailableError(f"{self._host}: {method} {path}: {text[:100]!r}") from error

    def _request(self, method: str, path: str, body: bytes | None = None, timeout: float = _TIMEOUT_SECONDS) -> bytes:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            connection.request(method, path, body, self._headers | {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
        except (OSError, HTTPException) as error:
            raise HeadUnavailableError(f"{self._host}: {error!r}") from error
        finally:
            connection.close()
        if response.status >= 400:
            text = content.decode(errors="replace")
            # The head wraps its agent's refusal in a 500 of its own.
            inner = _AGENT.search(text)
            raise RayError(int(inner[1]) if inner else response.status, last_line(text))
        return content


class Pace:
    """How often one supervisor asks the head: `with pace` around the questions, after `allows`.

    The slower the head answers, the rarer the questions: they are never more than a sixth of one supervisor's time.
    """

    def __init__(self) -> None:
        self._head: str | None = None
        self._began = 0.0
        self._ended = float("-inf")
        self._pause = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._ended = time.monotonic()
        self._pause = _REST_SECONDS * (self._ended - self._began)

    def allows(self, head: str | None, pause: float = 0.0) -> bool:
        """Return whether the head may be asked now, which is at least `pause` seconds after the last time."""
        if head != self._head:
            self._head, self._ended = head, float("-inf")
        return time.monotonic() >= self._ended + max(pause, self._pause)


@dataclass(frozen=True)
class SaveAnswer:
    """How a request to save ended that was made for `pods`; `message` is the last line of Ray's."""

    pods: Set[str]
    saved: bool
    message: str


class Saving:
    """Lets an attempt save before pods are deleted, by a short Ray job, as `ops job checkpoint` does.

    The workers then wait up to `hold` seconds for that deletion. `attempt` is the request that started the attempt.
    """

    def __init__(self, attempt: Mapping[str, Any], seconds: float, hold: float) -> None:
        self._attempt = attempt
        self._words = f"python -m ray_resume checkpoint --timeout={seconds:g} --hold={hold:g}"
        self._pods: Set[str] = frozenset()
        self._id = ""
        self._pace = Pace()

    def poll(self, ray: RayJobs, pods: Set[str]) -> SaveAnswer | None:
        """Ask for a save if there are `pods` and no request is open; return how an open one ended.

        Raises HeadUnavailableError.
        """
        try:
            if self._id:
                return self._ended(ray)
            if pods:
                self._pods = pods
                self._ask(ray)
        except RayError as error:
            self._id = ""
            return SaveAnswer(self._pods, saved=False, message=str(error))
        return None

    def _ask(self, ray: RayJobs) -> None:
        attempt = self._attempt["submission_id"]
        id = f"{attempt}-checkpoint-{secrets.token_hex(4)}"
        # Without the run's metadata, because it is no attempt of the run.
        ray.submit({**self._attempt, "submission_id": id, "entrypoint": self._words, "metadata": {ASKS: attempt}})
        self._id = id

    def _ended(self, ray: RayJobs) -> SaveAnswer | None:
        if not self._pace.allows(None):
            return None
        with self._pace:
            job = ray.get(self._id)
        if job and job.status not in ENDED:
            return None
        self._id = ""
        return SaveAnswer(self._pods, bool(job and job.status == "SUCCEEDED"), last_line(job.message if job else ""))


def submission(
    submission_id: str,
    entrypoint: str,
    *,
    env: Mapping[str, str],
    metadata: Mapping[str, str],
    package: str | None,
    pip: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the request that starts `entrypoint`, a shell command line, with `env` and working directory `package`.

    `pip` are the lines of a requirements file, which Ray installs on each node.
    """
    runtime_env: dict[str, Any] = {"env_vars": dict(env)}
    if package:
        runtime_env["working_dir"] = f"gcs://{package}"
        # Train functions stay in the working directory, as the rest of the job does (ray: train/constants.py).
        runtime_env["env_vars"]["RAY_CHDIR_TO_TRIAL_DIR"] = "0"
    if pip:
        runtime_env["pip"] = {"packages": list(pip)}
    return {
        "submission_id": submission_id,
        "entrypoint": entrypoint,
        "runtime_env": runtime_env,
        "metadata": dict(metadata),
    }


def by_name(words: Sequence[str]) -> dict[str, str]:
    """Return the variables of words KEY=VALUE by name."""
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def last_line(text: str) -> str:
    """Return the last line with a letter or digit, at most 500 characters: the error at the end of a traceback."""
    lines: Sequence[str] = [line for line in text.splitlines() if any(map(str.isalnum, line))]
    return lines[-1].strip()[:500] if lines else "no reason given"
