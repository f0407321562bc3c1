"""Show commands in a pseudo-terminal and draw their output as SVG: docs/screens.py uses it for docs/pictures/.

`make picture` draws docs/rehearsal.svg, the end of a rehearsal, from its output.

Usage: python docs/terminal.py --rehearsal < OUTPUT
"""

import errno
import fcntl
import io
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

_DOCS: Final = Path(__file__).parent
_ROOT: Final = _DOCS.resolve().parent
REHEARSAL: Final = _DOCS / "rehearsal.svg"
PICTURES: Final = _DOCS / "pictures"
COLUMNS: Final = 100
_NO_ACCESS: Final = 2
_FIRST: Final = re.compile("✔ (?:cdk|ops) destroy")
_LAST: Final = "resources without an owner"
# The template of rich names fonts on a host of others; a page that shows the picture need not ask it.
_FONT_FACES: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_REDRAWN: Final = re.compile(r"\x1b\[\d*(?:;\d*)*[A-HJKST]")


def shown(
    argv: Sequence[str],
    columns: int = COLUMNS,
    *,
    directory: Path = _ROOT,
    variables: Mapping[str, str] = os.environ,
) -> str:
    """Run a command in a pseudo-terminal and return what it shows on standard output, with colours.

    Standard error, where progress is drawn, is no part of the picture.

    Raises ValueError if the command lacks access, or redraws what it has shown.
    """
    own = {"TERM": "xterm-256color", "NO_COLOR": ""}
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {key: value for key, value in variables.items() if key not in {"COLUMNS", "LINES", "OPS_ENV"}} | own
    with (
        tempfile.TemporaryFile("w+") as aside,
        subprocess.Popen(argv, cwd=directory, env=env, stdin=writing, stdout=writing, stderr=aside) as running,
    ):
        os.close(writing)
        output = _read(reading)
        running.wait()
        aside.seek(0)
        errors = aside.read().strip()
    if running.returncode == _NO_ACCESS:
        raise ValueError(f"`{shlex.join(argv)}` has no access: {errors}")
    if _REDRAWN.search(output):
        raise ValueError(f"`{shlex.join(argv)}` redraws its lines: no single screen shows its output")
    return output


def _read(terminal: int) -> str:
    """Return all that is written to the pseudo-terminal until no process has it open."""
    parts = []
    with open(terminal, "rb", buffering=0) as stream:
        while True:
            try:
                part = stream.read(65_536)
            except OSError as error:
                # Linux reports the end of a pseudo-terminal so.
                if error.errno == errno.EIO:
                    break
                raise
            if not part:
                break
            parts.append(part)
    return b"".join(parts).decode().replace("\r\n", "\n")


def draw(title: str, output: str, columns: int, name: str) -> str:
    """Return a terminal of this width, with the command and its output, as SVG."""
    text = Text.from_ansi(f"$ {title}\n{output.rstrip()}")
    for line in (lines := text.split("\n", allow_blank=True)):
        line.rstrip()
    console = Console(record=True, width=columns, file=io.StringIO())
    console.print(Text("\n").join(lines), overflow="fold")
    svg = console.export_svg(title=title, theme=MONOKAI, unique_id=name)
    return _FONT_FACES.sub("", svg)


def end(output: str) -> str:
    """Return the end of a rehearsal's output: from the destroyed environment to the last row of the verdict.

    Raises ValueError where the output is not that of a whole rehearsal.
    """
    lines = output.splitlines()
    firsts = [number for number, line in enumerate(lines) if _FIRST.search(line)]
    lasts = [number for number, line in enumerate(lines) if _LAST in line]
    if not firsts or not lasts or lasts[-1] < firsts[-1]:
        first = "'✔ ops destroy' or '✔ cdk destroy'"
        raise ValueError(f"no whole rehearsal: the output needs a line with {first} and, after it, {_LAST!r}")
    return "\n".join(lines[firsts[-1] : lasts[-1] + 1])


def draw_rehearsal(output: str) -> str:
    """Return the end of a rehearsal's output, with colours if it has some, as SVG."""
    shortened = f"…\n{end(output)}"
    columns = max(len(line) for line in Text.from_ansi(shortened).plain.splitlines())
    return draw("make rehearse", shortened, columns, "rehearsal")


if __name__ == "__main__":
    if sys.argv[1:] != ["--rehearsal"]:
        sys.exit(f"{__doc__}")
    REHEARSAL.write_text(draw_rehearsal(sys.stdin.read()))
