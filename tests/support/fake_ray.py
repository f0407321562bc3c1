"""A fake of the Jobs API of Ray 2.42.1 (ray: dashboard/modules/job/job_head.py), on a loopback address.

The fake is strict: it refuses fields and paths that Ray does not know.
"""

import base64
import hashlib
import itertools
import json
import secrets
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from controllers.ray_jobs_api import PORT

_FIELDS = {"submission_id", "entrypoint", "runtime_env", "metadata"}
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_numbers = itertools.count(1)


@dataclass
class FakeJob:
    """A job and its output; it runs until a test ends it."""

    request: dict[str, Any]
    status: str = "RUNNING"
    message: str = "Job is currently running."
    exit_code: int | None = None
    output: str = ""

    def end(self, status: str, exit_code: int | None = None, message: str = "") -> None:
        """End the job with this status."""
        self.exit_code, self.message, self.status = exit_code, message, status


@dataclass
class FakeRay:
    """A head; `lose` replaces it by one without any jobs or packages."""

    host: str
    session: str = "session_1"
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    packages: dict[str, bytes] = field(default_factory=dict)
    submissions: list[str] = field(default_factory=list)
    """Every accepted submission, including those before a `lose`."""
    stops: list[str] = field(default_factory=list)
    away: bool = False
    drivers: list[dict[str, Any]] = field(default_factory=list)
    """Jobs that connected in another way, as `/api/jobs/` shows them."""
    applications: dict[str, Any] | None = field(default_factory=dict)
    """Applications of Serve, by name; None if the image lacks Serve."""
    token: str = ""
    """What requests must send, as to a head with RAY_AUTH_MODE=token; with '', nothing."""
    refuse: tuple[int, str] | None = None
    """Status and text of the answer to every submission."""
    refusals: int = 0
    """How many submissions got that answer."""

    def lose(self) -> None:
        """Replace the head by a new one, which has lost all state."""
        self.jobs, self.packages = {}, {}
        self.session = f"session_{next(_numbers) + 1}"

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Return status and content of the answer to any request but a web socket."""
        words = path.strip("/").split("/")
        answer: tuple[int, Any] = 404, f"{path} does not exist"
        match method, words:
            case "GET", ["api", "version"]:
                answer = 200, {"version": "4", "ray_version": "2.42.1", "session_name": self.session}
            case "GET", ["api", "jobs"]:
                answer = 200, [*(_details(id, job) for id, job in self.jobs.items()), *self.drivers]
            case "GET", ["api", "serve", "applications"] if self.applications is None:
                answer = 501, "Serve dependencies are not installed."
            case "GET", ["api", "serve", "applications"]:
                answer = 200, {"applications": self.applications}
            case "POST", ["api", "jobs"]:
                answer = self._submit(json.loads(body))
            case "GET", ["api", "jobs", id] if id in self.jobs:
                answer = 200, _details(id, self.jobs[id])
            case "GET", ["api", "jobs", id, "logs"] if id in self.jobs:
                answer = 200, {"logs": self.jobs[id].output}
            case "POST", ["api", "jobs", id, "stop"] if id in self.jobs:
                self.stops.append(id)
                self.jobs[id].end("STOPPED")
                answer = 200, {"stopped": True}
            case "GET", ["api", "packages", "gcs", name] if name in self.packages:
                answer = 200, ""
            case "PUT", ["api", "packages", "gcs", name]:
                self.packages[name] = body
                answer = 200, ""
        return answer

    def _submit(self, request: dict[str, Any]) -> tuple[int, Any]:
        if self.refuse:
            self.refusals += 1
            return self.refuse
        if unknown := request.keys() - _FIELDS:
            return 400, f"Traceback\nTypeError: got an unexpected keyword argument {unknown}"
        id = request["submission_id"]
        if id in self.jobs:
            inner = f"Traceback\nValueError: Job with submission_id {id} already exists.\n."
            return 500, f"Traceback\nRuntimeError: Request failed with status code 400: {inner}"
        working_dir = request["runtime_env"].get("working_dir", "")
        if working_dir and working_dir.removeprefix("gcs://") not in self.packages:
            return 500, f"Traceback\nValueError: {working_dir} is not there"
        self.jobs[id] = FakeJob(request)
        self.submissions.append(id)
        return 200, {"job_id": id, "submission_id": id}


def _details(id: str, job: FakeJob) -> dict[str, Any]:
    return {
        "type": "SUBMISSION",
        "submission_id": id,
        "status": job.status,
        "message": job.message,
        "driver_exit_code": job.exit_code,
        "entrypoint": job.request["entrypoint"],
        "metadata": job.request.get("metadata"),
        "runtime_env": job.request.get("runtime_env"),
        "error_type": None,
    }


@contextmanager
def serve(host: str | None = None, port: int = PORT) -> Iterator[FakeRay]:
    """Serve until the block ends, by default on a random loopback address, because the port is always Ray's."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.endswith("/logs/tail"):
                self._tail(self.path.split("/")[3])
            else:
                self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if fake.away:
                self.close_connection = True
                return
            status, content = 500, "500 Internal Server Error\n\nServer got itself in trouble"
            if refusal := self._refusal():
                status, content = refusal
            elif "User-Agent" in self.headers:
                status, content = fake.answer(self.command, self.path, body)
            data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _refusal(self) -> tuple[int, str] | None:
            """Return how Ray 2.60.0 refuses a request (ray: _private/authentication/http_token_authentication.py)."""
            sent = self.headers.get("Authorization", "")
            if not fake.token or sent == f"Bearer {fake.token}":
                return None
            if not sent:
                return 401, "Unauthorized: Missing authentication token"
            return 403, "Forbidden: Invalid authentication token"

        def _tail(self, id: str) -> None:
            if refusal := self._refusal():
                self.send_error(*refusal)
                return
            key = self.headers["Sec-WebSocket-Key"]
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            accepted = base64.b64encode(hashlib.sha1((key + _GUID).encode()).digest()).decode()  # noqa: S324
            self.send_header("Sec-WebSocket-Accept", accepted)
            self.end_headers()
            # As Ray 2.42.1: what a job prints after the last reading, and ends, is not sent.
            shown = 0
            while not ending.is_set() and not fake.away and (job := fake.jobs.get(id)):
                if text := job.output[shown:]:
                    self._send(0x1, text.encode())
                    shown += len(text)
                    continue
                time.sleep(0.02)
                if job.status != "RUNNING":
                    self._send(0x8, b"\x03\xe8")
                    break
            self.close_connection = True

        def _send(self, operation: int, data: bytes) -> None:
            short = len(data) < 126
            length = bytes([len(data)]) if short else b"\x7f" + struct.pack(">Q", len(data))
            self.wfile.write(bytes([0x80 | operation]) + length + data)
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            """Keep the tests' output clean."""

    ending = threading.Event()
    host = host or ".".join(["127", *(str(secrets.randbelow(250) + 2) for _ in range(3))])
    fake = FakeRay(host)
    with ThreadingHTTPServer((host, port), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield fake
        ending.set()
        server.shutdown()
