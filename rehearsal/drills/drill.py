"""Define what a drill is, and what it needs of its context."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from rich.console import Console

from config import EksEnvironment
from rehearsal.watch import Watch


class Context(Protocol):
    """The context of drills, which the drills of one call share, one after another."""

    console: Console
    watch: Watch
    """Notified when one of the context's programs ends."""
    REAL: str
    SIMULATED: str

    def set_up(self) -> None:
        """Start what all drills need."""

    def take_down(self) -> None:
        """End all processes."""

    def begin(self, drill: str) -> None:
        """Begin a drill and its timeline."""

    def end(self) -> None:
        """Check what every drill promises. Raises `rehearsal.run.steps.RehearsalError`."""

    def show(self) -> None:
        """Print the drill's timeline."""

    def finish(self) -> None:
        """Wait for work that outlives the drills, and show their common results."""


S = TypeVar("S", bound=Context)


@dataclass(frozen=True)
class Drill(Generic[S]):
    """A promise and its test: `play` raises `rehearsal.run.steps.RehearsalError` if the promise is broken.

    Each drill creates what it needs in its context, and reverts the faults that it injected.
    """

    name: str
    promise: str
    play: Callable[[S], None]
    context: Callable[[EksEnvironment, Console], S]
