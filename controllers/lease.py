"""A Lease that one process of several holds; its annotation keeps the state that a successor needs.

A run's Lease also says whether the run trains, and for which pods it has saved (`training_runs`): so the reaper and the
supervisors agree without a way from one to the other.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self

from controllers.kubernetes_api import CONFLICT, NOT_FOUND, Api, ApiError, Object

STATE: Final = "ray-on-hyperpod/state"
"""Annotation with the holder's state, in JSON."""

TRAINS: Final = "ray-on-hyperpod/trains"
"""Label of the Lease of a run that trains; its value is the RayCluster. Its supervisor answers `MOVE`."""

MOVE: Final = "ray-on-hyperpod/Move"
"""Condition of a Ray pod that the reaper will delete on a node that is still alive, once the runs have saved.

Not Kubernetes' own `DisruptionTarget`: its controller takes that back after two minutes if the pod is still there
(kubernetes: pkg/controller/disruption/disruption.go, stalePodDisruptionTimeout).
"""

SAVE_SECONDS: Final = 300.0
"""How long the reaper waits for the runs' saves."""

_POLL: Final = 2.0


class LeaseLostError(Exception):
    """Another process holds the Lease now."""


@dataclass(frozen=True)
class TrainingRun:
    """A run that trains, as its Lease says; `answered` are the uids of pods for whose `MOVE` it waits no longer."""

    name: str
    answered: frozenset[str]

    @classmethod
    def of(cls, lease: Object) -> Self:
        """Return the run of a Lease."""
        state = json.loads(lease["metadata"].get("annotations", {}).get(STATE, "{}"))
        return cls(lease["metadata"]["name"], frozenset(state.get("answered", ())))


def training_runs(api: Api, namespace: str, cluster: str) -> list[TrainingRun]:
    """Return the runs that train on a RayCluster and answer `MOVE`. Raises ApiError."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    return [TrainingRun.of(lease) for lease in api.get(path, labelSelector=f"{TRAINS}={cluster}")["items"]]


def asked_to_move(pod: Object) -> str | None:
    """Return when the reaper has set a pod's `MOVE` condition, in Kubernetes' format; None if it is not set."""
    for condition in pod.get("status", {}).get("conditions") or []:
        if condition["type"] == MOVE and condition["status"] == "True":
            return str(condition["lastTransitionTime"])
    return None


class Lease:
    """A Lease of the namespace, which is free after `seconds` without a renewal.

    The clocks of holder and successor are never compared: a successor waits until it has itself seen no renewal for
    `seconds`, and a holder relies on its Lease for a shorter time. It need not wait for a holder that has ended: a
    holder is a pod of the namespace, and its kubelet reports the end of its containers.
    """

    def __init__(self, api: Api, namespace: str, name: str, holder: str, *, seconds: int, owner: Object) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
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

        `waits` is called again and again with the holder that this process waits for. Raises ApiError.
        """
        seen, since = "", 0.0
        while not ending.is_set():
            lease = self._read_or_create()
            if lease["metadata"]["ownerReferences"] != [self._owner]:
                # It belongs to a deleted object of the same name: the garbage collector is about to delete it.
                ending.wait(_POLL)
                continue
            holder = lease["spec"].get("holderIdentity") or ""
            if lease["metadata"]["resourceVersion"] != seen:
                seen, since = lease["metadata"]["resourceVersion"], time.monotonic()
            free = holder in ("", self._holder) or time.monotonic() - since >= self._seconds
            if free or self._has_ended(holder):
                self._lease = lease
                try:
                    self._write(self._holder)
                except ApiError as error:
                    if error.status != CONFLICT:
                        raise
                    continue
                return self._state()
            waits(holder)
            ending.wait(_POLL)
        return None

    def save(self, state: Object, labels: Mapping[str, str]) -> None:
        """Renew the Lease, with a state and labels. Raises LeaseLostError, and ApiError if there is no answer."""
        self._lease["metadata"].setdefault("annotations", {})[STATE] = json.dumps(state)
        self._lease["metadata"]["labels"] = dict(labels)
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

    def _has_ended(self, holder: str) -> bool:
        """Return whether a kubelet has reported the end of the holder's containers.

        A pod that is gone, or that somebody else marked as failed, may still run on a node that was cut off.
        """
        pods = self._api.get(self._pods, fieldSelector=f"metadata.name={holder}")["items"]
        statuses = [
            status
            for pod in pods
            if pod["metadata"]["name"] == holder
            for status in pod.get("status", {}).get("containerStatuses") or []
        ]
        return bool(statuses) and all("terminated" in status.get("state", {}) for status in statuses)

    def _look_again(self) -> None:
        """Read and renew a Lease that somebody else changed; it is still ours if its holder is unchanged."""
        own = {key: self._lease["metadata"].get(key, {}) for key in ("annotations", "labels")}
        try:
            lease = self._api.get(self._path)
        except ApiError as error:
            if error.status == NOT_FOUND:
                raise LeaseLostError(f"Lease {self._name} was deleted") from error
            raise
        holder = lease["spec"].get("holderIdentity")
        if holder != self._holder:
            raise LeaseLostError(f"Lease {self._name} is held by {holder or 'nobody'}")
        self._lease = lease | {"metadata": lease["metadata"] | own}
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
