"""What a person sees while the story runs: one line a step, with its time; the rest goes to logs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.status import Status

from rehearsal.story.breakdown import Span


@dataclass
class Step:
    """One step: its title, what was seen, when it began (seconds since the epoch), and how long it took in seconds."""

    title: str
    seen: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.time)
    seconds: float = 0.0

    @property
    def span(self) -> Span:
        """Begin and end."""
        return self.began, self.began + self.seconds

    def see(self, fact: str) -> None:
        """Add something that was observed; it is printed under the step."""
        self.seen.append(fact)


class Narrator:
    """Prints steps as they begin and end. On a terminal the last line of a command's output is shown live."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.steps: list[Step] = []
        self._status: Status | None = None

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Tell one step; its facts and time are printed when it ends well."""
        step = Step(title)
        self.steps.append(step)
        started = time.monotonic()
        if not self.console.is_terminal:
            self.console.print(f"▶ {title} …")
        with self.console.status(f"[bold]{title}[/]", spinner="dots") as status:
            self._status = status
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
        """Show a line of a running command beside the step's spinner; without a terminal it is only logged."""
        if self._status and self.console.is_terminal and line.strip():
            title = self.steps[-1].title
            room = max(20, self.console.width - len(title) - 8)
            self._status.update(f"[bold]{title}[/] [dim]{line.strip()[:room]}[/]")
