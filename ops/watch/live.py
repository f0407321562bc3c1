"""Redraw a status in place until it is interrupted."""

import time
from collections.abc import Callable
from typing import NoReturn

from rich.console import Console
from rich.live import Live

from ops.change.image_build_log import elapsed
from ops.watch.screen import screen
from ops.watch.status import Status


def watch(look: Callable[[], Status], console: Console, *, interval: float) -> NoReturn:
    """Redraw `look()` every `interval` seconds, with the time since the start; only an exception ends it."""
    started = time.monotonic()
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        while True:
            status = look()
            since = elapsed(time.monotonic() - started)
            live.update(screen(status, f", watching for {since}; Ctrl-C stops"), refresh=True)
            time.sleep(interval)
