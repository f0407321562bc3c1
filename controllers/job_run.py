"""A run of the user's job: what is run, and what must be known of it to go on with it."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from controllers.kubernetes_api import Object


@dataclass(frozen=True)
class Run:
    """What is run: `entrypoint` is a shell's line, `package` a zip file that becomes its working directory.

    `first_attempt` is higher than 1 for a run that is gone on with under the same name.
    """

    name: str
    namespace: str
    cluster: str
    entrypoint: str
    storage: str
    package: Path | None
    first_attempt: int

    def submission_id(self, attempt: int) -> str:
        """Ray's id of an attempt."""
        return f"{self.name}-{attempt}"


@dataclass
class State:
    """What a successor must know; `attempt` is the one that runs or comes next."""

    attempt: int
    session: str = ""
    """The life of the head that the attempt is for; empty before there is one."""
    stalled: int = 0
    """Failures in a row without progress."""
    progress: int = -1
    """How far the run came, in the job's own unit; -1 when it does not say."""
    progressed: bool = False
    """Whether this attempt came further than all before."""
    phase: str = "starting"
    reason: str = ""
    exit_code: int | None = None
    """The run's, once it is over."""

    @classmethod
    def of(cls, saved: Object) -> Self:
        """Read what was saved, by whatever version of this program."""
        return cls(**{field.name: saved[field.name] for field in fields(cls) if field.name in saved})
