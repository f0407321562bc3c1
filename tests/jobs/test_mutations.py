"""Defects that once went unseen are seen: each test of mutations.py fails on its mutation, and passes without it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.support.mutations import MUTATIONS, Mutation
from tests.jobs.support.paths import REPOSITORY

NEEDED: Final = ("pyproject.toml", "config", "controllers", "k8s_charts", "packages", "ray_jobs", "rehearsal", "tests")
TESTS: Final = sorted({mutation.test for mutation in MUTATIONS.values()})
FAILED: Final = 1
"""Pytest's exit code if tests ran and some failed."""

cases = pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)


@cases
def test_mutation_still_applies(mutation: Mutation) -> None:
    assert (REPOSITORY / mutation.file).read_text().count(mutation.before) == 1
    file, test = mutation.test.split("::")
    assert re.search(rf"^def {test}\(", (REPOSITORY / "tests" / "jobs" / file).read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of what the tests of the mutations need of the repository."""
    copy = tmp_path_factory.mktemp("copy")
    for name in NEEDED:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(REPOSITORY / name, copy)
    return copy


@pytest.fixture(scope="module")
def passing(copy: Path) -> Path:
    """Return the copy after the tests of all mutations have passed in it."""
    ended = run(copy, *TESTS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return copy


def run(copy: Path, *tests: str, options: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *options]
    argv += [f"tests/jobs/{test}" for test in tests]
    # Bytecode of a mutation would be valid for another of the same second and length.
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(argv, cwd=copy, env=env, capture_output=True, text=True, check=False)


def test_tests_of_the_mutations_are_found_in_a_copy(copy: Path) -> None:
    """Otherwise `make test-long` kills no mutation."""
    ended = run(copy, *TESTS, options=("--collect-only",))
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.long
@cases
def test_mutation_is_killed(passing: Path, mutation: Mutation) -> None:
    file = passing / mutation.file
    before = file.read_text()
    file.write_text(before.replace(mutation.before, mutation.after))
    ended = run(passing, mutation.test)
    file.write_text(before)
    assert ended.returncode == FAILED, ended.stdout + ended.stderr
