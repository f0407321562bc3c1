"""`ops status` and `ops wait`: show what is ready, once or until everything is."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from ops.durations import until_next_poll
from ops.errors import NoAnswerError
from ops.readiness.expected_end import outlook
from ops.readiness.item import ReadinessItem, ReadinessState

_STYLE: Final = {
    ReadinessState.READY: "green",
    ReadinessState.WAITING: "yellow",
    ReadinessState.PAUSED: "bold yellow",
    ReadinessState.FAILED: "bold red",
}
_SIGN: Final = {
    ReadinessState.READY: "✔",
    ReadinessState.WAITING: "…",
    ReadinessState.PAUSED: "‖",
    ReadinessState.FAILED: "✘",
}

SILENCE_SECONDS: Final = 60
"""Print a line at least this often: a CI pipeline may stop a silent command."""

Observe = Callable[[], list[ReadinessItem]]


def table(items: list[ReadinessItem], caption: str | None = None) -> Table:
    """Return a table with one row per item."""
    drawn = Table(box=None, pad_edge=False, header_style="bold", caption=caption, caption_justify="left")
    # Folded: a narrow terminal cuts long lines of a table that is redrawn in place.
    for column in ("", "what", "name", "state"):
        drawn.add_column(column, overflow="fold")
    for item in items:
        style = _STYLE[item.state]
        reasons = escape(item.detail.replace("; ", "\n"))
        drawn.add_row(f"[{style}]{_SIGN[item.state]}[/]", item.kind, item.name, reasons)
    return drawn


def wait(observe: Observe, console: Console, *, timeout: float, interval: float) -> list[ReadinessItem]:
    """Poll every `interval` seconds until all items are ready, waiting cannot help or `timeout` seconds have passed.

    Return the last items. A terminal shows a table, redrawn in place. Elsewhere, print a line for each changed item,
    one for each changed expected end, and one every SILENCE_SECONDS without a change. After the first answer, requests
    without an answer are retried.
    """
    started = time.monotonic()
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    items: list[ReadinessItem] = []
    trouble = said = ""
    silent_since = started
    with live or nullcontext():
        while True:
            before, last_trouble = items, trouble
            items, trouble = _observe(observe, before)
            now = time.monotonic()
            waited = now - started
            pause = min(until_next_poll(waited, interval), timeout - waited)
            if live:
                caption = trouble or summary(items, f" after {waited / 60:.0f} min; Ctrl-C stops only this wait")
                live.update(table(items, caption), refresh=True)
            else:
                lines = [_line(item) for item in items if item not in before]
                lines += [trouble] if trouble and trouble != last_trouble else []
                last_said, said = said, expected(items)
                lines += [f"… {said}"] if said not in {"", last_said} else []
                if not lines and now + pause - silent_since > SILENCE_SECONDS:
                    lines = [f"… {progress(items)} after {waited / 60:.0f} min"]
                silent_since = now if lines else silent_since
                _print_lines(console, lines)
            states = {item.state for item in items}
            if (
                states <= {ReadinessState.READY}
                or states & {ReadinessState.FAILED, ReadinessState.PAUSED}
                or waited >= timeout
            ):
                return items
            time.sleep(pause)


def expected(items: list[ReadinessItem]) -> str:
    """Return when everything should be ready, as `Outlook.sentence` has it; "" if nothing waits."""
    now = datetime.now(UTC)
    found = outlook(items, now)
    return found.sentence(now) if found else ""


def summary(items: list[ReadinessItem], more: str = "") -> str:
    """Return the progress, and the expected end on a line of its own."""
    return "\n".join(filter(None, [progress(items) + more, expected(items)]))


def progress(items: list[ReadinessItem]) -> str:
    """Return how many items are ready, such as `3 of 9 ready`."""
    return f"{sum(item.state is ReadinessState.READY for item in items)} of {len(items)} ready"


def _observe(observe: Observe, before: list[ReadinessItem]) -> tuple[list[ReadinessItem], str]:
    try:
        return observe(), ""
    except NoAnswerError as error:
        if not before:
            raise
        return before, f"no answer, retrying: {error.what}"


def _line(item: ReadinessItem) -> str:
    return f"{_SIGN[item.state]} {item.kind} {item.name}: {item.detail}"


def _print_lines(console: Console, lines: list[str]) -> None:
    """Print each line unwrapped, however narrow the output."""
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)
