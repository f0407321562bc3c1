"""Interruptions of a rehearsal by signals: none is lost where Python ignores exceptions."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

_SECONDS_UNTIL_AGAIN: Final = 0.1

_last = signal.SIGINT


def interrupt(number: int) -> NoReturn:
    """Raise KeyboardInterrupt for a signal that has arrived. To be called in its handler."""
    global _last  # noqa: PLW0603
    _last = signal.Signals(number)
    raise KeyboardInterrupt


@contextmanager
def never_lost() -> Iterator[None]:
    """Send a signal again whose KeyboardInterrupt was ignored. To be called in the main thread.

    Python ignores what is raised in a finalizer or in a hook of `os.fork`, and a rehearsal forks for each program that
    it starts: the rehearsal would go on as if nobody had interrupted it.
    """
    previous = sys.unraisablehook
    main = threading.main_thread().ident

    def again(ignored: "sys.UnraisableHookArgs") -> None:
        if isinstance(ignored.exc_value, KeyboardInterrupt) and main:
            # Not from here: the handler would raise within the hook, which is ignored, too.
            threading.Timer(_SECONDS_UNTIL_AGAIN, signal.pthread_kill, (main, _last)).start()
        else:
            previous(ignored)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = previous
