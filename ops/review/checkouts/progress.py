"""Show the progress of a review: a line with the elapsed seconds for each finished step.

A terminal also shows the running steps.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class ReviewProgress:
    """Progress output for several threads. Use it as a context manager, which clears the running steps at its end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        self._running = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)

    def __enter__(self) -> Self:
        self._running.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.stop()

    def say(self, line: str) -> None:
        """Print the seconds since the review started, then the line."""
        seconds = time.monotonic() - self._started
        self._console.print(f"{seconds:6.1f} s  {line}", markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, doing: str, done: str) -> Iterator[None]:
        """Show `doing` while the step runs; print `done` if it succeeds."""
        task = self._running.add_task(doing)
        try:
            yield
        finally:
            self._running.remove_task(task)
        self.say(done)
