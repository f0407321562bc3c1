"""Judge a pull request in its workflow: `python -m ops.gate.pull_request HEAD DOWNLOADED REPORT`.

This checkout is the base. HEAD is a checkout of the changed state, read as data. DOWNLOADED is the folder of what
`ops.review.checkouts.handover` wrote in another job. The folder REPORT gets the review as a page and as a comment.
"""

import os
import sys
from pathlib import Path

from rich.console import Console

from ops import files
from ops.gate import gate
from ops.gate.approvals import ApprovalsError
from ops.gate.show import lines
from ops.review.checkouts.cdk import ReviewError
from ops.review.report import markdown, page, texts

_NO_VERDICT = """\
## What this changes

**Nobody knows yet: the gate stays closed.** If only newer rules can read this pull request, a maintainer decides.

{cause}
"""
_MOST_CHARACTERS = 20_000


def main(head: Path, downloaded: Path, report: Path) -> int:
    """Return the exit code: 0 if nothing lacks an approval, 1 if something does, 2 without a verdict."""
    report.mkdir(exist_ok=True)
    try:
        verdict, decision = gate.of_pull_request(head, downloaded, console=Console(stderr=True))
        comment = markdown.comment(verdict, os.environ.get("FULL_REPORT", ""))
        files.write(report / "review.html", page.page(verdict))
    except Exception as error:  # noqa: BLE001 - the head chose what is read: whatever it breaks, the gate stays closed
        known = isinstance(error, ApprovalsError | ReviewError)
        cause = str(error) if known else f"the rules of the base cannot read the head: {error!r}"
        files.write(report / "review.md", _NO_VERDICT.format(cause=texts.fenced(cause[:_MOST_CHARACTERS], "text")))
        _print(f"error: {cause}")
        return 2
    files.write(report / "review.md", comment)
    for line in lines(decision):
        _print(line)
    for finding in decision.errors:
        _print(f"error: {finding}")
    return 0 if decision.opens else 1


def _print(text: str) -> None:
    for line in text.split("\n"):
        print(texts.visible(line), flush=True)


if __name__ == "__main__":
    sys.exit(main(*(Path(argument).resolve() for argument in sys.argv[1:])))
