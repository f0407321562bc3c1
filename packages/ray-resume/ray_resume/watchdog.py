"""End an attempt that has stalled.

A collective waits, a file system hangs, or Ray 2.42.1 keeps waiting for actors that it will never start (those of a
driver whose raylet was lost). None of these reports an error; the only sign is that the run makes no progress.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

PATIENCE: Final = 3600.0
"""Seconds; more than the longest time between two checkpoints plus a restart, including a node's replacement."""

SIGN: Final = "ActorUnavailableError"
"""One of the names by which the job supervisor (controllers/job_decision.py) recognises an infrastructure failure."""

_LOOKS: Final = 20
_LONGEST_PAUSE: Final = 30.0
_LAST_WORDS_SECONDS: Final = 5.0


class Watchdog:
    """A block in which the program ends with exit code 1 after `patience` seconds without progress.

    The program ends whatever its threads do, as if it were killed; Ray ends the workers of a driver that is gone.
    """

    def __init__(self, attempt: str, look: Callable[[], Mapping[str, int]], patience: float) -> None:
        """Watch over an attempt.

        Args:
            attempt: the attempt's name in the program's last line.
            look: returns the size in bytes of each file that the attempt has written. A new file or size is progress.
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
        # Two threads, because a look at a hanging file system does not return.
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
        # In its own thread too, because a blocked output must not keep the program alive.
        words = threading.Thread(target=self._say, daemon=True)
        words.start()
        words.join(_LAST_WORDS_SECONDS)
        os._exit(1)

    def _say(self) -> None:
        blind = f"; its folder cannot be read: {self._blind}" if self._blind else ""
        print(
            f"{self._attempt} stalled: no workers began and no checkpoint grew for {self._patience:g} s{blind}. "
            f"It counts as lost with its workers ({SIGN}): another attempt resumes",
            file=sys.stderr,
        )
        sys.stdout.flush()
        sys.stderr.flush()
