"""What a drill is."""

from collections.abc import Callable
from dataclasses import dataclass

from rehearsal.drills.stage import Stage


@dataclass(frozen=True)
class Drill:
    """A promise, and how it is tried: `play` raises `story.steps.Broken` when the promise is broken.

    Drills that are called together share one account; each makes what it needs (`Stage.deploy`), and takes back
    what it let go wrong.
    """

    name: str
    promise: str
    play: Callable[[Stage], None]
