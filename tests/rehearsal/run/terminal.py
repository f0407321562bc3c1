"""A person at a terminal: types a command, answers its questions, reads what it says."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path

_QUESTION = re.compile(rb".*?(?:\(y/n\)|\[y/N\]|\(Enter: .*?\):)")
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_ROWS_AND_COLUMNS = struct.pack("HHHH", 50, 200, 0, 0)


def at_a_terminal(
    command: str, *, cwd: Path, env: Mapping[str, str], answers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a line of bash as a person would; return its exit code and what it showed, without colours.

    `answers` maps a word of a question to its answer; all other questions are answered with y.
    """
    screen, keyboard = pty.openpty()
    fcntl.ioctl(keyboard, termios.TIOCSWINSZ, _ROWS_AND_COLUMNS)
    argv = ["bash", "-c", command]
    with subprocess.Popen(
        argv,
        cwd=cwd,
        env={"TERM": "xterm", **env},
        stdin=keyboard,
        stdout=keyboard,
        stderr=keyboard,
        start_new_session=True,
    ) as process:
        os.close(keyboard)
        shown, answered = b"", 0
        try:
            for shown in _screens(screen):
                if len(asked := _QUESTION.findall(shown)) > answered:
                    answered = len(asked)
                    said = (answer for word, answer in (answers or {}).items() if word in asked[-1].decode())
                    os.write(screen, f"{next(said, 'y')}\n".encode())
        except BaseException:
            process.terminate()
            raise
        finally:
            os.close(screen)
    return process.returncode, _STYLE.sub("", shown.decode(errors="replace"))


def _screens(screen: int) -> Iterator[bytes]:
    """All that was shown so far, each time there is more; ends with the last process that can write."""
    shown = b""
    with contextlib.suppress(OSError):  # Linux's end of a terminal
        while chunk := os.read(screen, 65536):
            shown += chunk
            yield shown
