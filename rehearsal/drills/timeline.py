"""When what happened in a drill."""

import time
from collections.abc import Iterator


class DrillTimeline:
    """Moments in seconds since the drill began; `at` is in seconds since the epoch."""

    def __init__(self) -> None:
        self._began = time.time()
        self._marks: set[tuple[float, str]] = set()

    def mark(self, what: str, at: float | None = None) -> None:
        """Note that something happened, now unless told otherwise. What was before the drill is left out."""
        moment = (time.time() if at is None else at) - self._began
        if moment >= 0:
            self._marks.add((moment, what))

    def lines(self) -> Iterator[str]:
        """One line a moment, in order."""
        for moment, what in sorted(self._marks):
            yield f"{moment:7.1f} s  {what}"
