"""A run of the user's job, the state that a successor needs to continue it, and its place among other runs."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final, NamedTuple, Self

from controllers.kubernetes_api import LONG_WATCH, ApiError, ApiServer, Mirror, Object
from controllers.lease import STATE

QUEUE: Final = "ray-on-hyperpod/queue"
"""Label of a run's Lease as long as the run does not have its resources; its value is the RayCluster."""


@dataclass(frozen=True)
class Run:
    """A run: `entrypoint` is a shell command line, `package` a zip file that becomes its working directory.

    `first_attempt` is higher than 1 if a run is resumed under the same name.
    """

    name: str
    namespace: str
    cluster: str
    entrypoint: str
    storage: str
    package: Path | None
    first_attempt: int

    def submission_id(self, attempt: int) -> str:
        """Return Ray's submission id of an attempt."""
        return f"{self.name}-{attempt}"


@dataclass
class State:
    """The state that a successor needs; `attempt` is the current or the next one."""

    attempt: int
    session: str = ""
    """Ray's session (one life of the head) to which the attempt belongs; empty before there is one."""
    stalled: int = 0
    """Failures in a row without progress."""
    stalled_seconds: float = 0.0
    """How long attempts have run with their resources, and waited to be retried, since the last progress."""
    uncounted: int = 0
    """Attempts that ended while they waited for resources."""
    progress: int = -1
    """Progress of the run in the job's own unit; -1 if the job prints none."""
    progress_at: str = ""
    """When the progress last grew, in ISO 8601; empty before that."""
    figures: dict[str, float] = field(default_factory=dict)
    """The newest figures that the job printed: step, loss, steps_per_second, and goodput in percent."""
    progressed: bool = False
    """Whether this attempt made more progress than all before."""
    began: bool = False
    """Whether this attempt's output has shown that it got its resources."""
    quiet: bool = False
    """Whether this attempt has not said that it has no resources, although it had the time to say so."""
    answered: list[str] = field(default_factory=list)
    """The uids of pods that the reaper may delete: the run has saved since it was asked to, or it cannot save."""
    submitted: str = ""
    """When the run was submitted, in the words of the API server."""
    phase: str = "starting"
    reason: str = ""
    exit_code: int | None = None
    """The run's exit code once the run is over."""

    @property
    def holds_up(self) -> bool:
        """Return whether younger runs wait for this one: it has no resources yet, or has lost them."""
        return self.exit_code is None and (self.phase == WAITING or not (self.began or self.quiet))

    @property
    def trains(self) -> bool:
        """Return whether an attempt runs with its resources, so that it may have steps to save."""
        return self.exit_code is None and self.phase == RUNNING and not self.holds_up

    @classmethod
    def of(cls, saved: Object) -> Self:
        """Return the saved state; any version of this program may have saved it."""
        return cls(**{field.name: saved[field.name] for field in fields(cls) if field.name in saved})


WAITING: Final = "waiting for resources"
"""The phase of a run whose attempt has none."""

RUNNING: Final = "running"
"""The phase of a run whose attempt runs and does not say that it waits."""


class Place(NamedTuple):
    """The place in the queue of a run that waits; a lower one comes first."""

    submitted: str
    run: str


class _Waiting(NamedTuple):
    place: Place
    version: str
    reason: str

    @classmethod
    def of(cls, lease: Object) -> Self:
        metadata = lease["metadata"]
        state = json.loads(metadata.get("annotations", {}).get(STATE, "{}"))
        reason = f", which waits for {state.get('reason', '')}" if state.get("phase") == WAITING else ""
        return cls(Place(state.get("submitted", ""), metadata["name"]), metadata["resourceVersion"], reason)


class Queue:
    """The runs of a RayCluster that do not have their resources, in the order of their submission.

    Only their Leases have the label: a run that trains neither watches the others nor is an event to them. A run whose
    Lease nobody renews for `patience` seconds is passed over.
    """

    def __init__(
        self, cluster: ApiServer, run: Run, submitted: str, failed: Callable[[ApiError], None], patience: float
    ) -> None:
        self._cluster = cluster
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{run.namespace}/leases"
        self._selector = f"{QUEUE}={run.cluster}"
        self._place = Place(submitted, run.name)
        self._failed = failed
        self._patience = patience
        self._mirror: Mirror[_Waiting] | None = None
        self._renewed: dict[str, tuple[str, float]] = {}

    def ahead(self) -> str | None:
        """Return behind which runs this one waits; empty if it is the first; None if the others are not known yet."""
        if self._mirror is None:
            self._mirror = Mirror(
                self._cluster, self._leases, _Waiting.of, self._failed, seconds=LONG_WATCH, labelSelector=self._selector
            )
            self._mirror.start()
        if not self._mirror.listed:
            return None
        now = time.monotonic()
        waiting = self._mirror.snapshot()
        for name, each in waiting.items():
            if self._renewed.get(name, ("", 0.0))[0] != each.version:
                self._renewed[name] = each.version, now
        before = sorted(
            each
            for name, each in waiting.items()
            if each.place < self._place and now - self._renewed[name][1] < self._patience
        )
        return _behind(before)

    def leave(self) -> None:
        """Watch the other runs no longer."""
        if self._mirror:
            self._mirror.stop()
            self._mirror = None
            self._renewed.clear()


def _behind(runs: list[_Waiting]) -> str:
    if not runs:
        return ""
    first, *others = runs
    more = f" and {len(others)} more" if others else ""
    return f"behind {first.place.run}{more}{first.reason}"
