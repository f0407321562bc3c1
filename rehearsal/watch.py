"""End a run at once when one of its programs ends, with that program's log as the reason."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from embedded_account.machine.processes import ProgramEndedError
from rehearsal.interruption import arrived, interrupt

_SETTLING_SECONDS: Final = 2.0
"""A command that fails because a program has ended may fail before that end is noticed."""


class Watch:
    """Notices programs that ended, from any thread, and interrupts the main thread's work."""

    def __init__(self) -> None:
        self._main = threading.main_thread()
        self._lock = threading.Lock()
        self._noticed = threading.Event()
        self._failure: ProgramEndedError | None = None
        self._is_interrupting = False

    def failed(self, failure: ProgramEndedError) -> None:
        """Interrupt the work with this failure; of several failures, the first one counts."""
        with self._lock:
            is_first = self._failure is None
            self._failure = self._failure or failure
            self._noticed.set()
            if is_first and self._is_interrupting and self._main.ident:
                # The signal wakes the main thread from any wait.
                signal.pthread_kill(self._main.ident, signal.SIGUSR1)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Let a program's end interrupt the work inside. Call this in the main thread.

        Raises ProgramEndedError, also in place of an error that only follows from the program's end.
        """
        previous = signal.signal(signal.SIGUSR1, self._interrupt)
        self._is_interrupting = True
        try:
            self._raise_failure()
            try:
                yield
            except Exception:
                self._noticed.wait(_SETTLING_SECONDS)
                raise
            self._raise_failure()
        except BaseException:
            self._raise_failure()
            raise
        finally:
            with self._lock:
                self._is_interrupting = False
            signal.signal(signal.SIGUSR1, previous)

    def _raise_failure(self) -> None:
        if self._failure:
            arrived()
            raise self._failure from None

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_interrupting:
            interrupt()
