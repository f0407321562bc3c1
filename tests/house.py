"""Show what has grown: the longest pages, decision records and code files, the fullest folders (`make house`).

No number here fails a build: whoever reads the list judges what needs a cut or a room of its own.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.tiers import REPOSITORY

_SHOWN = 5


def main() -> None:
    """Print the largest of each kind."""
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]
    pages += [path for room in ("operate", "explain") for path in (REPOSITORY / "docs" / room).glob("*.md")]
    records = (REPOSITORY / "docs" / "adr").glob("*.md")
    files = code()
    _show("words in a page", {_name(page): words(page.read_text()) for page in pages})
    _show("lines of a decision record", {_name(record): _lines(record) for record in records})
    _show("files of code in a folder", Counter(str(path.parent) for path in files if path.name != "__init__.py"))
    _show("lines of a code file", {str(path): _lines(REPOSITORY / path) for path in files})


def code() -> list[Path]:
    """Return the product's and the packages' Python files, relative to the repository."""
    argv = ["git", "ls-files", "-z", "*.py"]
    listed = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    paths = [Path(name) for name in listed.stdout.split("\0") if name]
    apart = ("tests", "docs", ".ci")
    return [path for path in paths if path.parts[0] not in apart and path.parts[2:3] != ("tests",)]


def words(text: str) -> int:
    """Count the words of a text without its code blocks and tables."""
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return sum(len(line.split()) for line in prose.splitlines() if not line.lstrip().startswith("|"))


def _show(what: str, sizes: Mapping[str, int]) -> None:
    print(what)
    for name, size in Counter(sizes).most_common(_SHOWN):
        print(f"{size:7,} {name}")


def _name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


if __name__ == "__main__":
    main()
