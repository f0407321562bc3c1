"""A run of the user's job, and the state that a successor needs to continue it."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Self

from controllers.kubernetes_api import Object


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
    """How long attempts have run, and waited to be retried, since the last progress."""
    progress: int = -1
    """Progress of the run in the job's own unit; -1 if the job prints none."""
    progress_at: str = ""
    """When the progress last grew, in ISO 8601; empty before that."""
    figures: dict[str, float] = field(default_factory=dict)
    """The newest figures that the job printed: step, loss, steps_per_second, and goodput in percent."""
    progressed: bool = False
    """Whether this attempt made more progress than all before."""
    phase: str = "starting"
    reason: str = ""
    exit_code: int | None = None
    """The run's exit code once the run is over."""

    @classmethod
    def of(cls, saved: Object) -> Self:
        """Return the saved state; any version of this program may have saved it."""
        return cls(**{field.name: saved[field.name] for field in fields(cls) if field.name in saved})
