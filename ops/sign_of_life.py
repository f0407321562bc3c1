"""Print a line to standard error whenever a command was silent for long, in a terminal or piped.

A command polls AWS and Kubernetes, runs programs and hashes files; a person who sees nothing takes it for stuck. One
thread watches all of that, so a new wait needs no code of its own.
"""

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

SILENCE_SECONDS: Final = 9.0
"""The longest silence: with the time between two checks, a line comes within ten seconds."""
CHECK_SECONDS: Final = 0.5
LINE: Final = re.compile(r"ops: still waiting, [0-9]+:[0-9]{2} so far\n")
"""A sign of life: what reads standard output and standard error together leaves it out."""


class Silence:
    """How long a command has printed nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = self._last = clock()
        self._wanted = 0

    def heard(self) -> None:
        """Note that the command has printed something."""
        self._last = self._clock()

    def line(self) -> str:
        """Return what to print now, or an empty text."""
        now = self._clock()
        if self._wanted or now - self._last < SILENCE_SECONDS:
            return ""
        self._last = now
        seconds = int(now - self._started)
        return f"ops: still waiting, {seconds // 60}:{seconds % 60:02} so far\n"

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Take silence for normal: a person is asked, or what a command follows has nothing new."""
        self._wanted += 1
        try:
            yield
        finally:
            self._wanted -= 1
            self.heard()


SILENCE: Final = Silence()
"""The silence of this process."""


def watch(silence: Silence = SILENCE) -> None:
    """Begin to print signs of life, until the process ends."""
    silence.heard()
    for stream in (sys.stdout, sys.stderr):
        _listen(stream, silence)
    threading.Thread(target=_print_signs, args=(silence,), name="sign of life", daemon=True).start()


def _listen(stream: Any, silence: Silence) -> None:
    if stream is None:
        return
    write = stream.write

    def heard(text: str) -> int:
        silence.heard()
        written: int = write(text)
        return written

    stream.write = heard


def _print_signs(silence: Silence) -> None:
    while True:
        time.sleep(CHECK_SECONDS)
        if line := silence.line():
            try:
                sys.stderr.write(line)
                sys.stderr.flush()
            except (OSError, ValueError):
                # Nobody reads it any more.
                return
