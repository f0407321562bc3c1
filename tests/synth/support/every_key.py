"""Environments in which all keys of their kind are set at once, so that what each part adds meets all other parts."""

import copy
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from config import Environment, load_any

FOLDER: Final = Path(__file__).parents[1] / "every_key"
Change = Mapping[str, Any]
DOCUMENTS: Final = ("new", "existing", "dynamic", "slurm")


def read(name: str) -> Any:
    """Return the content of a file of the folder."""
    return YAML(typ="safe", pure=True).load(FOLDER / f"{name}.yaml")


def environment_of(content: Any, directory: Path) -> Environment:
    """Return the environment with this content, whose names follow the company's pattern for its name."""
    (directory / "changed.yaml").write_text(json.dumps(content, ensure_ascii=False))
    return load_any("changed", directory)


KINDS: Final = read("kinds")
"""More kinds of environments, each as its differences from the document `new`, by name."""


@cache
def content_of(name: str) -> Any:
    """Return the content of a document, or of a kind of environment."""
    if name not in KINDS:
        return read(name)
    content = read("new")
    set_all(content, KINDS[name]["differences"])
    return content


def set_all(content: Any, change: Change) -> None:
    """Set each key of the change; null takes a key away."""
    for key, value in change.items():
        _set(content, key.split("."), value)


def add(content: Any, source: Any, keys: list[str]) -> None:
    """Copy the first part of the key that `content` lacks from `source`."""
    key, *rest = keys
    name = key.removesuffix("[]")
    if name not in content:
        content[name] = copy.deepcopy(source[name])
    elif key.endswith("[]") and not any(has(item, rest) for item in content[name]):
        item = max(content[name], key=lambda item: has(item, rest[:1]))
        add(item, next(item for item in source[name] if has(item, rest)), rest)
    elif rest and not key.endswith("[]"):
        add(content[name], source[name], rest)


def _set(content: Any, keys: list[str], value: Any) -> None:
    key, *rest = keys
    name = key.removesuffix("[]")
    if not rest:
        if value is None:
            content.pop(name, None)
        else:
            content[name] = value
    elif key.endswith("[]"):
        _set(next(item for item in content[name] if has(item, rest)), rest, value)
    else:
        _set(content.setdefault(name, {}), rest, value)


def has(item: Any, keys: list[str]) -> bool:
    """Return whether the item has the key, whose parts are given."""
    key, *rest = keys
    name = key.removesuffix("[]")
    if name not in item or not rest:
        return name in item
    return any(has(each, rest) for each in item[name]) if key.endswith("[]") else has(item[name], rest)
