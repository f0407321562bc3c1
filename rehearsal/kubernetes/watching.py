"""A local copy of the objects of one collection, kept up to date by a watch."""

import logging
import threading
from collections.abc import Callable

import urllib3

from rehearsal.kubernetes.api import Api, ApiError, Object

_WATCH_SECONDS = 300
_PAUSE = 0.5

_log = logging.getLogger(__name__)


class Watched(threading.Thread):
    """The objects under a path that a test keeps, by uid; follows the API server until the process ends."""

    def __init__(self, api: Api, path: str, keep: Callable[[Object], bool], **query: str) -> None:
        super().__init__(name=f"watch {path}", daemon=True)
        self._api = api
        self._path = path
        self._keep = keep
        self._query = query
        self._objects: dict[str, Object] = {}
        self._lock = threading.Lock()
        self._listed = threading.Event()

    def snapshot(self) -> dict[str, Object]:
        """The objects now. Waits for the first list."""
        self._listed.wait()
        with self._lock:
            return dict(self._objects)

    def run(self) -> None:
        """List, then follow; start again whenever the server closes, for whatever reason."""
        pause = threading.Event()
        while True:
            try:
                self._follow(self._list())
            except (ApiError, urllib3.exceptions.HTTPError) as error:
                _log.warning("%s: %s", self.name, error)
                pause.wait(_PAUSE)

    def _list(self) -> str:
        listed = self._api.get(self._path, **self._query)
        with self._lock:
            self._objects = {item["metadata"]["uid"]: item for item in listed["items"] if self._keep(item)}
        self._listed.set()
        return str(listed["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> None:
        events = self._api.watch(self._path, seconds=_WATCH_SECONDS, resourceVersion=version, **self._query)
        for kind, item in events:
            uid = item["metadata"]["uid"]
            with self._lock:
                if kind == "DELETED" or not self._keep(item):
                    self._objects.pop(uid, None)
                else:
                    self._objects[uid] = item
