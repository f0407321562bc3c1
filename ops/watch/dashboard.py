"""Serve pages of a pod to one browser: each request goes through a port-forward to the pod that runs then."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, Final, Self

import kubernetes

from ops.errors import UnreachableError, in_plain_words
from ops.jobs.head_api import heads
from ops.port_forward import open_port_forward
from ops.readiness.simulated import explanation
from ops.sign_of_life import SILENCE
from ops.watch.browser_access import END, BrowserAccess, BrowserRequest, LetInError, RejectedRequestError, is_too_long
from ops.watch.logs import Say

LOOPBACK: Final = "127.0.0.1"

_CHUNK_BYTES: Final = 64 * 1024
_ANSWER: Final = (
    "HTTP/1.1 {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n"
)
_UNAVAILABLE: Final = "503 Service Unavailable"
_SWITCHED: Final = b"HTTP/1.1 101 "


@dataclass(frozen=True)
class DashboardSource:
    """Pods that serve pages at `port`: `find` returns those that run, and `missing` says that there is none."""

    title: str
    namespace: str
    find: Callable[[], list[str]]
    port: int
    missing: str


def of_head(core: kubernetes.client.CoreV1Api, namespace: str, cluster: str, port: int) -> DashboardSource:
    """Return what a RayCluster's head serves at this port."""
    missing = f"RayCluster {cluster} has no running head. Fix: see `ops status` for the reason"
    return DashboardSource("head", namespace, lambda: heads(core, namespace, cluster), port, missing)


class DashboardServer:
    """The pages of a source on a port of the loopback address, as long as the `with` block lasts.

    Only the browser that opened `address` reaches the pod (`ops.watch.browser_access`). A pod that is replaced needs no
    new address: the next request goes to the new pod. Without a pod, a browser gets an answer that says so.
    """

    def __init__(
        self, core: kubernetes.client.CoreV1Api, source: DashboardSource, say: Say, port: int, access: BrowserAccess
    ) -> None:
        """Raise OSError if the port is in use; port 0 means any free one."""
        self._core = core
        self._source = source
        self._say = say
        self._access = access
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
        """The address for a browser, with the token."""
        return self._access.address(self._port)

    @property
    def _port(self) -> int:
        return int(self._server.server_address[1])

    @SILENCE.wanted()
    def serve(self) -> None:
        """Serve until an exception, such as Ctrl-C, or `stop`."""
        self._server.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """End `serve`, from another thread."""
        self._server.shutdown()

    def _carry(self, browser: socket.socket) -> None:
        """Carry one request of a connection to the pod, and the answer back, until one side ends it."""
        try:
            head, rest = _head(browser)
            request = self._access.checked(head, self._port)
            with self._forwarded() as forward:
                pod = forward.socket(self._source.port)
                pod.sendall(request.head)
                answered = _exchange(browser, pod, request, rest)
                if not answered and (reason := forward.error(self._source.port)):
                    _refuse(browser, _UNAVAILABLE, explanation(reason) or reason)
        except LetInError as redirect:
            _send(browser, redirect.answer)
        except RejectedRequestError as error:
            _refuse(browser, error.status, str(error))
        except (UnreachableError, LookupError) as error:
            _refuse(browser, _UNAVAILABLE, str(error))
        except OSError:
            # The browser or the pod has closed the connection.
            return

    @contextmanager
    def _forwarded(self) -> Iterator[Any]:
        """Yield a port-forward to the running pod. Raises LookupError if there is none, and UnreachableError."""
        source = self._source
        with self._opening, in_plain_words():
            found = source.find()
            if not found:
                raise LookupError(source.missing)
            forward = open_port_forward(self._core, source.namespace, found[0], source.port)
            if found[0] != self._pod:
                self._pod = found[0]
                self._say(f"connected to {source.title} {source.namespace}/{self._pod}")
        try:
            yield forward
        finally:
            forward.close()


def _head(browser: socket.socket) -> tuple[bytes, bytes]:
    """Return the head of the connection's request, and what has come after it. Raises OSError if there is none."""
    received = b""
    while END not in received:
        data = browser.recv(_CHUNK_BYTES)
        if not data or is_too_long(received):
            raise ConnectionError
        received += data
    head, _, rest = received.partition(END)
    return head + END, rest


def _exchange(browser: socket.socket, pod: Any, request: BrowserRequest, rest: bytes) -> bool:
    """Copy the request's body and the answer until one side ends; return whether the pod has sent any.

    What follows the body would be another request, which nobody has checked, and ends the exchange.
    """
    answered, left = False, request.length
    pending = rest
    while True:
        if len(pending) > left:
            return answered
        if pending:
            pod.sendall(pending)
            left -= len(pending)
        pending = b""
        ready, _, _ = select.select([browser, pod], [], [])
        if pod in ready:
            data = pod.recv(_CHUNK_BYTES)
            if not data:
                return answered
            if not answered and request.upgrade and data.startswith(_SWITCHED):
                return _tunnel(browser, pod, data)
            answered = True
            browser.sendall(data)
        elif not (pending := browser.recv(_CHUNK_BYTES)):
            return answered


def _tunnel(browser: socket.socket, pod: Any, first: bytes) -> bool:
    """Copy a WebSocket's bytes both ways until one side ends, from the `first` of the pod on."""
    browser.sendall(first)
    while True:
        ready, _, _ = select.select([browser, pod], [], [])
        for source in ready:
            if not (data := source.recv(_CHUNK_BYTES)):
                return True
            (pod if source is browser else browser).sendall(data)


def _refuse(browser: socket.socket, status: str, reason: str) -> None:
    body = f"{reason}\n".encode()
    _send(browser, _ANSWER.format(status, len(body)).encode() + body)


def _send(browser: socket.socket, answer: bytes) -> None:
    # The browser may have closed the connection.
    with suppress(OSError):
        browser.sendall(answer)
