"""Find rights that a rehearsal no longer needs, although the page says that every rehearsal does."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rehearsal.rights import recorded
from rehearsal.rights.page import PAGE, of_a_stack, shown
from rehearsal.rights.replay import replay

_ROW: Final = re.compile(r"^\| (?P<owner>[^|]+) \| \d+ \| .* \|$", re.MULTILINE)
_ALWAYS: Final = re.compile(r"\*\*`([^`]+)`\*\*")
_KNOWN: Final = re.compile(r"`([^`]+)`")
_WHOLE_SERVICE: Final = re.compile(r"(\w+:)?\*")


def surplus(journals: Iterable[Path]) -> list[str]:
    """Return the rights of stacks' roles that the account gives without need, one sentence each.

    Such a right is in bold on the page, but the recorded decisions are the same without it: another statement gives it
    too, or nobody evaluates the role any more. So is a grant of a whole service that the page does not have.
    """
    rows = {row["owner"]: row[0] for row in _ROW.finditer(PAGE.read_text(encoding="utf-8"))}
    always = {(owner, name) for owner, row in rows.items() for name in _ALWAYS.findall(row)}
    known = {(owner, name) for owner, row in rows.items() for name in _KNOWN.findall(row)}
    found: dict[tuple[str, str], bool] = {}
    for right, is_needed in replay(recorded.read(journals)).items():
        if of_a_stack(right):
            key = (right.owner, shown(right))
            found[key] = found.get(key, False) or is_needed
    if not found:
        return ["no decision about a stack's role is recorded"]
    lost = (key for key in sorted(found) if key in always and not found[key])
    wide = (key for key in sorted(found.keys() - known) if _WHOLE_SERVICE.fullmatch(key[1]))
    return [
        *(f"{owner}: nothing is refused without {name}" for owner, name in lost),
        *(f"{owner}: {name} gives a whole service" for owner, name in wide),
    ]
