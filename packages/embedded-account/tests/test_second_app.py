"""Test an app from outside this repository: deployed, inspected and destroyed as the README shows."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from embedded_account.machine.processes import living

PACKAGE: Final = Path(__file__).parents[1]
APP: Final = Path(__file__).with_name("app")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """Return the app in a project of its own."""
    return shutil.copytree(APP, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))


def test_the_readme_shows_the_program_that_rehearses_the_app() -> None:
    shown = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    assert (APP / "rehearse.py").read_text() in shown


def test_an_app_with_a_cluster_is_deployed_and_destroyed_without_a_trace(
    app: Path, environment: Mapping[str, str]
) -> None:
    argv = [sys.executable, "rehearse.py"]
    done = subprocess.run(argv, cwd=app, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # The stack's output, and an object of its Helm release, both contain the custom resource's response.
    assert "greeter.Answer = Hello, greeter!" in done.stdout + done.stderr
    assert "greeting: Hello, greeter!" in done.stdout
    assert "readyReplicas: 1" in done.stdout
    left = [line.split() for line in done.stdout.splitlines() if line.startswith("left: ")]
    assert {"bootstrap", "background"} == {owner.partition(":")[0] for _, owner, *_ in left}
    # As on AWS, the functions' log groups remain: Lambda created them, CDK did not declare them.
    assert {kind for _, owner, kind, _ in left if owner != "bootstrap"} == {"AWS::Logs::LogGroup"}
    assert living(app / ".embedded-account") == {}
