"""`python -m tests.deployed_types`: check the types of deployed code with the Python of each place where it runs."""

import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from config.facts import versions

REPOSITORY: Final = Path(__file__).parents[1]
LIBRARY: Final = "packages/ray-resume/ray_resume"
PLACES: Final = {
    "ray_jobs": versions.RAY_PYTHON,
    "lifecycle_scripts/slurm": versions.SLURM_PYTHON,
    "controllers": versions.CONTROLLERS_PYTHON,
    "handlers": versions.LAMBDA_PYTHON,
}
"""Folders of deployed code, and the version of CPython that runs them. The library's are in its own project file."""


def library_versions() -> list[str]:
    """Return every version of CPython that the training library supports, oldest first."""
    project = tomllib.loads((REPOSITORY / "packages/ray-resume/pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: "
    found = [each.removeprefix(prefix) for each in project["classifiers"] if each.startswith(f"{prefix}3.")]
    return sorted(found, key=lambda version: int(version.partition(".")[2]))


def folders_by_version() -> dict[str, list[str]]:
    """Return the folders that each version of CPython runs."""
    found = defaultdict[str, list[str]](list)
    for folder, version in (*((LIBRARY, version) for version in library_versions()), *PLACES.items()):
        found[version].append(folder)
    return dict(found)


def failing(folders: Mapping[str, Sequence[str]], directory: Path = REPOSITORY) -> list[str]:
    """Run mypy once for each version, and return the versions in which it found an error."""
    return [version for version, names in folders.items() if _mypy(version, names, directory)]


def _mypy(version: str, folders: Sequence[str], directory: Path) -> int:
    argv = [sys.executable, "-m", "mypy", "--config-file", str(REPOSITORY / "pyproject.toml"), "--no-error-summary"]
    return subprocess.run([*argv, "--python-version", version, *folders], cwd=directory, check=False).returncode


if __name__ == "__main__":
    places = folders_by_version()
    for each in (found := failing(places)):
        print(f"CPython {each} runs this code where it is deployed: {', '.join(places[each])}", file=sys.stderr)
    sys.exit(1 if found else 0)
