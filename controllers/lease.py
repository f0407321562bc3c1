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

from controllers.kubernetes_api import (
    CONFLICT,
    NOT_FOUND,
    KubernetesApi,
    KubernetesApiError,
    Object,
    name_of,
    read,
    text,
)

STATE: Final = "ray-on-hyperpod/state"
"""Annotation with the holder's state, in JSON."""

FIX: Final = 'Fix: write at least {"attempt": N} into it, N being the number of the newest attempt'
"""What helps a run whose state cannot be read."""

TRAINS: Final = "ray-on-hyperpod/trains"
"""Label of the Lease of a run that trains; its value is the RayCluster. Its supervisor answers `MOVE`."""

MOVE: Final = "ray-on-hyperpod/Move"
"""Condition of a Ray pod that the reaper will delete on a node that is still alive, once the runs have saved.

Not Kubernetes' own `DisruptionTarget`: its controller takes that back after two minutes if the pod is still there
(kubernetes: pkg/controller/disruption/disruption.go, stalePodDisruptionTimeout).
"""

SAVE_SECONDS: Final = 300.0
"""How long the reaper waits for the runs' saves."""

_POLL_SECONDS: Final = 2.0


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
        answered = saved_state(lease).get("answered") or ()
        return cls(text(lease["metadata"]["name"]), frozenset(map(text, answered)))


def saved_state(lease: Object) -> Object:
    """Return the state that a Lease's holder saved; empty if there is none."""
    try:
        state: Object = json.loads((lease["metadata"].get("annotations") or {}).get(STATE) or "{}")
    except ValueError as error:
        raise TypeError(f"annotation {STATE} is no JSON. {FIX}") from error
    if not isinstance(state, dict):
        raise TypeError(f"annotation {STATE} is no object. {FIX}")
    return state


def training_runs(
    api: KubernetesApi, namespace: str, cluster: str, failed: Callable[[KubernetesApiError], None]
) -> list[TrainingRun]:
    """Return the runs that train on a RayCluster and answer `MOVE`. Raises ApiError.

    A run whose Lease cannot be read has answered nothing; `failed` is called with the reason.
    """
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    runs = []
    for lease in api.list(path, labelSelector=f"{TRAINS}={cluster}"):
        try:
            runs.append(read(TrainingRun.of, lease))
        except KubernetesApiError as error:
            failed(error)
            runs.append(TrainingRun(name_of(lease), frozenset()))
    return runs


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

    def __init__(
        self, api: KubernetesApi, namespace: str, name: str, holder: str, *, seconds: int, owner: Object
    ) -> None:
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
            if read(_owners, lease) != [self._owner]:
                # It belongs to a deleted object of the same name: the garbage collector is about to delete it.
                waits("another object of this name")
                ending.wait(_POLL_SECONDS)
                continue
            holder = read(_holder, lease)
            if lease["metadata"]["resourceVersion"] != seen:
                seen, since = lease["metadata"]["resourceVersion"], time.monotonic()
            free = holder in ("", self._holder) or time.monotonic() - since >= self._seconds
            if free or self._has_ended(holder):
                self._lease = lease
                try:
                    self._write(self._holder)
                except KubernetesApiError as error:
                    if error.status != CONFLICT:
                        raise
                    continue
                return read(saved_state, self._lease)
            waits(holder)
            ending.wait(_POLL_SECONDS)
        return None

    def save(self, state: Object, labels: Mapping[str, str]) -> None:
        """Renew the Lease, with a state and labels. Raises LeaseLostError, and ApiError if there is no answer."""
        metadata = self._lease["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), STATE: json.dumps(state)}
        metadata["labels"] = dict(labels)
        try:
            self._write(self._holder)
        except KubernetesApiError as error:
            if error.status not in (CONFLICT, NOT_FOUND):
                raise
            self._read_again()

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
        pods = self._api.list(self._pods, fieldSelector=f"metadata.name={holder}")
        try:
            return any(read(_has_terminated, pod) for pod in pods if name_of(pod) == holder)
        except KubernetesApiError:
            return False

    def _read_again(self) -> None:
        """Read and renew a Lease that somebody else changed; it is still ours if its holder is unchanged."""
        own = {key: self._lease["metadata"].get(key, {}) for key in ("annotations", "labels")}
        try:
            lease = self._api.get(self._path)
        except KubernetesApiError as error:
            if error.status == NOT_FOUND:
                raise LeaseLostError(f"Lease {self._name} was deleted") from error
            raise
        holder = read(_holder, lease)
        if holder != self._holder:
            raise LeaseLostError(f"Lease {self._name} is held by {holder or 'nobody'}")
        self._lease = lease | {"metadata": lease["metadata"] | own}
        try:
            self._write(self._holder)
        except KubernetesApiError as error:
            if error.status == CONFLICT:
                raise LeaseLostError(f"Lease {self._name} is also written by another process") from error
            raise

    def _read_or_create(self) -> Object:
        while True:
            try:
                return self._api.get(self._path)
            except KubernetesApiError as error:
                if error.status != NOT_FOUND:
                    raise
            try:
                return self._api.create(self._collection, self._new())
            except KubernetesApiError as error:
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
        spec = (self._lease.get("spec") or {}) | {"holderIdentity": holder, "renewTime": renewed}
        self._lease = self._api.update(self._path, self._lease | {"spec": spec})
        self._renewed_at = now if holder else float("-inf")


def _owners(lease: Object) -> object:
    return lease["metadata"].get("ownerReferences")


def _holder(lease: Object) -> str:
    return text((lease.get("spec") or {}).get("holderIdentity") or "")


def _has_terminated(pod: Object) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return bool(statuses) and all("terminated" in (status.get("state") or {}) for status in statuses)
