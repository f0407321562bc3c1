"""The pages of a pod on this machine: Grafana beside Ray's dashboard. test_every_day tries the dashboard's head."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

from ops.watch import dashboard


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class Forward:
    """A port-forward to a server of this process."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))

    def socket(self, _: int) -> socket.socket:
        return self._socket

    def error(self, _: int) -> str | None:
        return None

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str, int]]]:
    """Record the port-forwards that are opened; each leads to a server that answers with its path."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found: list[tuple[str, str, int]] = []

    def forward(_: object, namespace: str, pod: str, port: int) -> Forward:
        found.append((namespace, pod, port))
        return Forward(server.server_port)

    monkeypatch.setattr(dashboard, "open_port_forward", forward)
    yield found
    server.shutdown()


def core(*phases: str) -> Any:
    """Return an API with a pod of Grafana in each of these phases."""
    pods = [
        SimpleNamespace(metadata=SimpleNamespace(name=f"grafana-{n}"), status=SimpleNamespace(phase=phase))
        for n, phase in enumerate(phases)
    ]
    return SimpleNamespace(list_namespaced_pod=lambda *_, **__: SimpleNamespace(items=pods))


def address(said: list[str]) -> str:
    return said[0].split()[0]


def test_browser_reaches_the_running_grafana_on_loopback(opened: list[tuple[str, str, int]]) -> None:
    said: list[str] = []
    with dashboard.with_grafana(core("Pending", "Running"), said.append, port=0):
        assert urllib3.request("GET", f"{address(said)}/d-solo/rayDefaultDashboard").data == (
            b"/d-solo/rayDefaultDashboard"
        )
    assert address(said).startswith("http://127.0.0.1:")
    assert opened == [("prometheus-system", "grafana-1", 3000)]
    with pytest.raises(urllib3.exceptions.HTTPError):
        urllib3.request("GET", address(said), retries=False)


def test_browser_is_told_that_grafana_does_not_run(opened: list[tuple[str, str, int]]) -> None:
    said: list[str] = []
    with dashboard.with_grafana(core("Pending"), said.append, port=0):
        answer = urllib3.request("GET", address(said), retries=False)
    assert answer.status == 503
    assert b"Grafana does not run. Fix: " in answer.data
    assert opened == []


def test_port_in_use_is_said_and_does_not_end_the_dashboard() -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with dashboard.with_grafana(core("Running"), said.append, port=port):
            pass
    [line] = said
    assert line.startswith(f"port {port} is not free")
