"""Record what happened in a drill, and when."""

import time
from collections.abc import Iterator


class DrillTimeline:
    """A timeline in seconds since the drill began; `at` is in seconds since the epoch."""

    def __init__(self) -> None:
        self._began = time.time()
        self._marks: set[tuple[float, str]] = set()

    def mark(self, what: str, at: float | None = None) -> None:
        """Record an event, by default now. Events before the drill are ignored."""
        moment = (time.time() if at is None else at) - self._began
        if moment >= 0:
            self._marks.add((moment, what))

    def lines(self) -> Iterator[str]:
        """Yield one line per event, in order."""
        for moment, what in sorted(self._marks):
            yield f"{moment:7.1f} s  {what}"
