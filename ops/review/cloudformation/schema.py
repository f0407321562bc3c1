"""Ask CloudFormation's resource schemas whether a change of a property replaces the resource.

The source is the resource database in the CDK CLI's package (db.json.gz), which AWS generates from the published
resource schemas.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from ops.review.checkouts.cdk import ReviewError

DATABASE: Final = Path(__file__).resolve().parents[3] / "node_modules" / "aws-cdk" / "db.json.gz"
# Some definitions contain themselves.
_DEPTH: Final = 5


class Update(StrEnum):
    """What CloudFormation does to a resource when a property changes."""

    IN_PLACE = "no"
    MAY_REPLACE = "maybe"
    """The value decides."""
    REPLACES = "yes"
    UNKNOWN = "unknown"
    """The schema has no such type or property."""


class Schema:
    """The resource types of the database."""

    def __init__(self, database: Path) -> None:
        try:
            with gzip.open(database) as file:
                schema = json.load(file, object_hook=_without_documentation)["schema"]
        except (OSError, ValueError, KeyError) as error:
            raise ReviewError(f"{database} cannot be read: {error}. Fix: run `./setup.sh runtime`") from error
        self._types = {each["cloudFormationType"]: each["properties"] for each in schema["resource"]["entities"]}
        self._definitions = {each["$id"]: each["properties"] for each in schema["typeDefinition"]["entities"]}

    def knows(self, type_name: str) -> bool:
        """Return whether CloudFormation has this resource type."""
        return type_name in self._types

    def update(self, type_name: str, path: Sequence[str], values: Sequence[object] = ()) -> Update:
        """Return what a change at `path`, names of nested properties, does; the worst of all on the path.

        `values`: both sides of the change. If one is an unresolved expression instead of an object, everything in the
        object may change.
        """
        if type_name not in self._types:
            return Update.UNKNOWN
        properties: Mapping[str, Any] | None = self._types[type_name]
        found = {Update.IN_PLACE}
        last: Mapping[str, Any] = {}
        for name in path:
            if properties is None:
                break
            if name not in properties:
                return Update.UNKNOWN
            last = properties[name]
            found.add(Update(last.get("causesReplacement", "no")))
            properties = self._nested(last["type"])
        if properties is not None and any(isinstance(each, str) for each in values):
            found |= set(self._all(last["type"]))
        return _worst(found)

    def _nested(self, kind: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the properties of an object, of a list's elements, or of all alternatives; None for free values."""
        if kind["type"] == "ref":
            definition: Mapping[str, Any] = self._definitions[kind["reference"]["$ref"]]
            return definition
        if kind["type"] == "array":
            return self._nested(kind["element"])
        if kind["type"] == "union":
            alternatives = [self._nested(each) for each in kind["types"]]
            known = [each for each in alternatives if each is not None]
            return {name: value for each in known for name, value in each.items()} if known else None
        return None

    def _all(self, kind: Mapping[str, Any], depth: int = 0) -> Iterator[Update]:
        nested = self._nested(kind)
        if nested is None or depth > _DEPTH:
            return
        for each in nested.values():
            yield Update(each.get("causesReplacement", "no"))
            yield from self._all(each["type"], depth + 1)


@lru_cache(maxsize=1)
def schema() -> Schema:
    """Return the schemas of this checkout's CDK CLI; the first call reads them (about half a second)."""
    return Schema(DATABASE)


def _worst(found: set[Update]) -> Update:
    return max(found, key=list(Update).index)


def _without_documentation(item: dict[str, Any]) -> dict[str, Any]:
    item.pop("documentation", None)
    return item
