"""Show how many bytes of a long command are done, and the elapsed time."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

_SILENCE_SECONDS: Final = 10.0
"""Print a line at least this often where there is no terminal: a silent command looks as if it hangs."""

Say = Callable[[str], None]


class Bytes:
    """Shows the bytes so far and the elapsed time: a bar in a terminal, else a line now and then."""

    def __init__(self, what: str, total: int, console: Console | None, say: Say) -> None:
        self._what, self._total, self._say = what, total, say
        self._done = 0
        self._lock = threading.Lock()
        self._began = self._spoke = time.monotonic()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=console) if console and console.is_terminal else None
        self._task = self._bar.add_task(what, total=total) if self._bar else None

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def add(self, count: int) -> None:
        """Count bytes, also backwards, and from any thread."""
        with self._lock:
            self._done += count
            now = time.monotonic()
            if self._bar and self._task is not None:
                self._bar.update(self._task, completed=self._done)
            elif now - self._spoke > _SILENCE_SECONDS:
                self._spoke = now
                self._say(f"{self._what}: {size(self._done)} of {size(self._total)} after {now - self._began:.0f} s")


def size(count: float) -> str:
    """Return a number of bytes in a unit that people read."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
