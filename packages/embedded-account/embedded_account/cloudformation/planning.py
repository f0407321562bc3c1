"""What a change of properties means: nothing, an update in place, or a replacement."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from embedded_account.cloudformation.custom_resources import is_custom
from embedded_account.cloudformation.templates.resource_types import Replacement, ResourceTypes

_STRENGTH: dict[Replacement, int] = {"no": 0, "maybe": 1, "yes": 2}


@dataclass(frozen=True)
class PropertyChange:
    """One changed property, with its values before and after (None where it was or will be absent)."""

    name: str
    before: Any
    after: Any
    replacement: Replacement


def property_changes(
    resource_type: str, before: Mapping[str, Any], after: Mapping[str, Any], types: ResourceTypes
) -> list[PropertyChange]:
    """Return the changed properties, by name."""
    return [
        PropertyChange(name, before.get(name), after.get(name), _replacement(resource_type, name, before, after, types))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def replaces(changes: list[PropertyChange]) -> bool:
    """Whether the engine replaces the resource. "maybe" is updated in place: the model knows better."""
    return any(change.replacement == "yes" for change in changes)


def _replacement(
    resource_type: str, name: str, before: Mapping[str, Any], after: Mapping[str, Any], types: ResourceTypes
) -> Replacement:
    # A custom resource decides by the physical id it returns.
    if is_custom(resource_type):
        return "maybe" if name == "ServiceToken" else "no"
    known = types.get(resource_type)
    own = known.properties.get(name) if known else None
    if own is None:
        return "no"
    nested = _nested(own.type, before.get(name), after.get(name), types)
    return max([own.replacement, *nested], key=_STRENGTH.__getitem__)


def _nested(kind: dict[str, Any], before: Any, after: Any, types: ResourceTypes) -> Iterator[Replacement]:
    """Yield what the changed parts of a nested value cause."""
    if before == after:
        return
    if kind["type"] == "ref" and isinstance(before, dict | None) and isinstance(after, dict | None):
        old, new = before or {}, after or {}
        for name, item in types.definition(kind["reference"]["$ref"]).items():
            if old.get(name) != new.get(name):
                yield item.replacement
                yield from _nested(item.type, old.get(name), new.get(name), types)
    elif kind["type"] == "array" and isinstance(before, list) and isinstance(after, list):
        for old_item, new_item in zip(before, after, strict=False):
            yield from _nested(kind["element"], old_item, new_item, types)
