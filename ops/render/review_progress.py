"""What a review tells while it works: a line with the seconds so far for each step that is done.

A terminal also shows the steps that run.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class ReviewProgress:
    """Written to a console from several threads. Use it as a context, which ends what a terminal shows."""

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
        """Write a line after the seconds since the review began."""
        seconds = time.monotonic() - self._started
        self._console.print(f"{seconds:6.1f} s  {line}", markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, doing: str, done: str) -> Iterator[None]:
        """Show `doing` while the step runs, and say `done` unless it fails."""
        task = self._running.add_task(doing)
        try:
            yield
        finally:
            self._running.remove_task(task)
        self.say(done)
