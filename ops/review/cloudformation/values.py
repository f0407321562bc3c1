"""Compare template values, and show them on one line."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ops.review.assembly import stable

REFERENCE: Final = re.compile(r"\$\{(\w+)\.(\w+)\.([\w.:-]+)\}")
"""A resolved reference: stack, logical id, attribute (`Ref` for the resource itself)."""
_LONGEST: Final = 60


def same(before: object, after: object) -> bool:
    """Return whether both values mean the same: keys, and elements of lists, count in any order."""
    return before == after or text(before) == text(after)


def text(value: object) -> str:
    """Return a text that is equal for values that mean the same."""
    return json.dumps(_ordered(value), sort_keys=True)


def elements(value: object) -> list[Any]:
    """Return a list as it is, None as an empty list, and anything else as a list of itself."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def short(value: object) -> str:
    """Return the value on one line of at most about 60 characters; references become construct names."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return f"({len(value)} keys)" if len(value) != 1 else f"({next(iter(value))})"
    if isinstance(value, list):
        shown = ", ".join(short(each) for each in _plain(value))
        return f"[{shown}]" if len(shown) <= _LONGEST else f"({len(value)} values)"
    shown = " ".join(readable(str(value)).split())
    if shown[:1] in "{[" and nested(str(value)) is not None:
        return f"(JSON, {len(shown)} characters)"
    return shown if len(shown) <= _LONGEST else f"{shown[:40]}…{shown[-16:]}"


def _plain(values: list[Any]) -> list[Any]:
    """Return the values of elements with the same single key, such as EnabledTypes of EKS: they say all."""
    keys = {tuple(each) if isinstance(each, Mapping) else () for each in values}
    [key] = keys if len(keys) == 1 else {()}
    return [each[key[0]] for each in values] if len(key) == 1 else values


def readable(value: str) -> str:
    """Replace resolved references by construct names: `${storage.Data2D4B752F.Arn}` by `Data`."""
    return REFERENCE.sub(lambda match: stable(match[2]), value)


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object as it is, and an empty one for anything else, such as an unresolved expression."""
    return value if isinstance(value, Mapping) else {}


def is_off(value: object) -> bool:
    """Return whether a switch is off for certain; what an expression resolves to is unknown."""
    return value is None or str(value).lower() in ("false", "disabled", "suspended", "none", "optional", "mutable")


def is_on(value: object) -> bool:
    """Return whether a switch is on for certain."""
    shown = str(value)
    return shown.lower() in ("true", "required", "alias", "all") or shown.upper().startswith(("ENABLED", "IMMUTABLE"))


def number(value: object, default: float, *, unknown: float) -> float:
    """Return a value as a number; `default` for none, `unknown` for what is no number, such as an expression."""
    if value is None:
        return default
    try:
        return float(str(value))
    except ValueError:
        return unknown


def listed(parts: list[str], shown: int = 3) -> str:
    """Join parts for one line, the first ones of many."""
    more = len(parts) - shown
    return "; ".join(parts[:shown]) + (f"; and {more} more" if more > 0 else "")


def nested(value: str) -> Any:
    """Return the object or list of a JSON text, None if the text is none."""
    if value.lstrip()[:1] not in ("{", "["):
        return None
    try:
        parsed = json.loads(value)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict | list) else None


Leaf = tuple[tuple[str, ...], object, object]


def leaves(before: object, after: object, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield path, old and new value of everything that differs; paths hold no indices of lists."""
    if same(before, after):
        return
    if isinstance(before, Mapping | None) and isinstance(after, Mapping | None) and (before or after):
        old, new = before or {}, after or {}
        for key in sorted(old.keys() | new.keys()):
            yield from leaves(old.get(key), new.get(key), (*path, key))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(before, after, path)
    else:
        yield path, before, after


def tags(value: object) -> Mapping[str, object] | None:
    """Return a list of tags by key, or None if the value is no such list."""
    elements = [] if value is None else value
    if not isinstance(elements, list) or any(
        not isinstance(each, Mapping) or each.keys() != {"Key", "Value"} or not isinstance(each["Key"], str)
        for each in elements
    ):
        return None
    found = {each["Key"]: each["Value"] for each in elements}
    return found if len(found) == len(elements) else None


def _of_lists(before: list[Any], after: list[Any], path: tuple[str, ...]) -> Iterator[Leaf]:
    """Yield the differences of elements that have no equal; a list of other length differs as a whole."""
    kept = [text(each) for each in before]
    new = []
    for each in after:
        if text(each) in kept:
            kept.remove(text(each))
        else:
            new.append(each)
    old = []
    for each in before:
        if text(each) in kept:
            kept.remove(text(each))
            old.append(each)
    pairs = list(zip(old, new, strict=False))
    if len(old) != len(new) or not all(isinstance(side, Mapping) for pair in pairs for side in pair):
        yield path, before, after
        return
    for one, other in pairs:
        yield from leaves(one, other, path)


def _ordered(value: object) -> object:
    """Sort lists, read JSON texts, and write scalars as CloudFormation reads them (80 and "80" are equal)."""
    if isinstance(value, Mapping):
        return {key: _ordered(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((_ordered(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        inner = nested(value)
        return value if inner is None else {"JSON": _ordered(inner)}
    return value if value is None else str(value)
