"""A person at a terminal: types a command, answers its questions, reads what it says."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

# Not only at the end: with `| cat`, what was written before a question may be shown after it.
_QUESTION = re.compile(r"[^\n]*(?:\(y/n\)|\[y/N\]|\(Enter: [^\n]*\))")
_LAST: Final = 2000
"""Bytes at the end of the output that are searched: the whole grows with each frame of a spinner."""
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_CTRL_C: Final = b"\x03"
_ROWS_AND_COLUMNS = struct.pack("HHHH", 50, 200, 0, 0)


class Typed(NamedTuple):
    """What came of a line that was typed."""

    code: int
    shown: str
    """Without colours."""
    silence: float
    """Longest time without output, in seconds, the ends included."""


def at_a_terminal(
    command: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    answers: Mapping[str, str] | None = None,
    until: str | None = None,
) -> Typed:
    """Run a line of bash as a person would.

    `answers` maps a word of a question to its answer; all other questions are answered with y. Ctrl-C is pressed once
    `until`, a regular expression, is shown.
    """
    screen, keyboard = pty.openpty()
    fcntl.ioctl(keyboard, termios.TIOCSWINSZ, _ROWS_AND_COLUMNS)
    # Whoever runs the tests in the background lets them ignore SIGINT.
    argv = ["/usr/bin/env", "--default-signal=INT", "bash", "-c", command]
    with subprocess.Popen(
        argv,
        cwd=cwd,
        env={"TERM": "xterm", **env},
        stdin=keyboard,
        stdout=keyboard,
        stderr=keyboard,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one system call
    ) as process:
        os.close(keyboard)
        shown, answered, interrupted = b"", 0, False
        silence, heard = 0.0, time.monotonic()
        try:
            for shown in _screens(screen):
                silence, heard = max(silence, time.monotonic() - heard), time.monotonic()
                last = _text(shown[max(answered, len(shown) - _LAST) :])
                if asked := _QUESTION.search(last):
                    answered = len(shown)
                    said = (answer for word, answer in (answers or {}).items() if word in asked[0])
                    os.write(screen, f"{next(said, 'y')}\n".encode())
                if until and not interrupted and re.search(until, last, re.MULTILINE):
                    interrupted = True
                    os.write(screen, _CTRL_C)
        except BaseException:
            process.terminate()
            raise
        finally:
            os.close(screen)
    return Typed(process.returncode, _text(shown), max(silence, time.monotonic() - heard))


def _text(shown: bytes) -> str:
    return _STYLE.sub("", shown.decode(errors="replace"))


def _screens(screen: int) -> Iterator[bytes]:
    """All that was shown so far, each time there is more; ends with the last process that can write."""
    shown = b""
    with contextlib.suppress(OSError):  # Linux's end of a terminal
        while chunk := os.read(screen, 65536):
            shown += chunk
            yield shown
