"""Ends an attempt that stands still.

A collective waits, a file system hangs, Ray 2.42.1 goes on waiting for actors that it will never start (those of a
driver whose raylet was lost): none of them says so. What tells is that nothing new comes of the run.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

PATIENCE: Final = 3600.0
"""Seconds. More than the longest time between two checkpoints and a restart together, a node's replacement included."""

SIGN: Final = "ActorUnavailableError"
"""One of the names by which the job supervisor (controllers/job_decision.py) knows that not the code failed."""

_LOOKS: Final = 20
_LONGEST_PAUSE: Final = 30.0
_LAST_WORDS_SECONDS: Final = 5.0


class Watchdog:
    """Within its block the program ends with 1 once nothing new has come for `patience` seconds.

    It ends whatever its threads are at, as if it were killed: Ray ends the workers of a driver that is gone.
    """

    def __init__(self, attempt: str, look: Callable[[], Mapping[str, int]], patience: float) -> None:
        """Watch over an attempt.

        Args:
            attempt: what the last line of the program calls it.
            look: bytes of each file that the attempt has left. A file that is new, or of another size, is news.
            patience: seconds.
        """
        self._attempt = attempt
        self._look = look
        self._patience = patience
        self._pause = min(patience / _LOOKS, _LONGEST_PAUSE)
        self._news = time.monotonic()
        self._blind: Exception | None = None
        self._over = threading.Event()

    def __enter__(self) -> None:
        # Two threads: a look at a file system that hangs does not come back.
        for task in (self._watch, self._wait):
            threading.Thread(target=task, name="watchdog", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        known: set[tuple[str, int]] = set()
        while not self._over.is_set():
            try:
                found = set(self._look().items())
                self._blind = None
            except Exception as error:  # noqa: BLE001 (whatever it is, the next look may succeed)
                self._blind = error
            else:
                if found - known:
                    self._news = time.monotonic()
                known = found
            self._over.wait(self._pause)

    def _wait(self) -> None:
        while not self._over.wait(self._pause):
            if time.monotonic() - self._news >= self._patience:
                self._end()

    def _end(self) -> None:
        # Of its own, too: whoever holds the output does not keep the program.
        words = threading.Thread(target=self._say, daemon=True)
        words.start()
        words.join(_LAST_WORDS_SECONDS)
        os._exit(1)

    def _say(self) -> None:
        blind = f"; its folder cannot be read: {self._blind}" if self._blind else ""
        print(
            f"{self._attempt} stood still: no workers began and no checkpoint grew for {self._patience:g} s{blind}. "
            f"It counts as lost with its workers ({SIGN}): another attempt goes on",
            file=sys.stderr,
        )
        sys.stdout.flush()
        sys.stderr.flush()
