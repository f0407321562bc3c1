"""The Kubernetes API from within a pod: requests with the pod's service account, and watched copies of collections."""

import http.client
import json
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

Object = dict[str, Any]
T = TypeVar("T")

NO_ANSWER: Final = 0
NOT_FOUND: Final = 404
CONFLICT: Final = 409
GONE: Final = 410

LONG_WATCH_SECONDS: Final = 1800
"""Seconds of a watch of which there are as many as there are runs; each renewal is a request."""

_TIMEOUT_SECONDS: Final = 10.0
# Watches are renewed often, so that a dead connection is noticed within this time.
_WATCH_SECONDS: Final = 30
# In a long watch a dead connection is noticed by its silence: the API server sends a bookmark each minute.
_SILENT_SECONDS: Final = 150
_PAGE: Final = 250
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 10.0


class KubernetesApiError(Exception):
    """The API server refused a request; `status` is the HTTP status, or NO_ANSWER if there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}" if status else message)
        self.status = status


@dataclass(frozen=True)
class ApiServer:
    """The address of the API server, and the directory with the service account's `token` and `ca.crt`."""

    host: str
    port: int
    account: Path

    @classmethod
    def of_pod(cls, account: Path) -> "ApiServer":
        """Return the API server that Kubernetes names in a pod's environment."""
        return cls(os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]), account)


def text(value: object) -> str:
    """Return a value that must be a text. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def name_of(item: object) -> str:
    """Return an object's name, whatever else is wrong with it."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else "an object without a name"


def read(parse: Callable[[Object], T], item: Object) -> T:
    """Return what `parse` finds in an object. Raises ApiError for whatever is wrong with it.

    One bad object must neither end a program nor hide the others from it.
    """
    try:
        return parse(item)
    except Exception as error:
        raise KubernetesApiError(NO_ANSWER, f"{name_of(item)} cannot be read: {error!r}") from error


class KubernetesApi:
    """A connection for one thread, opened when needed and kept until `close`.

    Every method raises ApiError. The token is read for each request, because the kubelet renews it.
    """

    def __init__(self, cluster: ApiServer) -> None:
        self._cluster = cluster
        self._connection: http.client.HTTPSConnection | None = None

    def close(self) -> None:
        """Close the connection: the server closes an idle one, and only the next request would notice that."""
        if self._connection:
            self._connection.close()
            self._connection = None

    def interrupt(self) -> None:
        """End the request that another thread waits for; that thread gets an ApiError or the watch's end."""
        if self._connection and self._connection.sock:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def get(self, path: str, **query: str) -> Object:
        """Return an object or a list."""
        return self._json("GET", path, query)

    def list(self, path: str, **query: str) -> list[Object]:
        """Return the objects of a collection."""
        return read(lambda page: list(page["items"]), self.get(path, **query))

    def create(self, path: str, body: Object) -> Object:
        """Create an object in a collection; return it."""
        return self._json("POST", path, {}, body)

    def update(self, path: str, body: Object) -> Object:
        """Replace an object; return it. CONFLICT: the object no longer has `body`'s resourceVersion."""
        return self._json("PUT", path, {}, body)

    def delete(self, path: str, options: Object) -> Object:
        """Delete an object with DeleteOptions."""
        return self._json("DELETE", path, {}, options)

    def watch(self, path: str, seconds: int, **query: str) -> Iterator[tuple[str, Object]]:
        """Yield (type, object) of each event until the server ends the watch after `seconds`."""
        parameters = query | {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        response = self._send("GET", path, parameters, timeout=min(seconds, _SILENT_SECONDS) + _TIMEOUT_SECONDS)
        try:
            while line := response.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise KubernetesApiError(event["object"].get("code", 500), event["object"].get("message", ""))
                yield event["type"], event["object"]
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise KubernetesApiError(NO_ANSWER, f"watch of {path}: {error!r}") from error
        finally:
            self.close()

    def _json(self, method: str, path: str, query: Mapping[str, str], body: Object | None = None) -> Object:
        response = self._send(method, path, query, body)
        try:
            answer: Object = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise KubernetesApiError(NO_ANSWER, f"{method} {path}: {error!r}") from error
        return answer

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Object | None = None,
        timeout: float = _TIMEOUT_SECONDS,
    ) -> http.client.HTTPResponse:
        target = f"{path}?{urlencode(query)}" if query else path
        content = None if body is None else json.dumps(body)
        try:
            token = (self._cluster.account / "token").read_text().strip()
            headers = {
                "Authorization": f"Bearer {token}",
                "Accept": "application/json",
                "Content-Type": "application/json",
            }
            connection = self._open(timeout)
            connection.request(method, target, content, headers)
            response = connection.getresponse()
            if response.status < 400:
                return response
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise KubernetesApiError(NO_ANSWER, f"{method} {path}: {error!r}") from error
        raise KubernetesApiError(response.status, _message(text))

    def _open(self, timeout: float) -> http.client.HTTPSConnection:
        if self._connection is None or self._connection.sock is None:  # the server may have closed it after its answer
            trusted = ssl.create_default_context(cafile=str(self._cluster.account / "ca.crt"))
            self._connection = http.client.HTTPSConnection(self._cluster.host, self._cluster.port, context=trusted)
            self._connection.timeout = timeout
            self._connection.connect()
        self._connection.sock.settimeout(timeout)
        return self._connection


