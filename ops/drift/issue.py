"""Keep one open GitHub issue per environment while it drifts: `python -m ops.drift.issue FILE`.

FILE is the output of `ops drift -o json`. It uses GitHub's command line (`gh`), which runners have.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_LABEL: Final = "drift"
_MOST_CHARACTERS: Final = 60_000
"""GitHub refuses a text of more than 65,536."""


def update(report: Mapping[str, Any]) -> None:
    """Open or update the environment's issue if something drifts, close it otherwise."""
    title = f"Drift in {report['environment']}"
    listed = json.loads(
        _gh("issue", "list", "--state", "open", "--label", _LABEL, "--limit", "1000", "--json", "number,title")
    )
    number = min((str(issue["number"]) for issue in listed if issue["title"] == title), default=None)
    if report["drift"]:
        text = body(report)
        if number:
            _gh("issue", "edit", number, "--body-file", "-", text=text)
            return
        _gh("label", "create", _LABEL, "--force", "--description", "What runs differs from what was deployed")
        _gh("issue", "create", "--title", title, "--label", _LABEL, "--body-file", "-", text=text)
    elif number:
        _gh("issue", "close", number, "--comment", "No drift is left.")


def body(report: Mapping[str, Any]) -> str:
    """Return the issue's text: the drift as code, because its names and values come from the account."""
    lines = "\n".join(f"{each['kind']} {each['name']}: {each['detail']}" for each in report["drift"])
    shown = lines.replace("~", "-")[:_MOST_CHARACTERS]
    return (
        f"What runs in {report['environment']} differs from what was deployed. Deploy again, or make the change in its "
        f"file.\n\n~~~~text\n{shown}\n~~~~\n"
    )


def _gh(*arguments: str, text: str | None = None) -> str:
    program = shutil.which("gh")
    if program is None:
        sys.exit("gh is not installed. Fix: install GitHub's command line")
    return subprocess.run([program, *arguments], input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    update(json.loads(Path(sys.argv[1]).read_text()))
