"""Interrupt a rehearsal by signals, also where Python ignores exceptions."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

_SECONDS_UNTIL_AGAIN: Final = 0.1

_last = signal.SIGINT


def interrupt(number: int) -> NoReturn:
    """Raise KeyboardInterrupt for a signal. Call this in the signal's handler."""
    global _last  # noqa: PLW0603
    _last = signal.Signals(number)
    raise KeyboardInterrupt


@contextmanager
def never_lost() -> Iterator[None]:
    """Send a signal again if its KeyboardInterrupt was ignored. Call this in the main thread.

    Python ignores exceptions in a finalizer or in a hook of `os.fork`, and a rehearsal forks for each program that it
    starts: without this it would continue as if nobody had interrupted it.
    """
    previous = sys.unraisablehook
    main = threading.main_thread().ident

    def again(ignored: "sys.UnraisableHookArgs") -> None:
        if isinstance(ignored.exc_value, KeyboardInterrupt) and main:
            # Not from here: the handler would raise inside the hook, and Python would ignore that, too.
            threading.Timer(_SECONDS_UNTIL_AGAIN, signal.pthread_kill, (main, _last)).start()
        else:
            previous(ignored)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = previous
