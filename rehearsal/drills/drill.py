"""What a drill is, and what it needs of where it is played."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from rich.console import Console

from config import Environment
from rehearsal.watch import Watch


class Playground(Protocol):
    """Where drills are played, one after another: those that are called together share it."""

    console: Console
    watch: Watch
    """What its programs' ends are told to."""
    REAL: str
    SIMULATED: str

    def set_up(self) -> None:
        """Start what all drills need."""

    def take_down(self) -> None:
        """End every process."""

    def begin(self, drill: str) -> None:
        """A drill begins, and with it a timeline."""

    def end(self) -> None:
        """Look at what every drill promises. Raises `story.steps.Broken`."""

    def show(self) -> None:
        """Print the drill's timeline."""

    def finish(self) -> None:
        """Wait for what goes on beyond the drills, and show what they have in common."""


S = TypeVar("S", bound=Playground)


@dataclass(frozen=True)
class Drill(Generic[S]):
    """A promise, and how it is tried: `play` raises `story.steps.Broken` when the promise is broken.

    Each makes what it needs of its stage, and takes back what it let go wrong.
    """

    name: str
    promise: str
    play: Callable[[S], None]
    context: Callable[[Environment, Console], S]
