"""Call Ray's own API on a RayCluster's head through a port-forward: the network policies allow no other way in."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Final

import kubernetes
import websocket
from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from config.facts.tokens import AUTH_TOKEN
from ops.clients import REQUEST_TIMEOUT
from ops.port_forward import open_port_forward
from ops.readiness.simulated import explanation

_DASHBOARD: Final = 8265
_UPLOAD_SECONDS: Final = 300
# Ray 2.42.1's dashboard answers 500 to a request without a User-Agent (ray: dashboard/optional_utils.py).
_HEADERS: Final = {"User-Agent": "ray-on-hyperpod"}
_CHECK: Final = "Fix: see `ops status` for the reason"
_TOKENS: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: f"Fix: set {AUTH_TOKEN} in the RayCluster's `secrets`, and deploy",
    HTTPStatus.FORBIDDEN: "The head started with another token than its Secret has now. Fix: `ops rollout` restarts it",
}

ENDED: Final = {"SUCCEEDED", "FAILED", "STOPPED"}
"""Values of Ray's JobStatus for an ended job; RayJob's jobStatus uses the same values."""


class HeadUnreachableError(Exception):
    """The head of a RayCluster does not answer; the message says why."""


class RayApiError(Exception):
    """Ray refuses a request; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"Ray answers {status}: {message}")
        self.status = status


def heads(core: kubernetes.client.CoreV1Api, namespace: str, cluster: str) -> list[str]:
    """Return the names of the RayCluster's running head pods: one or none."""
    selector = f"ray.io/cluster={cluster},ray.io/node-type=head"
    found = core.list_namespaced_pod(namespace, label_selector=selector, _request_timeout=REQUEST_TIMEOUT).items
    return [
        str(pod.metadata.name) for pod in found if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp
    ]


