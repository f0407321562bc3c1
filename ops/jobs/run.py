"""A run, and the request that creates one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ops.jobs.kind import JobKind
from ops.jobs.packing import Package


class RunError(Exception):
    """The request is refused; the message says why. Nothing was submitted."""


@dataclass(frozen=True)
class OwnCluster:
    """How a RayJob's RayCluster differs from the one that it copies.

    `workers` is the number of each group's workers, None: as many. Kueue's LocalQueue `queue` starts the RayJob, None:
    it starts at once.
    """

    workers: int | None = None
    queue: str | None = None


@dataclass(frozen=True)
class OwnPods:
    """Number of a PyTorchJob's pods, None: as many as the RayCluster's first group has; and the queue that starts it.

    Without a `queue`, a LocalQueue of Kueue, it starts at once.
    """

    workers: int | None = None
    queue: str | None = None


@dataclass(frozen=True)
class RunRequest:
    """A run to create; `storage` is the job's RUN_STORAGE, `give_up_after` is in seconds.

    `fetch` is a shell command that fetches the working directory and then becomes the words after it; may be empty.

    A run with an `own_cluster` is a RayJob, one with `own_pods` a PyTorchJob. Both have neither `max_stalled` nor
    `give_up_after`.
    """

    name: str
    cluster: str
    command: str
    storage: str
    package: Package | None
    max_attempts: int
    max_stalled: int
    give_up_after: float
    own_cluster: OwnCluster | None = None
    own_pods: OwnPods | None = None
    fetch: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The job's own environment variables, on all its workers."""
    pip: Sequence[str] = ()
    """The lines of a requirements file that Ray installs for the job."""

    @property
    def started(self) -> str:
        """Return the shell command that the job starts: `command`, in its working directory."""
        return f"{self.fetch} {self.command}".strip()

    @property
    def kind(self) -> JobKind:
        """Return what carries the run out."""
        if self.own_pods:
            return JobKind.PYTORCHJOB
        return JobKind.RAYJOB if self.own_cluster else JobKind.SUPERVISED


@dataclass(frozen=True)
class ExistingRun:
    """An existing run; `state` is what its supervisor recorded last, empty before the supervisor starts.

    The state of a RayJob or PyTorchJob is its operator's, in the supervisor's words.
    """

    name: str
    cluster: str
    command: str
    created: Any
    finished: bool
    state: Mapping[str, Any]
    series: str = ""
    """Its RUN_SERIES: tells the attempts of this run from those of earlier ones of the same name."""
    storage: str = ""
    first_attempt: int = 1
    kind: JobKind = JobKind.SUPERVISED

    @property
    def phase(self) -> str:
        """The run's state in a word or two."""
        return str(self.state.get("phase") or ("failed" if self.finished else "starting"))
