"""Check values against the constraints of AWS's registry schemas: scalar types, enums, patterns, ranges, lengths.

`make constraints` writes constraints.json from the schemas that cfn-lint contains, with the ends of Lambda's runtimes.
A property has the path of its keys; `*` stands for each item of a list and each value of a map. What a type requires
and allows is in resource_types.py.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final

from embedded_account.cloudformation.templates.intrinsics import NOT_YET_KNOWN, as_text
from embedded_account.errors import ResourceError

FILE: Final = Path(__file__).with_name("constraints.json")

Problem = tuple[str, str]
"""The path of a property, and what is wrong there."""

# CloudFormation takes the text of a scalar for the scalar.
_FORMS: Final = {
    "boolean": re.compile("true|false", re.IGNORECASE),
    "integer": re.compile(r"[+-]?\d+(\.0*)?"),
    "number": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"),
}
# CloudFormation fills these in only when it creates the resource.
_LATER: Final = ("{{resolve:", NOT_YET_KNOWN)


@dataclass
class _Node:
    """The constraints of a value, and the nodes of what it contains."""

    words: Mapping[str, Any] = field(default_factory=dict)
    inner: dict[str, "_Node"] = field(default_factory=dict)


def runtime_end(runtime: str) -> date | None:
    """Return from which day on Lambda creates no function with this runtime, if AWS has published the day."""
    found = _file()["runtimes_end"].get(runtime)
    return date.fromisoformat(found) if found else None


def problems(resource_type: str, properties: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what breaks a constraint; a type without constraints has no problem."""
    return _problems("#", properties, _tree(resource_type))


def message(logical_id: str, path: str, problem: str) -> str:
    """Return a problem in CloudFormation's words."""
    return f"Properties validation failed for resource {logical_id} with message:\n{path}: {problem}"


def check(logical_id: str, resource_type: str, properties: Mapping[str, Any]) -> None:
    """Raise ResourceError if a property of a resource breaks a constraint."""
    if found := [message(logical_id, *each) for each in problems(resource_type, properties)]:
        raise ResourceError("\n".join(found))


@cache
def _file() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


@cache
def _tree(resource_type: str) -> _Node:
    root = _Node()
    for path, words in _file()["types"].get(resource_type, {}).items():
        node = root
        for key in path.split("/"):
            node = node.inner.setdefault(key, _Node())
        node.words = words
    return root


def _problems(path: str, value: Any, node: _Node) -> Iterator[Problem]:
    if isinstance(value, dict):
        for key, each in value.items():
            if inner := node.inner.get(key) or node.inner.get("*"):
                yield from _problems(f"{path}/{key}", each, inner)
        return
    broken: Iterator[str] = iter(())
    if isinstance(value, list):
        if inner := node.inner.get("*"):
            for index, each in enumerate(value):
                yield from _problems(f"{path}/{index}", each, inner)
        if node.words and NOT_YET_KNOWN not in json.dumps(value):
            broken = _broken_by_list(value, node.words)
    elif node.words and not any(mark in str(value) for mark in _LATER):
        broken = _broken_by_scalar(as_text(value), node.words)
    for word in broken:
        yield path, f"failed validation constraint for keyword [{word}]. Allowed: {_allowed(word, node.words)}"


def _broken_by_list(value: list[Any], words: Mapping[str, Any]) -> Iterator[str]:
    if len(value) < words.get("minItems", 0):
        yield "minItems"
    if len(value) > words.get("maxItems", len(value)):
        yield "maxItems"
    if words.get("uniqueItems") and any(each in value[:index] for index, each in enumerate(value)):
        yield "uniqueItems"


def _broken_by_scalar(text: str, words: Mapping[str, Any]) -> Iterator[str]:
    form = _FORMS.get(words.get("type", ""))
    if form and not form.fullmatch(text):
        yield "type"
        return
    # A few schemas give a length to a number, or a range to a text.
    if _FORMS["number"].fullmatch(text):
        if float(text) < words.get("minimum", float(text)):
            yield "minimum"
        if float(text) > words.get("maximum", float(text)):
            yield "maximum"
    if "enum" in words and text not in map(as_text, words["enum"]):
        yield "enum"
    if len(text) < words.get("minLength", 0):
        yield "minLength"
    if len(text) > words.get("maxLength", len(text)):
        yield "maxLength"
    if "pattern" in words and not re.search(words["pattern"], text):
        yield "pattern"


def _allowed(word: str, words: Mapping[str, Any]) -> str:
    value = words[word]
    return ", ".join(map(as_text, value)) if isinstance(value, list) else as_text(value)
