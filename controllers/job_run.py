"""A run of the user's job, the state that a successor needs to continue it, and its place among other runs."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, get_args, get_origin, get_type_hints

from controllers.kubernetes_api import LONG_WATCH_SECONDS, ApiServer, KubernetesApiError, Object, WatchCache, text
from controllers.lease import FIX, STATE, saved_state

QUEUE: Final = "ray-on-hyperpod/queue"
"""Label of a run's Lease as long as the run does not have its resources; its value is the RayCluster."""


@dataclass(frozen=True)
class SupervisedRun:
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
    variables: Mapping[str, str] = field(default_factory=dict)
    """The job's own environment variables."""
    pip: Sequence[str] = ()
    """The lines of a requirements file that Ray installs for the job."""

    def submission_id(self, attempt: int) -> str:
        """Return Ray's submission id of an attempt."""
        return f"{self.name}-{attempt}"


@dataclass
class RunState:
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
    waits: bool = False
    """Whether this attempt waited for resources when its output last said anything of them."""
    withdrawn: str = ""
    """Why the supervisor itself stops this attempt: Ray's status is then the same as after somebody else's stop."""
    pods: list[str] = field(default_factory=list)
    """The uids of the RayCluster's running pods: those that a successor misses were lost."""
    lost: list[str] = field(default_factory=list)
    """A phrase for each pod that was lost since the last progress."""
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
        """Return the saved state; any version of this program may have saved it. Raises TypeError.

        A run whose state is only partly known would end or begin again by mistake.
        """
        types = get_type_hints(cls)
        for name in types.keys() & saved.keys():
            if not _fits(saved[name], types[name]):
                raise TypeError(f"annotation {STATE}: {name} is {saved[name]!r}. {FIX}")
        return cls(**{field.name: saved[field.name] for field in fields(cls) if field.name in saved})


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) is list:
        return isinstance(value, list) and all(isinstance(each, get_args(hint)) for each in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict)
    # JSON has one kind of numbers.
    return isinstance(value, int | float if hint is float else hint)


WAITING: Final = "waiting for resources"
"""The phase of a run whose attempt has none."""

RUNNING: Final = "running"
"""The phase of a run whose attempt runs and does not say that it waits."""


class QueuePosition(NamedTuple):
    """The place in the queue of a run that waits; a lower one comes first."""

    submitted: str
    run: str


class _Waiting(NamedTuple):
    place: QueuePosition
    version: str
    reason: str

    @classmethod
    def of(cls, lease: Object) -> Self:
        metadata = lease["metadata"]
        state = saved_state(lease)
        reason = f", which waits for {state.get('reason', '')}" if state.get("phase") == WAITING else ""
        place = QueuePosition(text(state.get("submitted", "")), text(metadata["name"]))
        return cls(place, text(metadata["resourceVersion"]), reason)


class Queue:
    """The runs of a RayCluster that do not have their resources, in the order of their submission.

    Only their Leases have the label: a run that trains neither watches the others nor is an event to them. A run whose
    Lease nobody renews for `patience` seconds is passed over.
    """

    def __init__(
        self,
        cluster: ApiServer,
        run: SupervisedRun,
        submitted: str,
        failed: Callable[[KubernetesApiError], None],
        patience: float,
    ) -> None:
        self._cluster = cluster
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{run.namespace}/leases"
        self._selector = f"{QUEUE}={run.cluster}"
        self._place = QueuePosition(submitted, run.name)
        self._failed = failed
        self._patience = patience
        self._mirror: WatchCache[_Waiting] | None = None
        self._renewed: dict[str, tuple[str, float]] = {}

    def ahead(self) -> str | None:
        """Return behind which runs this one waits; empty if it is the first; None if the others are not known yet."""
        if self._mirror is None:
            self._mirror = WatchCache(
                self._cluster,
                self._leases,
                _Waiting.of,
                self._failed,
                seconds=LONG_WATCH_SECONDS,
                labelSelector=self._selector,
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

    @property
    def ended(self) -> bool:
        """Return whether the watch has ended although nobody stopped it."""
        mirror = self._mirror
        return mirror is not None and mirror.ended

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
