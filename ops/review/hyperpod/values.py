"""Compare and show values of a template as the cluster's handler reads them."""

import json
from collections.abc import Mapping
from typing import Any


def is_intrinsic(value: Any) -> bool:
    """Return whether CloudFormation computes the value at the deployment (`Ref`, `Fn::…`)."""
    return isinstance(value, Mapping) and len(value) == 1 and next(iter(value)).startswith(("Ref", "Fn::"))


def has_intrinsic(value: Any) -> bool:
    """Return whether any part of the value is known only at the deployment."""
    if isinstance(value, Mapping):
        return is_intrinsic(value) or any(map(has_intrinsic, value.values()))
    return isinstance(value, list) and any(map(has_intrinsic, value))


def same(one: Any, other: Any) -> bool:
    """Return whether the handler sees no difference: scalars are texts to it, and the order of lists means nothing."""
    return _canonical(one) == _canonical(other)


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the keys whose values differ, in the order of the templates."""
    return [key for key in dict.fromkeys([*before, *after]) if not same(before.get(key), after.get(key))]


def shown(value: Any) -> str:
    """Return the value on one short line."""
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 80 else f"{text[:77]}…"


def sentence(clause: str) -> str:
    """Return the clause as a sentence."""
    return f"{clause[:1].upper()}{clause[1:]}." if clause else ""


def _canonical(value: Any) -> str:
    if is_intrinsic(value):
        # Its arguments have an order.
        return json.dumps(value, sort_keys=True)
    if isinstance(value, Mapping):
        return json.dumps({key: _canonical(item) for key, item in value.items()}, sort_keys=True)
    if isinstance(value, list):
        return json.dumps(sorted(map(_canonical, value)))
    return str(value).lower() if isinstance(value, bool) else "" if value is None else json.dumps(str(value))
