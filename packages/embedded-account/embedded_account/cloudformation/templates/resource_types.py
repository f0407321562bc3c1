"""What CloudFormation knows of each resource type: properties, attributes, what forces a replacement.

The source is the resource database inside the CDK CLI's package (db.json.gz), which AWS generates from the
published resource schemas.
"""

import gzip
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from embedded_account.paths import NODE_MODULES

DATABASE = NODE_MODULES / "aws-cdk" / "db.json.gz"

Replacement = Literal["no", "maybe", "yes"]
"""Whether a change of a property makes CloudFormation create the resource anew ("maybe": by its value)."""

METADATA_TYPE = "AWS::CDK::Metadata"
"""CDK's own marker. CloudFormation knows it and does nothing for it; the database lacks it."""


@dataclass(frozen=True)
class Property:
    """One property of a resource or of a nested object. `type` is the database's own description."""

    type: dict[str, Any]
    required: bool
    replacement: Replacement


@dataclass(frozen=True)
class TagProperty:
    """Where a resource type takes its tags. `variant`: "standard" (Key/Value pairs), "asg" or "map"."""

    name: str
    variant: str


class ResourceType:
    """One resource type of the database."""

    def __init__(self, entity: dict[str, Any]) -> None:
        self._entity = entity
        self.name: str = entity["cloudFormationType"]

    @cached_property
    def properties(self) -> dict[str, Property]:
        """The properties by name."""
        return _properties(self._entity["properties"])

    @cached_property
    def attributes(self) -> frozenset[str]:
        """What Fn::GetAtt may ask for."""
        return frozenset(self._entity["attributes"])

    @cached_property
    def identifiers(self) -> tuple[str, ...]:
        """The properties or attributes that identify a resource of this type."""
        return tuple(self._entity.get("primaryIdentifier", ()))

    @cached_property
    def tags(self) -> TagProperty | None:
        """Where the type takes tags; None if it takes none."""
        tags = self._entity.get("tagInformation")
        return TagProperty(tags["tagPropertyName"], tags["variant"]) if tags else None

    def replacement(self, property_name: str) -> Replacement:
        """Whether changing this property replaces the resource."""
        known = self.properties.get(property_name)
        return known.replacement if known else "no"


class ResourceTypes:
    """All resource types, by name."""

    def __init__(self, path: Path) -> None:
        with gzip.open(path) as file:
            schema = json.load(file, object_hook=_without_documentation)["schema"]
        self._resources = {entity["cloudFormationType"]: entity for entity in schema["resource"]["entities"]}
        self._definitions = {entity["$id"]: entity for entity in schema["typeDefinition"]["entities"]}

        self._seen: dict[str, ResourceType] = {}
        self._seen_definitions: dict[str, dict[str, Property]] = {}

    def get(self, name: str) -> ResourceType | None:
        """Return the type, None if CloudFormation has none of this name."""
        if name not in self._resources:
            return None
        if name not in self._seen:
            self._seen[name] = ResourceType(self._resources[name])
        return self._seen[name]

    def definition(self, reference: str) -> dict[str, Property]:
        """Return the properties of a nested object by the database's reference."""
        if reference not in self._seen_definitions:
            self._seen_definitions[reference] = _properties(self._definitions[reference]["properties"])
        return self._seen_definitions[reference]


def _properties(entities: dict[str, Any]) -> dict[str, Property]:
    return {
        name: Property(entity["type"], bool(entity.get("required")), entity.get("causesReplacement", "no"))
        for name, entity in entities.items()
    }


def _without_documentation(item: dict[str, Any]) -> dict[str, Any]:
    item.pop("documentation", None)
    return item


@lru_cache(maxsize=1)
def resource_types() -> ResourceTypes:
    """Return the database; the first call reads it (about half a second).

    Raises FileNotFoundError when the CDK CLI is not installed.
    """
    return ResourceTypes(DATABASE)
