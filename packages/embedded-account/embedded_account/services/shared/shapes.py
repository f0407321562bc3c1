"""Find what of a request breaks a constraint of botocore's service model, in the words of AWS's services.

botocore's own validator runs in the client. It checks neither patterns nor enumerations, and its model depends on the
client's version. The account uses the pinned model.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

_PYTHON_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "long": int,
    "boolean": bool,
    "float": (int, float),
    "double": (int, float),
    "timestamp": (int, float, datetime),
    "list": list,
    "map": dict,
    "structure": dict,
}


def violations(shape: Shape, value: Any, path: str = "") -> Iterator[str]:
    """Yield what a value breaks: members, types, ranges, lengths, patterns, enumerations, unions."""
    if not _has_type(value, shape.type_name):
        yield f"Value {value!r} at '{path}' failed to satisfy constraint: Member must be of type {shape.type_name}"
        return
    yield from _constraint_violations(shape, value, path)
    if isinstance(shape, StructureShape):
        yield from _structure_violations(shape, value, path)
    elif isinstance(shape, ListShape):
        for index, member in enumerate(value, start=1):
            yield from violations(shape.member, member, f"{path}.{index}.member")
    elif isinstance(shape, MapShape):
        for key, member in value.items():
            yield from violations(shape.key, key, f"{path}.key")
            yield from violations(shape.value, member, f"{path}.{key}")


def _has_type(value: Any, type_name: str) -> bool:
    if isinstance(value, bool):
        return type_name == "boolean"
    return isinstance(value, _PYTHON_TYPES.get(type_name, object))


def _structure_violations(shape: StructureShape, value: dict[str, Any], path: str) -> Iterator[str]:
    for name in value.keys() - shape.members.keys():
        allowed = ", ".join(sorted(shape.members))
        yield f"Unknown member '{_member(path, name)}'; {shape.name} has {allowed}"
    for name in shape.required_members:
        if value.get(name) is None:
            yield (f"Value null at '{_member(path, name)}' failed to satisfy constraint: Member must not be null")
    if shape.metadata.get("union") and len(value) != 1:
        yield f"Value at '{path}' failed to satisfy constraint: exactly one of {', '.join(shape.members)} is allowed"
    for name, member in value.items():
        if name in shape.members and member is not None:
            yield from violations(shape.members[name], member, _member(path, name))


def _constraint_violations(shape: Shape, value: Any, path: str) -> Iterator[str]:
    def failed(constraint: str) -> str:
        return f"Value '{value}' at '{path}' failed to satisfy constraint: Member must {constraint}"

    metadata = shape.metadata
    size, noun = (value, "value") if isinstance(value, int | float) else (len(value), "length")
    if "min" in metadata and size < metadata["min"]:
        yield failed(f"have {noun} greater than or equal to {metadata['min']}")
    if "max" in metadata and size > metadata["max"]:
        yield failed(f"have {noun} less than or equal to {metadata['max']}")
    if "pattern" in metadata and not _compiled(metadata["pattern"]).fullmatch(value):
        yield failed(f"satisfy regular expression pattern: {metadata['pattern']}")
    if metadata.get("enum") and value not in metadata["enum"]:
        yield failed(f"satisfy enum value set: [{', '.join(metadata['enum'])}]")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of the model.

    Python's `re` has no Unicode properties, so similar classes replace those for letters, numbers and separators.
    """
    for java, python in ((r"\p{L}", r"\w"), (r"\p{N}", r"\d"), (r"\p{Z}", r"\s")):
        pattern = pattern.replace(java, python)
    return re.compile(pattern)


def _member(path: str, name: str) -> str:
    """Return the path of a member as SageMaker writes it: with a lower-case first letter."""
    name = name[0].lower() + name[1:]
    return f"{path}.{name}" if path else name


def error_text(found: list[str]) -> str:
    """Return the message of a service's error for these violations."""
    return f"{len(found)} validation error{'s' * (len(found) > 1)} detected: {'; '.join(found)}"
