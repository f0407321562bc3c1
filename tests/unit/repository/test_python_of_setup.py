"""Set-up takes the first Python of PATH that can run the project, unless another one is faster."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rehearsal.paths import REPOSITORY

SCRIPT = REPOSITORY / "requirements" / "python.sh"
Chosen = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def chosen(tmp_path: Path) -> Chosen:
    """Return a function that runs the script; its PATH has no Python but those of the folders."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("grep", "realpath"):
        (tools / tool).symlink_to(str(shutil.which(tool)))

    def choose(*folders: Path, python: str = "") -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.pathsep.join(map(str, [*folders, tools])), "PYTHON": python}
        return subprocess.run(["/bin/bash", SCRIPT], env=env, capture_output=True, text=True, check=False)

    return choose


def stub(folder: Path, name: str, micros: int | None) -> Path:
    """Write a Python that takes so many microseconds, or is too old."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text("#!/bin/sh\n" + ("exit 1\n" if micros is None else f"echo {micros}\n"))
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("other", [41_000, 40_000, 36_000])
def test_first_of_path_is_taken_if_no_other_is_a_tenth_faster(tmp_path: Path, chosen: Chosen, other: int) -> None:
    first, second = stub(tmp_path / "a", "python3.11", 40_000), stub(tmp_path / "b", "python3", other)
    assert chosen(first.parent, second.parent).stdout == f"{first}\n"


def test_fastest_is_taken_and_a_link_to_it_is_not_asked_again(tmp_path: Path, chosen: Chosen) -> None:
    slow, fast = stub(tmp_path / "a", "python3.12", 40_000), stub(tmp_path / "b", "python3.11", 30_000)
    fast.with_name("python3").symlink_to(fast)
    assert chosen(slow.parent, fast.parent).stdout == f"{fast}\n"


def test_one_that_is_too_old_is_passed_over(tmp_path: Path, chosen: Chosen) -> None:
    stub(tmp_path / "a", "python3.11", None)
    good = stub(tmp_path / "b", "python3", 40_000)
    assert chosen(tmp_path / "a", good.parent).stdout == f"{good}\n"


def test_given_python_is_taken_although_another_is_faster(tmp_path: Path, chosen: Chosen) -> None:
    stub(tmp_path, "python3.12", 1)
    assert chosen(tmp_path, python=sys.executable).stdout == f"{sys.executable}\n"


def test_given_python_that_cannot_run_the_project_is_refused(tmp_path: Path, chosen: Chosen) -> None:
    old = stub(tmp_path, "python3.8", None)
    done = chosen(tmp_path, python=str(old))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"setup: PYTHON={old} is not a Python of 3.11 or newer with venv. Fix: set PYTHON=/path/to/python3.12\n"
    )


def test_without_a_python_the_way_out_is_told(tmp_path: Path, chosen: Chosen) -> None:
    stub(tmp_path, "python3", None)
    done = chosen(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("setup: Python 3.11 or newer with venv is needed. Fix: install it, or set PYTHON=")
