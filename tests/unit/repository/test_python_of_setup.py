"""Set-up takes the first Python of PATH that can run the project, unless another is faster; jobs, the image's."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from config.facts import versions
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


@pytest.fixture
def chosen_for_jobs(tmp_path: Path) -> Chosen:
    """Return a function that runs the script for the jobs' Python; it finds no Python but those of the folders."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ls").symlink_to(str(shutil.which("ls")))

    def choose(*folders: Path, ci: str = "", pyenv: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.pathsep.join(map(str, [*folders, tools])), "PYENV_ROOT": str(pyenv), "CI": ci}
        argv = ["/bin/bash", str(REPOSITORY / "requirements/jobs_python.sh"), versions.RAY_PYTHON]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)

    return choose


def jobs_python(folder: Path, answer: str) -> Path:
    """Write a Python of the image's name that answers the question for its version."""
    folder.mkdir(parents=True)
    program = folder / f"python{versions.RAY_PYTHON}"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    return program


def test_jobs_take_the_image_s_python_from_path_or_else_from_pyenv(tmp_path: Path, chosen_for_jobs: Chosen) -> None:
    right = f"echo {versions.RAY_PYTHON}"
    # A shim of pyenv that starts nothing.
    shim = jobs_python(tmp_path / "shims", "exit 127")
    of_pyenv = jobs_python(tmp_path / f"versions/{versions.RAY_PYTHON}.13/bin", right)
    assert chosen_for_jobs(shim.parent).stdout == f"{of_pyenv}\n"
    of_path = jobs_python(tmp_path / "path", right)
    assert chosen_for_jobs(shim.parent, of_path.parent).stdout == f"{of_path}\n"


def test_without_the_image_s_python_ci_fails_and_a_user_gets_another_one(chosen_for_jobs: Chosen) -> None:
    missing = f"setup: CPython {versions.RAY_PYTHON}, which the Ray image has, is neither in PATH nor one of pyenv's"
    in_ci, at_users = chosen_for_jobs(ci="true"), chosen_for_jobs()
    assert (in_ci.returncode, in_ci.stdout, in_ci.stderr) == (1, "", f"{missing}. Fix: install it\n")
    assert (at_users.returncode, at_users.stdout) == (0, ">=3.11,<3.13\n")
    [line] = at_users.stderr.splitlines()
    assert line.startswith(f"{missing}: the jobs are tested with another one")


def test_a_slow_installation_shows_signs_of_life_and_leaves_no_process(tmp_path: Path) -> None:
    """Setting up waits for this Python, and fails with it; nine seconds are a fifth of a second here."""
    shutil.copytree(REPOSITORY / "requirements", tmp_path / "requirements")
    signs = tmp_path / "requirements" / "signs_of_life.sh"
    signs.write_text(signs.read_text().replace("-t 9;", "-t 0.2;"))
    for file in ("setup.sh", "packages", "requirements.txt", "pyproject.toml", "package-lock.json"):
        (tmp_path / file).symlink_to(REPOSITORY / file)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ncase $1 in -c) echo 1 ;; *) sleep 1.5; exit 7 ;; esac\n")
    python.chmod(0o755)
    argv = ["/bin/bash", str(tmp_path / "setup.sh"), "check"]
    # It ends when nobody has its output open any more.
    done = subprocess.run(
        argv, env=os.environ | {"PYTHON": str(python)}, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (7, f"setup: Python packages, for {python}\n")
    lines = done.stderr.splitlines()
    assert len(lines) >= 2
    assert [line for line in lines if not re.fullmatch(r"setup: still installing, \d+ s so far", line)] == []
