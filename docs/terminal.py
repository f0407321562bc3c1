"""Draw docs/rehearsal.svg, the end of a rehearsal in a terminal, from its saved output: `make picture`.

Usage: python docs/terminal.py < OUTPUT
"""

import io
import re
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

FILE: Final = Path(__file__).with_name("rehearsal.svg")
_FIRST: Final = "✔ cdk destroy"
_LAST: Final = "resources without an owner"
# The template of rich names fonts on a host of others; a page that shows the picture need not ask it.
_FONT_FACES: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


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


def draw(output: str) -> str:
    """Return the end of a rehearsal's output, with colours if it has some, as SVG."""
    text = Text.from_ansi("$ make rehearse\n…\n" + end(output))
    console = Console(record=True, width=max(len(line) for line in text.plain.splitlines()), file=io.StringIO())
    console.print(text, soft_wrap=True)
    svg = console.export_svg(title="make rehearse", theme=MONOKAI, unique_id="rehearsal")
    return _FONT_FACES.sub("", svg)


if __name__ == "__main__":
    FILE.write_text(draw(sys.stdin.read()))
