"""A memory tier for the tests: HyperPod's protocol on a port of this machine, with faults to order."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from tests.jobs.support.paths import REPOSITORY
from tests.support.waiting import wait_until

_PYTHON: Final = REPOSITORY / ".venv-memory-tier" / "bin" / "python"
_NAMESPACE: Final = re.compile(r"/v1/cp/namespaces/([\w-]+)")
_PART: Final = re.compile(r"/v1/cp/checkpoints/([\w-]+)/(\d+)/(\d+)")


class Daemon(ThreadingHTTPServer):
    """Keeps parts by namespace, rank and step; `parts` and `retained` are the tests' to read and spoil."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.retained: dict[str, int] = {}
        self.parts: dict[str, dict[int, dict[int, tuple[bytes, str]]]] = {}
        self.refuses: str | None = None
        """The method whose requests fail."""
        self.hangs = False
        self.go = threading.Event()
        """What hanging requests wait for."""
        self.gets = 0
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing of clients that gave up."""

    def reset(self) -> None:
        """Lose everything, as when all nodes are lost."""
        with self.lock:
            self.retained.clear()
            self.parts.clear()

    def put(self, namespace: str, rank: int, step: int, content: bytes, meta: str) -> None:
        """Keep a part, and as many steps of its rank as the namespace retains."""
        with self.lock:
            steps = self.parts[namespace].setdefault(rank, {})
            steps[step] = content, meta
            if len(steps) > self.retained[namespace]:
                del steps[min(steps)]

    def steps(self) -> list[int]:
        """Return the steps of which every namespace's part of rank 0 is there."""
        with self.lock:
            return sorted(step for ranks in self.parts.values() for step in ranks.get(0, {}))


@contextmanager
def serving() -> Iterator[Daemon]:
    """Serve in a thread until the block ends."""
    with Daemon() as daemon:
        thread = threading.Thread(target=daemon.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield daemon
        finally:
            daemon.go.set()
            daemon.shutdown()
            thread.join()


@contextmanager
def published(log: Path) -> Iterator[str]:
    """Run the server with which the publisher of the client tests it; yield its address."""
    assert _PYTHON.exists(), "Fix: make setup-memory-tier"
    [sources] = _PYTHON.parents[1].glob("sdist/*/tests/local_tests/membrain_server.py")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = ["-m", "uvicorn", "tests.local_tests.membrain_server:app", "--port", str(port)]
    with log.open("wb") as output:
        server = subprocess.Popen([_PYTHON, *app], cwd=sources.parents[2], stdout=output, stderr=output)
    try:
        wait_until(lambda: _answers(port), "the published server")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _answers(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


class _Handler(BaseHTTPRequestHandler):
    server: Daemon
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if namespace := self._matched(_NAMESPACE):
            known = self.server.retained.get(namespace[0])
            self._answer(200, b"{}") if known else self._answer(404)
        elif part := self._matched(_PART):
            self.server.gets += 1
            found = self.server.parts.get(part[0], {}).get(int(part[1]), {}).get(int(part[2]))
            self._answer(200, found[0], found[1]) if found else self._answer(404)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if namespace := self._matched(_NAMESPACE):
            query = parse_qs(urlsplit(self.path).query)
            self.server.parts[namespace[0]] = {}
            self.server.retained[namespace[0]] = int(query["steps_retained"][0])
            self._answer(200)
        elif part := self._matched(_PART):
            if part[0] not in self.server.parts:
                self._answer(404)
                return
            self.server.put(part[0], int(part[1]), int(part[2]), content, self.headers["Shard-Meta"])
            self._answer(200)

    def do_DELETE(self) -> None:
        if namespace := self._matched(_NAMESPACE):
            self.server.retained.pop(namespace[0], None)
            found = self.server.parts.pop(namespace[0], None)
            self._answer(404 if found is None else 200)

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""

    def _matched(self, pattern: re.Pattern[str]) -> tuple[str, ...]:
        if self.server.hangs:
            self.server.go.wait()
        if self.server.refuses == self.command:
            self._answer(503)
            return ()
        found = pattern.fullmatch(urlsplit(self.path).path)
        return found.groups() if found else ()

    def _answer(self, status: int, content: bytes = b"", meta: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if meta:
            self.send_header("Shard-Meta", meta)
        self.end_headers()
        self.wfile.write(content)
