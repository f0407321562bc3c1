"""Find resources that are replaced, or continue under another name."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ops.review.assembly import HASH, stable
from ops.review.cloudformation.schema import Update, schema
from ops.review.cloudformation.sides import Key, Renames, ResolvedTemplates, TemplateComparison, referred
from ops.review.cloudformation.values import leaves

_ANONYMOUS: Final = re.compile(r"\$\{\w+\.\w+\.([\w.:-]+)\}")


def replacements(sides: TemplateComparison) -> dict[Key, str]:
    """Return why each resource is replaced: by a property, or because a resource that it refers to is replaced."""
    found: dict[Key, str] = {}
    common = [
        key
        for key, each in sides.head.resources.items()
        if key in sides.base.resources and sides.base.resources[key].get("Type") == each.get("Type")
    ]
    for key in common:
        kind = str(sides.head.resources[key].get("Type"))
        before, after = sides.base.properties[key], sides.head.properties[key]
        if before == after or not schema().knows(kind):
            continue
        if why := _replacing(kind, before, after):
            found[key] = why
    frontier = dict(found)
    references = {key: referred(sides.head.properties[key]) for key in common} if found else {}
    while frontier:
        following = {
            key: why
            for key in common
            if key not in found and references[key] & frontier.keys() and (why := _follows(key, sides.head, frontier))
        }
        found |= following
        frontier = following
    return found


def _replacing(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    for path, old, new in leaves(before, after):
        update = schema().update(kind, path, (old, new))
        if update in (Update.REPLACES, Update.MAY_REPLACE):
            may = "may replace" if update is Update.MAY_REPLACE else "replaces"
            return f"A change of {'.'.join(path)} {may} it."
    return ""


def _follows(key: Key, head: ResolvedTemplates, replaced: Mapping[Key, str]) -> str:
    """Return why the replacement of a resource that this one refers to replaces this one; empty if it does not."""
    kind = str(head.resources[key].get("Type"))
    if not schema().knows(kind):
        return ""
    for path, value, _ in leaves(head.properties[key], {}):
        if (causes := referred(value) & replaced.keys()) and schema().update(kind, path) in (
            Update.REPLACES,
            Update.MAY_REPLACE,
        ):
            return f"{stable(sorted(causes)[0][1])}, which {'.'.join(path)} names, is replaced."
    return ""


def renames(base: ResolvedTemplates, head: ResolvedTemplates) -> Renames:
    """Return which resource of the head has the definition of each one that the base alone has."""
    gone = [key for key in base.resources if key not in head.resources]
    new = [key for key in head.resources if key not in base.resources]
    if not gone or not new:
        return {}
    waiting: dict[str, list[Key]] = {}
    for key in new:
        waiting.setdefault(_definition(key, head), []).append(key)
    return dict(_matched(gone, base, waiting))


def _matched(gone: list[Key], base: ResolvedTemplates, waiting: dict[str, list[Key]]) -> Iterator[tuple[Key, Key]]:
    for key in gone:
        candidates = waiting.get(_definition(key, base), [])
        if candidates:
            # A moved construct keeps its logical id, or a part of it.
            best = next((each for each in candidates if each[1] == key[1]), candidates[0])
            candidates.remove(best)
            yield key, best


def _definition(key: Key, side: ResolvedTemplates) -> str:
    """Return type and properties without the names of constructs in references and generated names."""

    def anonymous(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: anonymous(each) for name, each in value.items() if name not in ("PolicyName", "Tags")}
        if isinstance(value, list):
            return [anonymous(each) for each in value]
        return HASH.sub("", _ANONYMOUS.sub(r"${\1}", value)) if isinstance(value, str) else value

    return json.dumps([side.resources[key].get("Type"), anonymous(side.properties[key])], sort_keys=True)