class HeadApi:
    """Sends requests to one head pod. Every method raises HeadUnreachableError and RayApiError."""

    def __init__(self, core: kubernetes.client.CoreV1Api, namespace: str, pod: str) -> None:
        self._core = core
        self._namespace = namespace
        self._pod = pod
        self.name = f"{namespace}/{pod}"
        self._token: str | None = None

    def jobs(self) -> list[dict[str, Any]]:
        """Return Ray's JobDetails of all jobs."""
        listed: list[dict[str, Any]] = self._json("GET", "/api/jobs/")
        return listed

    def job(self, submission_id: str) -> dict[str, Any]:
        """Return Ray's JobDetails of one job."""
        details: dict[str, Any] = self._json("GET", f"/api/jobs/{submission_id}")
        return details

    def submit(self, request: dict[str, Any]) -> None:
        """Start a job; Ray refuses a known submission id."""
        self._json("POST", "/api/jobs/", json.dumps(request).encode())

    def stop(self, submission_id: str) -> None:
        """Request the stop of a job."""
        self._json("POST", f"/api/jobs/{submission_id}/stop")

    def upload(self, package: str, content: bytes) -> None:
        """Upload a package (`name.zip`) unless Ray has it."""
        path = f"/api/packages/gcs/{package}"
        try:
            self._request("GET", path)
        except RayApiError as error:
            if error.status != 404:
                raise
            self._request("PUT", path, content, seconds=_UPLOAD_SECONDS)

    def output(self, submission_id: str) -> str:
        """Return what a job has printed until now."""
        return str(self._json("GET", f"/api/jobs/{submission_id}/logs")["logs"])

    def tail(self, submission_id: str) -> Iterator[str]:
        """Stream a job's output from its beginning, until the job or the connection ends."""
        # The library has no types for these calls.
        client: Any = websocket.WebSocket()
        headers = self._headers()
        with self._forwarded("show the job's output", websocket.WebSocketException) as connection:
            connection.settimeout(REQUEST_TIMEOUT[1])
            client.connect(
                f"ws://localhost/api/jobs/{submission_id}/logs/tail",
                socket=connection,
                header=headers,
            )
        connection.settimeout(None)
        try:
            while text := client.recv():
                yield str(text)
        except (websocket.WebSocketException, OSError):
            # Ray closes the connection without waiting for the reply to its close frame.
            return
        finally:
            client.shutdown()

    def _json(self, method: str, path: str, body: bytes | None = None) -> Any:
        text = self._request(method, path, body)
        try:
            return json.loads(text)
        except ValueError as error:
            raise HeadUnreachableError(f"the head {self.name} answers {text[:100]!r}. {_CHECK}") from error

    def _request(self, method: str, path: str, body: bytes | None = None, seconds: float = REQUEST_TIMEOUT[1]) -> bytes:
        headers = self._headers() | {"Content-Type": "application/json", "Connection": "close"}
        with self._forwarded("say which jobs run", HTTPException) as forwarded:
            connection = HTTPConnection("localhost", timeout=seconds)
            connection.sock = forwarded
            connection.sock.settimeout(seconds)
            connection.request(method, path, body, headers)
            answer: HTTPResponse = connection.getresponse()
            content = answer.read()
        if answer.status >= 400:
            lines = content.decode(errors="replace").strip().splitlines()
            reason = lines[-1].strip() if lines else "no reason given"
            if answer.status in _TOKENS:
                reason = f"{reason}. {_TOKENS[answer.status]}"
            raise RayApiError(answer.status, reason)
        return content

    def _headers(self) -> dict[str, str]:
        """Return what each request has; the token, if the head takes one, is read once. Raises HeadUnreachableError."""
        if self._token is None:
            self._token = self._read_token()
        return _HEADERS | ({"Authorization": f"Bearer {self._token}"} if self._token else {})

    def _read_token(self) -> str:
        """Return the token in the Secret that the head's pod names; '' if it names none."""
        if (key := self._token_key()) is None:
            return ""
        what = f"Secret {self._namespace}/{key.name}, which has the token of the head {self.name},"
        try:
            secret = self._core.read_namespaced_secret(key.name, self._namespace, _request_timeout=REQUEST_TIMEOUT)
            return base64.b64decode((secret.data or {})[key.key]).decode().strip()
        except KeyError as error:
            raise HeadUnreachableError(f"{what} has no key {error}. {_CHECK}") from error
        except (ApiException, HTTPError) as error:
            raise HeadUnreachableError(f"{what} cannot be read: {_reason(error)}. {_CHECK}") from error

    def _token_key(self) -> Any | None:
        """Return the reference to the Secret's key; None without a token. That a pod is gone, the request says."""
        try:
            pod = self._core.read_namespaced_pod(self._pod, self._namespace, _request_timeout=REQUEST_TIMEOUT)
        except (ApiException, HTTPError) as error:
            if isinstance(error, ApiException) and error.status == HTTPStatus.NOT_FOUND:
                return None
            raise HeadUnreachableError(f"the head {self.name} cannot be read: {_reason(error)}. {_CHECK}") from error
        # KubeRay takes the first container for Ray's.
        named = (each for each in pod.spec.containers[0].env or () if each.name == AUTH_TOKEN and each.value_from)
        return next((each.value_from.secret_key_ref for each in named), None)

    @contextmanager
    def _forwarded(self, what: str, failure: type[Exception]) -> Iterator[Any]:
        """Yield a connection to the head's dashboard. Raises HeadUnreachableError, with `what` in its message."""
        forward: Any = None
        try:
            forward = open_port_forward(self._core, self._namespace, self._pod, _DASHBOARD)
            yield forward.socket(_DASHBOARD)
        except (ApiException, OSError, failure) as error:
            # The kubelet sends its error on a separate channel before the connection ends.
            reported = forward.error(_DASHBOARD) if forward else None
            reason = _reason(reported or error)
            raise HeadUnreachableError(f"the head {self.name} does not {what}: {reason}. {_CHECK}") from error


def _reason(error: Exception | str) -> str:
    if simulated := explanation(error):
        return simulated
    cause = str((error.reason if isinstance(error, ApiException) else error) or "no answer")
    # The web socket's error text ends with the answer's headers.
    return cause.partition(" -+-+- ")[0]
