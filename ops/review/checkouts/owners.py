"""Write .github/CODEOWNERS from the table of files that people must read (`make owners`).

GitHub reads the file of the branch to merge into. It asks nobody for a team that it does not know.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config import available
from ops.review.checkouts.content import OWNERS, owner_of
from ops.review.checkouts.inputs import ENVIRONMENTS, own_folders

FILE: Final = ".github/CODEOWNERS"
PLACEHOLDER: Final = "@OWNER/PLATFORM-TEAM"
_TEAM: Final = re.compile(r"@[\w-]+/[\w.-]+")
_HEADER: Final = """\
# Written by `make owners TEAM=@OWNER/TEAM`, from the table in ops/review/checkouts/content.py: change it there.
# The last matching line counts; files of a line without a team have no owner.
"""


def text(checkout: Path, team: str) -> str:
    """Return CODEOWNERS of a checkout: the team owns what the table names, and scripts that environments name."""
    return _HEADER + "".join(f"{line}\n" for line in _lines(checkout, team))


def team(checkout: Path) -> str:
    """Return the team in the checkout's CODEOWNERS; the placeholder if there is none."""
    file = checkout / FILE
    found = re.search(rf"^\* +({_TEAM.pattern})$", file.read_text(), re.MULTILINE) if file.is_file() else None
    return found[1] if found else PLACEHOLDER


def note(checkout: Path) -> str:
    """Return a sentence if the checkout's CODEOWNERS still names the placeholder; else an empty text."""
    if not (checkout / FILE).is_file() or team(checkout) != PLACEHOLDER:
        return ""
    return f"{FILE} of the base names no real team, so GitHub asks no owner. Fix: run `make owners TEAM=@OWNER/TEAM`"


def _lines(checkout: Path, team: str) -> Iterator[str]:
    for pattern, content in OWNERS:
        yield f"{pattern} {team}" if content else pattern
    folders = {
        f"{folder.relative_to(checkout).as_posix()}/"
        for name in available(checkout / ENVIRONMENTS)
        for folder in own_folders(checkout, name)
    }
    yield from (f"/{folder} {team}" for folder in sorted(folders) if owner_of(folder) is None)


def main(checkout: Path, given: str) -> None:
    """Write the file for the given team, or again for the team that it names."""
    if given and not _TEAM.fullmatch(given):
        sys.exit(
            f"owners: TEAM: {given!r} is invalid. Allowed: @OWNER/TEAM, a team with write access to the repository"
        )
    file = checkout / FILE
    file.parent.mkdir(exist_ok=True)
    file.write_text(text(checkout, given or team(checkout)))
    if team(checkout) == PLACEHOLDER:
        print(f"owners: {FILE} names no real team. Fix: run `make owners TEAM=@OWNER/TEAM`", file=sys.stderr)


if __name__ == "__main__":
    main(Path.cwd(), sys.argv[1] if len(sys.argv) > 1 else "")
