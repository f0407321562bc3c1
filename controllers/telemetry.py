"""A controller's log lines, metrics, health checks and end."""

import json
import signal
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def log(message: str, **fields: object) -> None:
    """Write one line of JSON to standard output."""
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "message": message, **fields}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def end_on_signals(ending: threading.Event) -> None:
    """Set the event on SIGTERM and SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())


class Metrics:
    """Counters and gauges in Prometheus' text format; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._help: dict[str, str] = {}
        self._values: dict[str, dict[str, float]] = {}

    def describe(self, name: str, kind: str, text: str, *samples: dict[str, str]) -> None:
        """Declare a `counter` or `gauge` with value zero; `samples` are the label sets that are known in advance."""
        self._help[name] = f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
        self._values[name] = {_labels(sample): 0 for sample in samples or ({},)}

    def add(self, name: str, **labels: str) -> None:
        """Add one to a counter."""
        with self._lock:
            values, key = self._values[name], _labels(labels)
            values[key] = values.get(key, 0) + 1

    def set(self, name: str, value: float) -> None:
        """Set a gauge without labels."""
        with self._lock:
            self._values[name][""] = value

    def render(self) -> str:
        """Return the metrics in Prometheus' text format."""
        with self._lock:
            return "".join(
                text + "".join(f"{name}{labels} {value:.15g}\n" for labels, value in self._values[name].items())
                for name, text in self._help.items()
            )


def serve(address: str, metrics: Metrics, checks: dict[str, Callable[[], str]]) -> ThreadingHTTPServer:
    """Start a server for `/metrics` and the paths of `checks`, and return it.

    A check's path answers 200 if the check returns an empty text, otherwise 503 with the text. `address` is
    `HOST:PORT`; the host may be empty. Raises ValueError or OSError if the address cannot be used.
    """

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, metrics.render())
            elif check := checks.get(self.path):
                trouble = check()
                self._answer(503 if trouble else 200, trouble or "ok")
            else:
                self._answer(404, "not found")

        def _answer(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: there is a probe every few seconds."""

    host, _, port = address.rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), Answers)
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    return server


def _labels(labels: dict[str, str]) -> str:
    inside = ",".join(f"{key}={json.dumps(value)}" for key, value in sorted(labels.items()))
    return f"{{{inside}}}" if inside else ""
