"""Redraw in place until it is interrupted."""

import time
from collections.abc import Callable
from typing import Final, NoReturn

from rich.console import Console, RenderableType
from rich.live import Live

from ops.durations import elapsed
from ops.sign_of_life import SILENCE

INTERVAL_SECONDS: Final = 5.0
"""Seconds between two looks."""


@SILENCE.wanted()
def watch(draw: Callable[[str], RenderableType], console: Console, *, interval: float = INTERVAL_SECONDS) -> NoReturn:
    """Redraw every `interval` seconds; `draw` gets words on how long that has lasted. Only an exception ends it."""
    started = time.monotonic()
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        while True:
            since = elapsed(time.monotonic() - started)
            live.update(draw(f", watching for {since}; Ctrl-C stops"), refresh=True)
            time.sleep(interval)
