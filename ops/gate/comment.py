"""Keep one comment of the review on a pull request: `python -m ops.gate.comment FILE`.

It uses GitHub's command line (`gh`), which runners have, and the variables GITHUB_REPOSITORY, PULL_REQUEST and COMMIT.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

_MARK: Final = "<!-- ops review -->\n"
_AUTHOR: Final = "github-actions[bot]"
"""GitHub's name of a workflow's token: nobody else can write under it."""
_NO_VERDICT: Final = "**The review ended without a verdict: the gate stays closed.** See the log of the job `gate`.\n"


def update(text: str) -> None:
    """Write the comment, or replace the text of the one that an earlier run wrote."""
    place = f"repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    comments = f"{place}/{int(os.environ['PULL_REQUEST'])}/comments"
    pages = json.loads(_gh("--paginate", "--slurp", f"{comments}?per_page=100"))
    own = next((each["id"] for page in pages for each in page if _is_own(each)), None)
    body = f"{_MARK}{text}\n_Reviewed commit: {os.environ['COMMIT']}_\n"
    method, address = ("POST", comments) if own is None else ("PATCH", f"{place}/comments/{own}")
    _gh("--method", method, address, "--input", "-", text=json.dumps({"body": body}))


def _is_own(comment: Any) -> bool:
    author = comment["user"] or {}
    return author.get("login") == _AUTHOR and author.get("type") == "Bot" and comment["body"].startswith(_MARK)


def _gh(*arguments: str, text: str | None = None) -> str:
    program = shutil.which("gh")
    if program is None:
        sys.exit("gh is not installed. Fix: install GitHub's command line")
    return subprocess.run(
        [program, "api", *arguments], input=text, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


if __name__ == "__main__":
    file = Path(sys.argv[1])
    update(file.read_text() if file.is_file() else _NO_VERDICT)