class WatchCache(threading.Thread, Generic[T]):
    """A copy of a collection: the result of `parse` by object name, kept up to date by a list and then watches.

    The copy can lag behind: read the object itself before acting on it. Of an object that cannot be read any more, the
    last result stays. `failed` is called with every error, `seconds` is the length of a watch.
    """

    def __init__(
        self,
        cluster: ApiServer,
        path: str,
        parse: Callable[[Object], T],
        failed: Callable[[KubernetesApiError], None],
        seconds: int = _WATCH_SECONDS,
        **query: str,
    ) -> None:
        super().__init__(name=f"watch {path}", daemon=True)
        self._api = KubernetesApi(cluster)
        self._path = path
        self._parse = parse
        self._failed = failed
        self._seconds = seconds
        self._query = query
        self._objects: dict[str, T] = {}
        self._unreadable: dict[str, str] = {}
        self._version = ""
        self._lock = threading.Lock()
        self._heard_at = float("-inf")
        self._ending = threading.Event()

    def snapshot(self) -> dict[str, T]:
        """Return the current objects by name; empty before the first list."""
        with self._lock:
            return dict(self._objects)

    def unreadable(self) -> frozenset[str]:
        """Return the names of the objects that cannot be read now."""
        with self._lock:
            return frozenset(self._unreadable)

    @property
    def ended(self) -> bool:
        """Return whether the thread has ended although nobody stopped it."""
        return self.ident is not None and not self.is_alive() and not self._ending.is_set()

    def silence(self) -> float:
        """Return the seconds since the API server last answered; infinite before the first list."""
        return time.monotonic() - self._heard_at

    @property
    def listed(self) -> bool:
        """Return whether there is a copy."""
        return self._heard_at > float("-inf")

    def stop(self) -> None:
        """End the thread and its current watch."""
        self._ending.set()
        self._api.interrupt()

    def run(self) -> None:
        """List, then watch from that version; list again only if the server no longer knows the version (410)."""
        pause = _FIRST_PAUSE_SECONDS
        while not self._ending.is_set():
            try:
                if not self._version:
                    self._list()
                self._follow()
                pause = _FIRST_PAUSE_SECONDS
            except Exception as error:  # noqa: BLE001 - without this thread, its program sees nothing any more
                problem = (
                    error
                    if isinstance(error, KubernetesApiError)
                    else KubernetesApiError(GONE, f"{self.name}: {error!r}")
                )
                self._api.close()
                if problem.status == GONE:
                    self._version = ""
                if self._ending.is_set():
                    return
                self._failed(problem)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            self._ending.wait(pause * random.uniform(0.5, 1))  # noqa: S311 - so that replicas retry at different times

    def _list(self) -> None:
        names = set[str]()
        query = self._query | {"limit": str(_PAGE)}
        while True:
            page = self._api.get(self._path, **query)
            for item in page["items"]:
                self._take(item)
                names.add(name_of(item))
            if not (token := page["metadata"].get("continue")):
                break
            query["continue"] = token
        with self._lock:
            self._objects = {name: known for name, known in self._objects.items() if name in names}
            self._unreadable = {name: why for name, why in self._unreadable.items() if name in names}
        self._version = page["metadata"]["resourceVersion"]
        self._heard_at = time.monotonic()

    def _follow(self) -> None:
        events = self._api.watch(self._path, self._seconds, resourceVersion=self._version, **self._query)
        for kind, item in events:
            if kind == "DELETED":
                with self._lock:
                    self._objects.pop(name_of(item), None)
                    self._unreadable.pop(name_of(item), None)
            elif kind != "BOOKMARK":
                self._take(item)
            self._version = text(item["metadata"]["resourceVersion"])
            self._heard_at = time.monotonic()
        self._heard_at = time.monotonic()

    def _take(self, item: Object) -> None:
        name = name_of(item)
        try:
            known = read(self._parse, item)
        except KubernetesApiError as error:
            with self._lock:
                new = self._unreadable.get(name) != str(error)
                self._unreadable[name] = str(error)
            if new:
                self._failed(error)
            return
        with self._lock:
            self._objects[name] = known
            self._unreadable.pop(name, None)


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip()[:500]
