"""Environments in which all keys of their kind are set at once, so that what each part adds meets all other parts."""

from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from config import Environment, load

FOLDER: Final = Path(__file__).parents[1] / "every_key"
DOCUMENTS: Final = ("new", "existing", "dynamic", "slurm")


def read(name: str) -> Any:
    """Return the content of a file of the folder."""
    return YAML(typ="safe", pure=True).load(FOLDER / f"{name}.yaml")


def environment_of(content: Any, directory: Path) -> Environment:
    """Return the environment with this content, whose names follow the company's pattern for its name."""
    with (directory / "changed.yaml").open("w") as file:
        YAML().dump(content, file)
    return load("changed", directory)
