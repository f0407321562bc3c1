"""Keep a local copy of a collection's objects, updated by a watch."""

import logging
import threading
from collections.abc import Callable

import urllib3

from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError, Object

_WATCH_SECONDS = 300
_PAUSE_SECONDS = 0.5

_log = logging.getLogger(__name__)


Changed = Callable[[Object | None, Object | None], None]
"""Called with the object before and after each change; None if it does not exist."""


class Watched(threading.Thread):
    """The objects under a path for which `keep` is true, by uid; follows the API server until it is stopped.

    `changed` is called in the thread that follows, in the order of the API server. Changes during an outage of the API
    server arrive as one change per object.
    """

    def __init__(
        self,
        api: KubernetesClient,
        path: str,
        keep: Callable[[Object], bool],
        changed: Changed | None = None,
        **query: str,
    ) -> None:
        super().__init__(name=f"watch {path}", daemon=True)
        self._changed = changed
        self._api = api
        self._path = path
        self._keep = keep
        self._query = query
        self._objects: dict[str, Object] = {}
        self._lock = threading.Lock()
        self._listed = threading.Event()
        self._stopped = threading.Event()

    def snapshot(self) -> dict[str, Object]:
        """Return the current objects by uid. Waits for the first list."""
        self._listed.wait()
        with self._lock:
            return dict(self._objects)

    def stop(self) -> None:
        """Stop following; a running watch ends with its server or at its timeout."""
        self._stopped.set()

    def run(self) -> None:
        """List, then follow; restart whenever the server closes the watch, for any reason."""
        while not self._stopped.is_set():
            try:
                self._follow(self._list())
            except (KubernetesClientError, urllib3.exceptions.HTTPError) as error:
                if not self._stopped.is_set():
                    _log.warning("%s: %s", self.name, error)
                self._stopped.wait(_PAUSE_SECONDS)

    def _list(self) -> str:
        listed = self._api.get(self._path, **self._query)
        now = {item["metadata"]["uid"]: item for item in listed["items"] if self._keep(item)}
        for uid in self._objects.keys() | now.keys():
            self._set(uid, now.get(uid))
        self._listed.set()
        return str(listed["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> None:
        events = self._api.watch(self._path, seconds=_WATCH_SECONDS, resourceVersion=version, **self._query)
        for kind, item in events:
            self._set(item["metadata"]["uid"], None if kind == "DELETED" or not self._keep(item) else item)

    def _set(self, uid: str, after: Object | None) -> None:
        before = self._objects.get(uid)
        with self._lock:
            if after is None:
                self._objects.pop(uid, None)
            else:
                self._objects[uid] = after
        if self._changed and before != after:
            self._changed(before, after)
