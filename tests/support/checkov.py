"""Run checkov from its own environment (`make setup-policies`): its packages conflict with the project's."""

import json
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest

from rehearsal.paths import REPOSITORY

Finding = dict[str, Any]

PROGRAM = REPOSITORY / ".venv-policies" / "bin" / "checkov"


def check(directory: Path, framework: Literal["kubernetes", "cloudformation"]) -> dict[str, list[Finding]]:
    """Return checkov's findings for the files in a folder, by `failed_checks`, `skipped_checks` and `passed_checks`.

    checkov sends nothing: its proxies are unreachable, and it gets no API key.
    """
    if not PROGRAM.exists():
        pytest.skip("checkov is not installed: `make setup-policies`")
    nowhere = "http://127.0.0.1:9"
    home = directory.parent / "home"
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "HTTPS_PROXY": nowhere, "HTTP_PROXY": nowhere}
    options = [f"--framework={framework}", "--output=json", "--skip-download", "--compact", "--soft-fail"]
    done = subprocess.run(
        [PROGRAM, f"--directory={directory}", *options], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["parsing_errors"] == 0, report["results"]["parsing_errors"]
    assert report["check_type"] == framework
    results: dict[str, list[Finding]] = report["results"]
    return results


def places(findings: list[Finding], part: str) -> set[tuple[str, str, str]]:
    """Return (file, object or resource, policy) of each finding in the top folder `part`."""
    found = ((finding["file_path"].split("/", 2)[1:], finding) for finding in findings)
    return {(file, finding["resource"], finding["check_id"]) for (top, file), finding in found if top == part}
