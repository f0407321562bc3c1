"""Deployed code starts on the Python of each place where it runs: that Python compiles it, and imports all it can."""

import os
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import boto3
import pytest

from config.facts import versions
from tests.deployed_types import LIBRARY, PLACES, REPOSITORY, folders_by_version
from tests.support.pythons import cpython

# These import nothing but boto3 beside the standard library. tests/jobs/test_image.py imports the jobs' modules.
IMPORTED = ("controllers", "handlers", "lifecycle_scripts/slurm")
PROGRAM = """
import importlib, sys
from pathlib import Path
for file in sys.argv[1:]:
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    try:
        compile(Path(file).read_text(encoding="utf-8"), file, "exec")
        if file.startswith(IMPORTED):
            importlib.import_module(name)
    except Exception as error:
        print(f"{file}: {type(error).__name__}: {error}")
"""


def failing(python: str, files: Iterable[str], directory: Path = REPOSITORY) -> list[str]:
    """Return one line for each file that this Python cannot compile, or cannot import although it should."""
    packages = Path(boto3.__file__).parents[1]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{directory}:{packages}"}
    argv = [python, "-B", "-W", "error::SyntaxWarning", "-c", f"IMPORTED = {IMPORTED}\n{PROGRAM}", *files]
    done = subprocess.run(argv, cwd=directory, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("version", sorted(folders_by_version()))
def test_each_deployed_file_starts_on_the_python_that_runs_it(version: str) -> None:
    python = cpython(version)
    deployed_on = version in PLACES.values()
    assert python or not deployed_on or "CI" not in os.environ, f"CPython {version} is missing. Fix: install it"
    if python:
        folders = folders_by_version()[version]
        files = [str(path.relative_to(REPOSITORY)) for each in folders for path in (REPOSITORY / each).rglob("*.py")]
        assert len(files) > 1
        assert failing(python, files) == []


@pytest.mark.parametrize(
    "newer",
    ["from datetime import UTC", "import tomllib", "from enum import StrEnum", "from asyncio import timeout"],
)
def test_a_name_that_an_older_python_lacks_is_found(newer: str, tmp_path: Path) -> None:
    python = cpython(versions.SLURM_PYTHON)
    assert python or "CI" not in os.environ
    if python:
        module = tmp_path / "lifecycle_scripts/slurm/module.py"
        module.parent.mkdir(parents=True)
        module.write_text(f"{newer}\n")
        [found] = failing(python, ["lifecycle_scripts/slurm/module.py"], tmp_path)
        assert found.startswith("lifecycle_scripts/slurm/module.py: ")


@pytest.mark.parametrize("newer", ["try:\n    pass\nexcept* OSError:\n    pass\n", "type Name = str\n"])
def test_syntax_that_an_older_python_lacks_is_found(newer: str, tmp_path: Path) -> None:
    python = cpython(versions.RAY_PYTHON)
    assert python or "CI" not in os.environ
    if python:
        (tmp_path / "job.py").write_text(newer)
        [found] = failing(python, ["job.py"], tmp_path)
        assert found.startswith("job.py: SyntaxError: ")


def test_ruff_asks_for_no_name_that_the_deployed_python_lacks() -> None:
    """For a newer target than the Python that runs a file, ruff's `UP` rules demand names which that Python lacks."""
    ruff: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["ruff"]
    for folder, version in ((LIBRARY, versions.RAY_PYTHON), *PLACES.items()):
        [target, *_] = [
            *(each for glob, each in ruff["per-file-target-version"].items() if folder.startswith(glob.rstrip("*/"))),
            ruff["target-version"],
        ]
        assert int(target.removeprefix("py3")) <= int(version.partition(".")[2]), folder
