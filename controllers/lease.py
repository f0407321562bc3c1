"""A Lease that one process of several holds; its annotation keeps the state that a successor needs."""

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from controllers.kubernetes_api import CONFLICT, NOT_FOUND, Api, ApiError, Object

STATE: Final = "ray-on-hyperpod/state"
"""Annotation with the holder's state, in JSON."""

_POLL: Final = 2.0


class LeaseLostError(Exception):
    """Another process holds the Lease now."""


class Lease:
    """A Lease of the namespace, which is free after `seconds` without a renewal.

    The clocks of holder and successor are never compared: a successor waits until it has itself seen no renewal for
    `seconds`, and a holder relies on its Lease for a shorter time.
    """

    def __init__(self, api: Api, namespace: str, name: str, holder: str, *, seconds: int, owner: Object) -> None:
        self._api = api
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"
        self._name = name
        self._holder = holder
        self._seconds = seconds
        self._owner = owner
        self._lease: Object = {}
        self._renewed_at = float("-inf")

    def acquire(self, ending: threading.Event, waits: Callable[[str], None]) -> Object | None:
        """Return the state that the last holder left ({} if there was none), or None if `ending` was set first.

        `waits` is called once with each holder that this process waits for. Raises ApiError.
        """
        seen, since, told = "", 0.0, ""
        while not ending.is_set():
            lease = self._read_or_create()
            if lease["metadata"]["ownerReferences"] != [self._owner]:
                # It belongs to a deleted object of the same name: the garbage collector is about to delete it.
                ending.wait(_POLL)
                continue
            holder = lease["spec"].get("holderIdentity") or ""
            if lease["metadata"]["resourceVersion"] != seen:
                seen, since = lease["metadata"]["resourceVersion"], time.monotonic()
            if holder in ("", self._holder) or time.monotonic() - since >= self._seconds:
                self._lease = lease
                try:
                    self._write(self._holder)
                except ApiError as error:
                    if error.status != CONFLICT:
                        raise
                    continue
                return self._state()
            if holder != told:
                waits(holder)
                told = holder
            ending.wait(_POLL)
        return None

    def save(self, state: Object) -> None:
        """Renew the Lease and save a state in it. Raises LeaseLostError, and ApiError if there is no answer."""
        self._lease["metadata"].setdefault("annotations", {})[STATE] = json.dumps(state)
        try:
            self._write(self._holder)
        except ApiError as error:
            if error.status not in (CONFLICT, NOT_FOUND):
                raise
            self._look_again()

    def seconds_left(self) -> float:
        """Return for how many seconds nobody else can hold the Lease."""
        return self._renewed_at + self._seconds - time.monotonic()

    def release(self) -> None:
        """Free the Lease for the next holder. Raises ApiError."""
        self._write("")

    def _look_again(self) -> None:
        """Read and renew a Lease that somebody else changed; it is still ours if its holder is unchanged."""
        state = self._lease["metadata"].get("annotations", {}).get(STATE)
        try:
            lease = self._api.get(self._path)
        except ApiError as error:
            if error.status == NOT_FOUND:
                raise LeaseLostError(f"Lease {self._name} was deleted") from error
            raise
        holder = lease["spec"].get("holderIdentity")
        if holder != self._holder:
            raise LeaseLostError(f"Lease {self._name} is held by {holder or 'nobody'}")
        if state is not None:
            lease["metadata"].setdefault("annotations", {})[STATE] = state
        self._lease = lease
        try:
            self._write(self._holder)
        except ApiError as error:
            if error.status == CONFLICT:
                raise LeaseLostError(f"Lease {self._name} is also written by another process") from error
            raise

    def _read_or_create(self) -> Object:
        while True:
            try:
                return self._api.get(self._path)
            except ApiError as error:
                if error.status != NOT_FOUND:
                    raise
            try:
                return self._api.create(self._collection, self._new())
            except ApiError as error:
                if error.status != CONFLICT:
                    raise

    def _new(self) -> Object:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "ownerReferences": [self._owner]},
            "spec": {"leaseDurationSeconds": self._seconds},
        }

    def _write(self, holder: str) -> None:
        # Take the time before the request: the server may write the Lease at any moment until it answers.
        now = time.monotonic()
        renewed = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = self._lease["spec"] | {"holderIdentity": holder, "renewTime": renewed}
        self._lease = self._api.update(self._path, self._lease | {"spec": spec})
        self._renewed_at = now if holder else float("-inf")

    def _state(self) -> Object:
        text = self._lease["metadata"].get("annotations", {}).get(STATE)
        state: Object = json.loads(text) if text else {}
        return state
