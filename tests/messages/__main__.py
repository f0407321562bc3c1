"""`python -m tests.messages`: exit with 1 and name each error message that does not have the form."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.messages import exemptions
from tests.messages.findings import malformed_findings
from tests.messages.form import malformed, malformed_parts, unknown_classes
from tests.messages.texts import Project, Source

_REPOSITORY: Final = Path(__file__).parents[2]
_SAYING: Final = (
    "app.py",
    "config/*.py",
    "k8s_charts/*.py",
    "ops/*.py",
    "packages/embedded-account/embedded_account/*.py",
    "rehearsal/*.py",
    "stacks/*.py",
)


def sources() -> list[Source]:
    """Return the Python files whose messages a person can see."""
    listing = ["git", "-C", str(_REPOSITORY), "ls-files", *_SAYING]
    listed = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.splitlines()
    return [Source(Path(each), (_REPOSITORY / each).read_text()) for each in listed if (_REPOSITORY / each).exists()]


def project(files: list[Source]) -> Project:
    """Return the files as one project, with the exception classes left out that reach nobody."""
    folders = tuple(exemptions.UNSEEN_FOLDERS)
    own = {name for each in files if str(each.file).startswith(folders) for name in each.error_classes}
    return Project(files, frozenset(own | set(exemptions.UNSEEN_CLASSES)))


def main() -> int:
    """Print what is wrong; return the exit status."""
    files = sources()
    whole = project(files)
    known = {name for each in files for name in each.error_classes}
    wrong = [
        *malformed(whole.messages(), exemptions.MESSAGES),
        *malformed_parts(whole.parts_of_findings()),
        *unknown_classes(known, exemptions.UNSEEN_CLASSES),
        *malformed_findings(),
    ]
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
