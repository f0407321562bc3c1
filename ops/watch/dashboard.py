"""Serve Ray's dashboard on this machine: each connection goes through a port-forward to the present head."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, Final, Self

import kubernetes

from k8s_charts.shared.names import DASHBOARD_PORT
from ops.errors import UnreachableError, in_plain_words
from ops.jobs.head_api import heads
from ops.port_forward import open_port_forward
from ops.readiness.simulated import said_of
from ops.watch.logs import Say

LOOPBACK: Final = "127.0.0.1"

_CHUNK: Final = 64 * 1024
_UNAVAILABLE: Final = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n"
    "Connection: close\r\n\r\n"
)


class Dashboard:
    """The dashboard of one RayCluster on a port of the loopback address, as long as the `with` block lasts.

    A head that is replaced needs no new address: the next connection goes to the new head. Without a head, a browser
    gets an answer that says so.
    """

    def __init__(self, core: kubernetes.client.CoreV1Api, namespace: str, cluster: str, say: Say, port: int) -> None:
        """Raise OSError if the port is in use; port 0 means any free one."""
        self._core = core
        self._namespace = namespace
        self._cluster = cluster
        self._say = say
        self._pod = ""
        # The client replaces a method of its own while it opens a port-forward.
        self._opening = threading.Lock()
        dashboard = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                dashboard._carry(self.request)

        class Server(ThreadingTCPServer):
            daemon_threads = True
            # A thread that waits for a browser must not delay Ctrl-C.
            block_on_close = False
            allow_reuse_address = True

        self._server = Server((LOOPBACK, port), Handler)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    @property
    def address(self) -> str:
        """The address for a browser."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def serve(self) -> None:
        """Serve until an exception, such as Ctrl-C, or `stop`."""
        self._server.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """End `serve`, from another thread."""
        self._server.shutdown()

    def _carry(self, browser: socket.socket) -> None:
        """Carry one connection to the head and back, until one side ends it."""
        try:
            with self._forwarded() as forward:
                head = forward.socket(DASHBOARD_PORT)
                answered = _exchange(browser, head)
                if not answered and (reason := forward.error(DASHBOARD_PORT)):
                    _refuse(browser, said_of(reason) or reason)
        except (UnreachableError, LookupError) as error:
            _refuse(browser, str(error))
        except OSError:
            # The browser or the head has closed the connection.
            return

    @contextmanager
    def _forwarded(self) -> Iterator[Any]:
        """Yield a port-forward to the running head. Raises LookupError if there is none, and UnreachableError."""
        with self._opening, in_plain_words():
            found = heads(self._core, self._namespace, self._cluster)
            if not found:
                raise LookupError(f"RayCluster {self._cluster} has no running head. Fix: see `ops status`")
            forward = open_port_forward(self._core, self._namespace, found[0], DASHBOARD_PORT)
            if found[0] != self._pod:
                self._pod = found[0]
                self._say(f"connected to head {self._namespace}/{self._pod}")
        try:
            yield forward
        finally:
            forward.close()


def _exchange(browser: socket.socket, head: Any) -> bool:
    """Copy bytes both ways until one side ends; return whether the head has sent any."""
    answered = False
    while True:
        ready, _, _ = select.select([browser, head], [], [])
        for source in ready:
            data = source.recv(_CHUNK)
            if not data:
                return answered
            if source is browser:
                head.sendall(data)
            else:
                answered = True
                browser.sendall(data)


def _refuse(browser: socket.socket, reason: str) -> None:
    body = f"{reason}\n".encode()
    try:
        browser.sendall(_UNAVAILABLE.format(len(body)).encode() + body)
    except OSError:
        return
