"""The pages of the documentation, their commands and their anchors."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.rehearsal.run.readme import shell_lines
from tests.support.users_files import ENVIRONMENTS, MANIFESTS

REPOSITORY = Path(__file__).parents[3]
README = (REPOSITORY / "README.md").read_text()
GUIDE = (REPOSITORY / "CONTRIBUTING.md").read_text()
UNVERIFIED = (REPOSITORY / "docs" / "unverified-on-aws.md").read_text()
ADRS = sorted((REPOSITORY / "docs" / "adr").glob("*.md"))


@cache
def tracked() -> list[Path]:
    """Return the repository's files, including untracked ones that git does not ignore."""
    listing = ["git", "-C", str(REPOSITORY), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.splitlines()
    return [REPOSITORY / name for name in names if (REPOSITORY / name).is_file()]


def own(path: Path) -> bool:
    """Return whether a file belongs to the project; the user's files may contain anything."""
    return not path.is_relative_to(ENVIRONMENTS) and not path.is_relative_to(MANIFESTS)


PAGES = [path for path in tracked() if path.suffix == ".md"]


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def code(text: str) -> Iterator[str]:
    """Return each command of shell blocks and each inline code of a Markdown text."""
    yield from shell_lines(text)
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def commands(program: str, *pages: Path) -> list[str]:
    """Return the calls of a program in these pages."""
    found = {snippet for page in pages for snippet in code(page.read_text()) if snippet.startswith(f"{program} ")}
    return sorted(found)


def section(title: str) -> str:
    """Return the text of a section of the README."""
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
