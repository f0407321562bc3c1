"""Show a rehearsal's progress: one line per step, with its time; the rest goes to logs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from rehearsal.report.breakdown import Span


@dataclass
class Step:
    """One step: its title, what was seen, its start (seconds since the epoch) and duration (seconds)."""

    title: str
    seen: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.time)
    seconds: float = 0.0

    @property
    def span(self) -> Span:
        """Return begin and end."""
        return self.began, self.began + self.seconds

    def see(self, fact: str) -> None:
        """Add an observation, which is printed below the step."""
        self.seen.append(fact)


@dataclass
class _Running:
    """The line of the running step, which a terminal redraws."""

    title: str
    started: float
    line: str = ""

    def __rich__(self) -> Text:
        shown = f"[bold]{self.title}[/] {elapsed(time.monotonic() - self.started)}"
        return Text.from_markup(f"{shown} [dim]{escape(self.line)}[/]")


def elapsed(seconds: float) -> str:
    """Return the time as minutes and seconds, for example `1:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class StepProgress:
    """Prints steps as they begin and end. A terminal also shows a step's time and its command's last line, live."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.steps: list[Step] = []
        self._running: _Running | None = None

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show one step; print its observations and time when it ends without an error."""
        step = Step(title)
        self.steps.append(step)
        started = time.monotonic()
        if not self.console.is_terminal:
            self.console.print(f"▶ {title} …")
        self._running = _Running(title, started)
        with self.console.status(self._running, spinner="dots"):
            try:
                yield step
            except BaseException:
                self.console.print(f"[bold red]✘[/] {title}")
                raise
            finally:
                step.seconds = time.monotonic() - started
        self.console.print(f"[green]✔[/] {title} [dim]{step.seconds:.1f} s[/]")
        for fact in step.seen:
            self.console.print(f"    {fact}", highlight=False)

    def echo(self, line: str) -> None:
        """Show a line of a running command beside the step's spinner; without a terminal it is only in the log."""
        if self._running and line.strip():
            room = max(20, self.console.width - len(self._running.title) - 14)
            self._running.line = line.strip()[:room]
