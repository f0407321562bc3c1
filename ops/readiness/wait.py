"""`ops wait` and `ops status`: the table of what is ready, once or until all is."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from ops.errors import NoAnswerError
from ops.readiness.item import Item, State

_STYLE: Final = {State.READY: "green", State.WAITING: "yellow", State.FAILED: "bold red"}
_SIGN: Final = {State.READY: "✔", State.WAITING: "…", State.FAILED: "✘"}

SILENCE_SECONDS: Final = 300
"""A pipeline may end a command that says nothing for long."""

Observe = Callable[[], list[Item]]


def table(items: list[Item], caption: str | None = None) -> Table:
    """Draw the items, one a row."""
    drawn = Table(box=None, pad_edge=False, header_style="bold", caption=caption, caption_justify="left")
    # Folded, as a narrow terminal would cut what it redraws in place.
    for column in ("", "what", "name", "state"):
        drawn.add_column(column, overflow="fold")
    for item in items:
        style = _STYLE[item.state]
        reasons = escape(item.detail.replace("; ", "\n"))
        drawn.add_row(f"[{style}]{_SIGN[item.state]}[/]", item.kind, item.name, reasons)
    return drawn


def wait(observe: Observe, console: Console, *, timeout: float, interval: float) -> list[Item]:
    """Observe every `interval` seconds until all items are ready, one failed or `timeout` seconds passed.

    Return what was seen last. On a terminal the table is redrawn in place; elsewhere a line is printed for each item
    that changes, and one now and then that it still waits. Once it has seen something, a look that gets no answer is
    repeated instead of ending the wait.
    """
    started = time.monotonic()
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    items: list[Item] = []
    trouble = ""
    silent_since = started
    with live or nullcontext():
        while True:
            before, last_trouble = items, trouble
            items, trouble = _look(observe, before)
            now = time.monotonic()
            waited = now - started
            if live:
                caption = trouble or f"{progress(items)} after {waited / 60:.0f} min; Ctrl-C ends the looking only"
                live.update(table(items, caption), refresh=True)
            else:
                lines = [_line(item) for item in items if item not in before]
                lines += [trouble] if trouble and trouble != last_trouble else []
                if not lines and now - silent_since >= SILENCE_SECONDS:
                    lines = [f"… {progress(items)} after {waited / 60:.0f} min"]
                silent_since = now if lines else silent_since
                _print_lines(console, lines)
            states = {item.state for item in items}
            if states <= {State.READY} or State.FAILED in states or waited >= timeout:
                return items
            time.sleep(min(interval, timeout - waited))


def progress(items: list[Item]) -> str:
    """How many of the items are ready."""
    return f"{sum(item.state is State.READY for item in items)} of {len(items)} ready"


def _look(observe: Observe, before: list[Item]) -> tuple[list[Item], str]:
    try:
        return observe(), ""
    except NoAnswerError as error:
        if not before:
            raise
        return before, f"no answer, trying again: {error.what}"


def _line(item: Item) -> str:
    return f"{_SIGN[item.state]} {item.kind} {item.name}: {item.detail}"


def _print_lines(console: Console, lines: list[str]) -> None:
    """A line stays a line, however narrow the place that it goes to."""
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)
