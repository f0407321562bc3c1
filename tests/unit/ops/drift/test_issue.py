"""The issue that drift opens: one for each environment, until the drift is gone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rehearsal.paths import REPOSITORY

GH = """#!{python}
import json, os, sys
from pathlib import Path
file = Path(os.environ["ISSUES"])
issues = json.loads(file.read_text())
command, arguments = sys.argv[1:3], sys.argv[3:]
def option(name):
    return arguments[arguments.index(name) + 1]
match command:
    case ["issue", "list"]:
        print(json.dumps([issue for issue in issues if issue["open"] and option("--label") in issue["labels"]]))
    case ["issue", "create"]:
        body = sys.stdin.read()
        issue = {{"title": option("--title"), "labels": [option("--label")], "body": body, "open": True}}
        issues.append(issue | {{"number": len(issues) + 1}})
    case ["issue", "edit"]:
        issues[int(arguments[0]) - 1]["body"] = sys.stdin.read()
    case ["issue", "close"]:
        issues[int(arguments[0]) - 1]["open"] = False
    case ["label", "create"]:
        assert "--force" in arguments, "GitHub refuses a label that exists"
    case other:
        sys.exit(f"gh: {{other}} is unknown")
file.write_text(json.dumps(issues))
"""
"""GitHub's command line, with the issues in a file."""


class Issues:
    """The issues of a repository, and the module that keeps the one of an environment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "issues.json"
        self.file.write_text("[]")
        program = directory / "gh"
        program.write_text(GH.format(python=sys.executable))
        program.chmod(0o755)

    def report(self, environment: str, *details: str) -> list[tuple[str, bool]]:
        """Run the module with this drift; return the title of every issue, and whether it is open."""
        drift = [{"kind": "Helm release", "name": "a/b", "detail": detail} for detail in details]
        (self.directory / "drift.json").write_text(json.dumps({"environment": environment, "drift": drift}))
        env = os.environ | {"PATH": f"{self.directory}:{os.environ['PATH']}", "ISSUES": str(self.file)}
        argv = [sys.executable, "-m", "ops.drift.issue", str(self.directory / "drift.json")]
        subprocess.run(argv, env=env, cwd=REPOSITORY, check=True)
        return [(issue["title"], issue["open"]) for issue in self.all()]

    def all(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.file.read_text())
        return found


def test_drift_has_one_issue_for_each_environment_until_it_is_gone(tmp_path: Path) -> None:
    issues = Issues(tmp_path)
    assert issues.report("dev") == [], "no drift, no issue"
    assert issues.report("dev", "first") == [("Drift in dev", True)]
    assert issues.report("dev", "second") == [("Drift in dev", True)], "updated, not opened again"
    assert "second" in issues.all()[0]["body"]
    assert issues.report("prod", "third") == [("Drift in dev", True), ("Drift in prod", True)]
    assert issues.report("dev") == [("Drift in dev", False), ("Drift in prod", True)]
    assert issues.report("dev", "again")[-1] == ("Drift in dev", True)


def test_what_the_account_says_stays_code_in_the_issue(tmp_path: Path) -> None:
    issues = Issues(tmp_path)
    issues.report("dev", "~~~~\n@everyone [link](x)", "x" * 70_000)
    [issue] = issues.all()
    assert len(issue["body"]) < 65_536
    assert issue["body"].count("~~~~") == 2, "the text can end no fence"
