"""Draw the pictures of terminals in the documentation.

`make pictures` runs the commands of SCREENS in a pseudo-terminal and draws each as docs/pictures/NAME.svg. To add a
picture, add a line to SCREENS. A command that needs an account needs a kept rehearsal: `make rehearse KEEP=1`, then
paste the lines that it prints into the shell.

`make picture` draws docs/rehearsal.svg, the end of a rehearsal, from its output.

Usage: python docs/terminal.py [NAME]...
       python docs/terminal.py --rehearsal < OUTPUT
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
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

_DOCS: Final = Path(__file__).parent
_ROOT: Final = _DOCS.resolve().parent
REHEARSAL: Final = _DOCS / "rehearsal.svg"
PICTURES: Final = _DOCS / "pictures"
SCREENS: Final[Mapping[str, str]] = {
    "help": "ops --help",
    "check": "ops check --env dev",
    "explain": "ops explain V55",
}
"""The command of each picture."""
COLUMNS: Final = 100
_NO_ACCESS: Final = 2
_FIRST: Final = "✔ cdk destroy"
_LAST: Final = "resources without an owner"
# The template of rich names fonts on a host of others; a page that shows the picture need not ask it.
_FONT_FACES: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_REDRAWN: Final = re.compile(r"\x1b\[\d*(?:;\d*)*[A-HJKST]")


def path(name: str) -> Path:
    """Return the file of a picture of SCREENS."""
    return PICTURES / f"{name}.svg"


def shown(command: str, columns: int = COLUMNS) -> str:
    """Run a command in a pseudo-terminal and return what it shows, with colours.

    Raises ValueError if the command lacks access, or redraws what it has shown.
    """
    own = {"TERM": "xterm-256color", "NO_COLOR": ""}
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES", "OPS_ENV"}} | own
    with subprocess.Popen(
        shlex.split(command), cwd=_ROOT, env=env, stdin=writing, stdout=writing, stderr=writing
    ) as running:
        os.close(writing)
        output = _read(reading)
    if running.returncode == _NO_ACCESS:
        raise ValueError(f"`{command}` has no access: {Text.from_ansi(output).plain.strip()}")
    if _REDRAWN.search(output):
        raise ValueError(f"`{command}` redraws its lines: no single screen shows its output")
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
    """Return the end of a rehearsal's output: from its `cdk destroy --all` to the last row of the verdict.

    Raises ValueError where the output is not that of a whole rehearsal.
    """
    lines = output.splitlines()
    firsts = [number for number, line in enumerate(lines) if _FIRST in line]
    lasts = [number for number, line in enumerate(lines) if _LAST in line]
    if not firsts or not lasts or lasts[-1] < firsts[-1]:
        raise ValueError(f"no whole rehearsal: the output needs a line with {_FIRST!r} and, after it, {_LAST!r}")
    return "\n".join(lines[firsts[-1] : lasts[-1] + 1])


def draw_rehearsal(output: str) -> str:
    """Return the end of a rehearsal's output, with colours if it has some, as SVG."""
    shortened = f"…\n{end(output)}"
    columns = max(len(line) for line in Text.from_ansi(shortened).plain.splitlines())
    return draw("make rehearse", shortened, columns, "rehearsal")


def main(names: list[str]) -> int:
    """Draw these pictures, or all if `names` is empty; return 1 if one cannot be drawn."""
    if unknown := set(names) - SCREENS.keys():
        print(f"pictures {sorted(unknown)} are unknown. Allowed: {', '.join(SCREENS)}", file=sys.stderr)
        return 1
    PICTURES.mkdir(exist_ok=True)
    failed = 0
    for name in names or SCREENS:
        try:
            path(name).write_text(draw(SCREENS[name], shown(SCREENS[name]), COLUMNS, name))
            print(f"{path(name)} written")
        except ValueError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    if sys.argv[1:] == ["--rehearsal"]:
        REHEARSAL.write_text(draw_rehearsal(sys.stdin.read()))
    else:
        sys.exit(main(sys.argv[1:]))
