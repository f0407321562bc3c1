"""End an attempt that has stalled, and say what an attempt waits for.

A collective waits, a file system hangs, or Ray 2.42.1 keeps waiting for actors that it will never start (those of a
driver whose raylet was lost). None of these reports an error; the only sign is that the run makes no progress.

An attempt whose workers have no resources has not stalled: it may wait behind another job, or for a node's replacement
with hours of deep health checks. The time in which Ray says so does not count.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

PATIENCE: Final = 3600.0
"""Seconds; more than the longest step, evaluation or start of the workers, once they have their resources."""

SIGN: Final = "ActorUnavailableError"
"""One of the names by which the job supervisor (controllers/job_decision.py) recognises an infrastructure failure."""

_POLLS: Final = 20
_LONGEST_PAUSE_SECONDS: Final = 30.0
_LONGEST_PAUSE_FOR_RESOURCES_SECONDS: Final = 5.0
_LAST_WORDS_SECONDS: Final = 5.0


class Watchdog:
    """A block in which the program ends with exit code 1 after `patience` seconds without progress.

    The program ends whatever its threads do, as if it were killed; Ray ends the workers of a driver that is gone.
    """

    def __init__(
        self,
        attempt: str,
        observe: Callable[[], Mapping[str, int]],
        patience: float,
        *,
        steps: Callable[[], Mapping[str, int]] = dict,
        missing: Callable[[], str] = str,
    ) -> None:
        """Watch over an attempt.

        Args:
            attempt: the attempt's name in the program's lines.
            look: returns the size in bytes of each file that the attempt has written. A new file or size is progress.
            patience: seconds.
            steps: returns the newest step of each group of workers. A new step is progress.
            missing: returns the resources that the workers wait for; empty if they have them.
        """
        self._attempt = attempt
        self._observed = {"folder": observe, "steps": steps}
        self._missing = missing
        self._patience = patience
        self._pause = min(patience / _POLLS, _LONGEST_PAUSE_SECONDS)
        self._news = time.monotonic()
        self._unread: dict[str, Exception] = {}
        self._over = threading.Event()

    def __enter__(self) -> None:
        # Each in a thread of its own, because a look at a hanging file system does not return.
        tasks: list[Callable[[], None]] = [partial(self._watch, name) for name in self._observed]
        for task in (*tasks, self._watch_resources, self._wait):
            threading.Thread(target=task, name="watchdog", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self, name: str) -> None:
        known: set[tuple[str, int]] = set()
        while not self._over.is_set():
            try:
                found = set(self._observed[name]().items())
                self._unread.pop(name, None)
            except Exception as error:  # noqa: BLE001 (whatever it is, the next look may succeed)
                self._unread[name] = error
            else:
                if found - known:
                    self._news = time.monotonic()
                known = found
            self._over.wait(self._pause)

    def _watch_resources(self) -> None:
        """Take the time without resources as progress, and print what is missing when that changes.

        Every start takes a moment: only what is missing at two looks in a row is printed.
        """
        reported = before = ""
        since = 0.0
        while not self._over.is_set():
            missing = ""
            with contextlib.suppress(Exception):
                missing = self._missing()
            now = time.monotonic()
            if missing:
                self._news = now
            if missing == before and missing != reported:
                since = since if reported else now
                state = f"waits for resources: {missing}" if missing else f"has its resources after {now - since:.0f} s"
                print(f"{self._attempt} {state}", flush=True)
                reported = missing
            before = missing
            self._over.wait(min(self._pause, _LONGEST_PAUSE_FOR_RESOURCES_SECONDS))

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
        unread = "".join(f"; its {name} cannot be read: {error}" for name, error in self._unread.items())
        print(
            f"{self._attempt} stalled: no workers began, took a step or wrote a part of a checkpoint for "
            f"{self._patience:g} s{unread}. It counts as lost with its workers ({SIGN}): another attempt resumes",
            file=sys.stderr,
        )
        sys.stdout.flush()
        sys.stderr.flush()
