"""The lock files of Python's dependencies: `make check` refuses stale ones."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tiers import REPOSITORY

pytestmark = pytest.mark.network


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("requirements", "ray_image"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    members = [path.relative_to(REPOSITORY) for path in REPOSITORY.glob("packages/*/pyproject.toml")]
    for path in (Path("pyproject.toml"), Path("requirements.txt"), *members):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / path, tmp_path / path)
    return tmp_path


def test_a_dependency_that_is_not_locked_is_refused_with_the_command_that_locks_it(checkout: Path) -> None:
    project = checkout / "pyproject.toml"
    project.write_text(project.read_text().replace('  "rich",', '  "rich<14",'))
    before = (checkout / "requirements.txt").read_bytes()
    path = f"{REPOSITORY}/.venv/bin:{os.environ['PATH']}"
    done = subprocess.run(
        [checkout / "requirements" / "lock.sh", "--check"],
        cwd=checkout,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    fix = "is not what its dependencies resolve to. Fix: make lock"
    stale = ("requirements.txt", "requirements/check.txt", "requirements/dev.txt")
    assert done.stderr.splitlines() == [f"lock: {file} {fix}" for file in stale]
    assert (checkout / "requirements.txt").read_bytes() == before, "`--check` must not write"
