"""Interrupt a rehearsal by signals, also where something ignores the exception."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

_SECONDS_UNTIL_AGAIN: Final = 0.5

_is_kept = False


def interrupt() -> NoReturn:
    """Raise KeyboardInterrupt. Call this in a signal's handler."""
    if _is_kept:
        signal.setitimer(signal.ITIMER_REAL, _SECONDS_UNTIL_AGAIN, _SECONDS_UNTIL_AGAIN)
    raise KeyboardInterrupt


def arrived() -> None:
    """Forget an interruption that was dealt with. Call this where work continues after one."""
    signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def never_lost() -> Iterator[None]:
    """Repeat an interruption until something deals with it. Call this in the main thread.

    Python ignores exceptions in a finalizer and in a hook of `os.fork`, C code wherever it clears them, and a library
    wherever it catches all: without this a rehearsal would continue as if nobody had interrupted it.
    """
    global _is_kept  # noqa: PLW0603
    previous_hook, previous_handler = sys.unraisablehook, signal.signal(signal.SIGALRM, _again)

    def repeated(ignored: "sys.UnraisableHookArgs") -> None:
        if not isinstance(ignored.exc_value, KeyboardInterrupt):
            previous_hook(ignored)

    sys.unraisablehook = repeated
    _is_kept = True
    try:
        yield
    finally:
        _is_kept = False
        arrived()
        signal.signal(signal.SIGALRM, previous_handler)
        sys.unraisablehook = previous_hook


def _again(_number: int, _frame: FrameType | None) -> None:
    # Of the frame that the timer interrupts: in an `except`, a `finally` or an `__exit__`, the exception's way out.
    error = sys.exception()
    while error:
        if isinstance(error, KeyboardInterrupt):
            return
        error = error.__context__
    raise KeyboardInterrupt
