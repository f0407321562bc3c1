"""`ops wait` and `ops status`: the table of what is ready, once or until all is."""

import time
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from ops.readiness import Item, State

_STYLE: Final = {State.READY: "green", State.WAITING: "yellow", State.FAILED: "bold red"}
_SIGN: Final = {State.READY: "✔", State.WAITING: "…", State.FAILED: "✘"}


def table(items: list[Item]) -> Table:
    """Draw the items, one a row."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "what", "name", "state"):
        drawn.add_column(column)
    for item in items:
        style = _STYLE[item.state]
        drawn.add_row(f"[{style}]{_SIGN[item.state]}[/]", item.kind, item.name, item.detail)
    return drawn


def wait(observe: Callable[[], list[Item]], console: Console, *, timeout: float, interval: float) -> bool:
    """Observe every `interval` seconds until all items are ready (True), one failed or `timeout` passed (False).

    On a terminal the table is redrawn in place; elsewhere a line is printed for each item that changes.
    """
    deadline = time.monotonic() + timeout
    seen: dict[tuple[str, str], Item] = {}
    with Live(console=console, transient=False, auto_refresh=False) as live:
        while True:
            items = observe()
            if console.is_terminal:
                live.update(table(items), refresh=True)
            else:
                for item in items:
                    if seen.get((item.kind, item.name)) != item:
                        console.print(f"{_SIGN[item.state]} {item.kind} {item.name}: {item.detail}")
                seen = {(item.kind, item.name): item for item in items}
            states = {item.state for item in items}
            if states <= {State.READY}:
                return True
            if State.FAILED in states or time.monotonic() > deadline:
                return False
            time.sleep(interval)
