"""Copies of the project's files that syntheses and reviews read, so that an environment can be changed in them."""

import copy
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from rehearsal.paths import REPOSITORY

_PARTS: Final = (
    *("app.py", "cdk.json", "config", "controllers", "handlers", "k8s_charts"),
    *("lifecycle_scripts", "ops", "packages/ray-resume", "ray_image", "stacks"),
)
# Never the user's environments: figures must be comparable with earlier ones.
_ENVIRONMENTS: Final = REPOSITORY / "tests" / "environments"


def checkout(directory: Path, environments: list[str] | None = None) -> Path:
    """Copy the project to the new folder `directory` and return it.

    The copy has the tests' environments, or only those named in `environments`.
    """
    directory.mkdir(parents=True)
    for part in _PARTS:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, directory / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, directory / part)
    (directory / "environments").mkdir()
    for file in _ENVIRONMENTS.glob("*.yaml"):
        if environments is None or file.stem in environments:
            shutil.copy2(file, directory / "environments")
    (directory / "node_modules").symlink_to(REPOSITORY / "node_modules")
    return directory


@contextmanager
def changed(checkout: Path, environment: str) -> Iterator[Any]:
    """Yield the environment's document for changes, and write it back."""
    file = checkout / "environments" / f"{environment}.yaml"
    document = YAML().load(file)
    yield document
    YAML().dump(document, file)


def named_copies(item: Any, number: int) -> list[Any]:
    """Return copies of a list's item, each with a name of its own; the same object twice would be an alias in YAML."""
    return [copy.deepcopy(item) | {"name": f"extra-{n}"} for n in range(number)]
