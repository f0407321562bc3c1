"""`make check` reads deployed code with the Python of each place where it runs, not only with the checkout's."""

import subprocess
from pathlib import Path

import pytest

from config.facts import versions
from tests import deployed_types
from tests.deployed_types import LIBRARY, PLACES, REPOSITORY

DEPLOYED = ("controllers", "handlers", "lifecycle_scripts", "packages/ray-resume", "ray_jobs")
NEWER_THAN_THE_IMAGE = (
    "from datetime import UTC",
    "import tomllib",
    "from enum import StrEnum",
    "from typing import Self",
    "import contextlib\ncontextlib.chdir('/')",
    "import hashlib\nhashlib.file_digest(open('/dev/null', 'rb'), 'sha256')",
)


def test_every_deployed_file_is_checked_with_the_python_that_runs_it() -> None:
    argv = ["git", "ls-files", *(f"{folder}/*.py" for folder in DEPLOYED)]
    files = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.split()
    assert files
    assert [file for file in files if not file.startswith((LIBRARY, *PLACES))] == []


def test_the_library_is_checked_with_the_image_s_python_and_with_the_newest() -> None:
    checked = deployed_types.library_versions()
    assert versions.RAY_PYTHON in checked
    assert checked == ["3.10", "3.11", "3.12", "3.13"]


def test_slurm_s_nodes_run_the_jobs_with_the_image_s_version() -> None:
    assert versions.SLURM_PYTHON == versions.RAY_PYTHON, "else ray_jobs/slurm needs a row of its own in PLACES"


def test_each_name_that_the_image_s_python_lacks_is_found(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "library").mkdir()
    modules = [f"library/module_{number}.py" for number in range(len(NEWER_THAN_THE_IMAGE))]
    for module, code in zip(modules, NEWER_THAN_THE_IMAGE, strict=True):
        (tmp_path / module).write_text(f"{code}\n")
    folders = {version: ["library"] for version in (versions.RAY_PYTHON, versions.LAMBDA_PYTHON)}
    assert deployed_types.failing(folders, tmp_path) == [versions.RAY_PYTHON]
    found = capfd.readouterr().out
    assert [module for module in modules if f"{module}:" not in found] == []
