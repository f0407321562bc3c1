"""Keep the ends of log streams in bounded memory."""

import re
from collections import deque
from typing import Final

LINES: Final = 2000
"""Lines that are kept of each container or stream."""

_STREAM: Final = re.compile(r"\[([^\]]+)\]")


class Tails:
    """Keeps the last lines of each stream; a line has its name in brackets near the start."""

    def __init__(self, lines: int = LINES) -> None:
        self._lines = lines
        self._kept: dict[str, deque[str]] = {}
        self._left_out = 0

    def say(self, line: str) -> None:
        """Take a line."""
        found = _STREAM.search(line)
        kept = self._kept.setdefault(found[1] if found else "", deque(maxlen=self._lines))
        self._left_out += len(kept) == self._lines
        kept.append(line)

    def text(self) -> str:
        """Return the lines by stream."""
        first = [f"{self._left_out} earlier lines left out"] if self._left_out else []
        return "\n".join([*first, *(line for kept in self._kept.values() for line in kept)])
