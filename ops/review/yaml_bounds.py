"""Bound the YAML that a pull request brings: its depth and its aliases can end the program that reads it."""

import math
from typing import Any, Final

import yaml

MAX_DEPTH: Final = 100
MAX_VALUES: Final = 1_000_000


class BoundError(yaml.YAMLError):
    """The text exceeds a bound; the message says which one, and what is allowed."""


def load(text: str) -> list[Any]:
    """Return the documents of a text. Raises yaml.YAMLError, or its subclass BoundError."""
    require_shallow(text)
    documents = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    require_few_values(text, documents)
    return documents


def require_shallow(text: str | bytes) -> None:
    """Raise BoundError for a text so deep that libyaml's recursion would use up the stack."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise BoundError(f"it is nested too deeply. Allowed: {MAX_DEPTH} levels")


def require_few_values(text: str, documents: list[Any]) -> None:
    """Raise BoundError if the documents of a text have too many values or levels once its aliases are written out."""
    try:
        many = "*" in text and _expanded(documents, {}) > MAX_VALUES
    except RecursionError as error:
        raise BoundError(f"its aliases are nested too deeply. Allowed: {MAX_DEPTH} levels") from error
    if many:
        raise BoundError(f"its aliases stand for too many values. Allowed: {MAX_VALUES:,} values")


def _expanded(value: Any, known: dict[int, float]) -> float:
    """Return the number of values once all aliases are written out; infinite if a value contains itself."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = math.inf
        each = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_expanded(inner, known) for inner in each)
    return known[id(value)]
