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
    shutil.copytree(REPOSITORY / "requirements", tmp_path / "requirements")
    members = [path.relative_to(REPOSITORY) for path in REPOSITORY.glob("packages/*/pyproject.toml")]
    files = ("pyproject.toml", "requirements.txt", "ray_image/requirements.in", "ray_image/requirements.txt")
    for path in (*map(Path, files), *members):
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
    assert done.stderr.splitlines() == [f"lock: {file} {fix}" for file in ("requirements.txt", "requirements/dev.txt")]
    assert (checkout / "requirements.txt").read_bytes() == before, "`--check` must not write"


LINUX = "x86_64-manylinux_2_31"
ANYWHERE = (LINUX, "aarch64-manylinux_2_31", "aarch64-apple-darwin", "x86_64-apple-darwin")
NEWER = ("3.11", "3.12", "3.13", "3.14")
SERVERS = ("3.11", "3.12")
# What publishes source archives only, for one of these Pythons at least.
WITHOUT_WHEELS = (
    *("amzn-sagemaker-checkpointing", "antlr4-python3-runtime", "awscli-cwlogs", "deepspeed", "pytest-dependency"),
    *("ratelimit", "zstandard"),
)


@pytest.mark.parametrize(
    ("lock", "pythons", "platforms"),
    [
        ("requirements.txt", NEWER, ANYWHERE),
        ("requirements/setup.txt", NEWER, ANYWHERE),
        ("requirements/dev.txt", NEWER, (LINUX,)),
        ("requirements/policies.txt", NEWER, (LINUX,)),
        ("requirements/jobs.txt", ("3.10", *SERVERS), (LINUX,)),
        ("requirements/mlflow.txt", SERVERS, (LINUX,)),
        ("requirements/hyp.txt", SERVERS, (LINUX,)),
        ("requirements/memory-tier.txt", SERVERS, (LINUX,)),
    ],
)
def test_a_lock_has_the_hash_of_a_wheel_for_each_machine(
    lock: str, pythons: tuple[str, ...], platforms: tuple[str, ...], tmp_path: Path
) -> None:
    """`make lock` drops the hashes of wheels that no machine of the project installs."""
    uv = [f"{REPOSITORY}/.venv/bin/uv", "pip", "install", "--dry-run", "--no-deps", "--no-python-downloads"]
    wheels = ["--only-binary=:all:", *(f"--no-binary={each}" for each in WITHOUT_WHEELS)]
    for python in pythons:
        for platform in platforms:
            machine = [f"--python-version={python}", f"--python-platform={platform}", "--target", tmp_path]
            argv = [*uv, *wheels, *machine, "--require-hashes", "--requirement", REPOSITORY / lock]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{python}, {platform}: {done.stderr}"


def test_locks_hold_no_hash_that_no_machine_needs() -> None:
    """aiohttp has 37 files for Linux and macOS, and a hundred in all."""
    for lock in (REPOSITORY / "requirements.txt", *REPOSITORY.glob("requirements/*.txt")):
        for entry in lock.read_text().replace("\\\n", "").splitlines():
            assert entry.count("--hash=") <= 40, entry.split()[0]
