"""Turn pydantic's errors into findings: values of a wrong kind, missing keys, unknown keys."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from pydantic_core import ErrorDetails

from config.findings import HIDDEN, MISSING, Finding, Place, in_words, may_be_secret, named
from config.reading.declared import AllowedValues, accepts, allowed_at, is_declared, keys_of, places_of
from config.reading.earlier_schemas import removal_at
from config.reading.other_words import absent, synonym
from config.suggest import closest, did_you_mean

_KINDS: Final = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", float: "a decimal fraction"}
# pydantic's errors that only say that the kind of the value is wrong.
_WRONG_KIND: Final = {
    *("int_type", "int_parsing", "int_from_float", "string_type", "bool_type", "bool_parsing", "tuple_type"),
    *("dict_type", "model_type"),
}
_REASONS: Final = {
    "greater_than_equal": "it is too low",
    "greater_than": "it is too low",
    "less_than_equal": "it is too high",
}
# Plain texts that YAML 1.1 reads as true or false.
_TRUE: Final = frozenset({"yes", "on", "y", "true"})
_FALSE: Final = frozenset({"no", "off", "n", "false"})
_KEY: Final = "[key]"
"""pydantic ends the place of a mapping's key with it."""


def first_hand(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors without those that follow from others.

    pydantic also calls a list too short if it refuses an item: it counts only the right items. A default that depends
    on other values is missing if one of them is refused.
    """
    errors = [error for error in errors if error["type"] != "default_factory_not_called"]
    items = {error["loc"][:length] for error in errors for length in range(len(error["loc"]))}
    return [error for error in errors if error["type"] != "too_short" or error["loc"] not in items]


def kind_finding(error: ErrorDetails, document: Any, spellings: Mapping[Place, str] = MappingProxyType({})) -> Finding:
    """Return pydantic's error as a finding of the document; `spellings` are those of its file."""
    place = tuple(part for part in error["loc"] if part != _KEY)
    key = ".".join(map(str, place))
    return Finding(key, *_parts(error, place, document, spellings.get(place)), label=named(key, document))


def advice(place: Place, text: str) -> tuple[str, str] | None:
    """Return what the place allows, and what to write there instead of a plain text; None if the place is unknown."""
    if not is_declared(place):
        return None
    allowed = allowed_at(place)
    return allowed.text, "put it in quotes" if may_be_secret(place) else _right_kind(text, place, allowed)


def _parts(error: ErrorDetails, place: Place, document: Any, spelling: str | None) -> tuple[str, str, str, str]:
    """Return value, reason, what is allowed, and fix."""
    if error["type"] == "extra_forbidden":
        if earlier := removal_at(place, document):
            reason, keys = f"version {earlier.version} removed it: {earlier.reason}", ", ".join(keys_of(place[:-1]))
            return f"key {place[-1]!r}", reason, keys, "run `ops migrate`"
        return _unknown_key(place)
    allowed = allowed_at(place, key=error["loc"][-1:] == (_KEY,))
    value = error["input"]
    if error["type"] == "missing":
        other = "; or add `slurm` if Slurm orchestrates the cluster" if place == ("eks",) else ""
        return MISSING, "the key is required", allowed.text, f"add `{place[-1]}`, {allowed.like}{other}"
    shown = "(empty)" if value is None else HIDDEN if may_be_secret(place) else spelling or in_words(value)
    reason, text, fix = _refusal(error, value, allowed)
    if value is not None and error["type"] in {*_WRONG_KIND, "literal_error"}:
        fix = _right_kind(spelling or value, place, allowed)
    return shown, reason, text, f"write {allowed.like} in quotes" if shown == HIDDEN else fix


def _unknown_key(place: Place) -> tuple[str, str, str, str]:
    name = str(place[-1])
    here = keys_of(place[:-1])
    if feature := absent(place):
        reason = f"HyperPod has {feature.name} ({feature.field}), but this project does not yet"
        return f"key {name!r}", reason, ", ".join(here), f"remove it; {feature.instead}"
    guess = synonym(name, here) or closest(name, here)
    elsewhere = [] if guess == name else places_of(name, place[:-1])
    if elsewhere:
        fix = f"move `{name}` to {' or '.join(elsewhere)}, where it belongs"
        fix += f"; or did you mean {guess!r}?" if guess else ""
    else:
        fix = f"did you mean {guess!r}?" if guess else "remove it"
    return f"key {name!r}", "the key is unknown here", ", ".join(here) or "no keys: {}", fix


def _refusal(error: ErrorDetails, value: Any, allowed: AllowedValues) -> tuple[str, str, str]:
    """Return reason, what is allowed, and fix."""
    kind, context = error["type"], error.get("ctx", {})
    match kind:
        case "facts_disagree":
            return context["reason"], context["allowed"], context["fix"]
        case "too_short":
            return _length(context["actual_length"], "or more", context["min_length"])
        case "too_long":
            return _length(context["actual_length"], "or fewer", context["max_length"])
        case _:
            return _reason(kind, value, allowed, error["msg"]), allowed.text, _fix(kind, value, allowed)


def _length(number: int, bound: str, limit: int) -> tuple[str, str, str]:
    return f"it has {number} items", f"{limit} items {bound}", f"list {limit} items {bound}"


def _reason(kind: str, value: Any, allowed: AllowedValues, message: str) -> str:
    if value is None:
        return "the key has no value"
    if kind in _WRONG_KIND:
        return f"it is {_kind(value)}"
    if kind == "string_pattern_mismatch":
        mistakes = allowed.shape.mistakes if allowed.shape else ()
        known = (what for pattern, what in mistakes if re.fullmatch(pattern, value))
        return next(known, "it has another form")
    if "host bits" in message:
        return f"its address has digits after the /{str(value).rpartition('/')[2]}"
    return _REASONS.get(kind, "it is not one of the values" if allowed.values else "it is not an address block")


def _fix(kind: str, value: Any, allowed: AllowedValues) -> str:
    if value is None:
        return f"write a value, {allowed.like}, or remove the key"
    if kind == "string_pattern_mismatch" and allowed.shape:
        return allowed.shape.fix
    if kind in _REASONS:
        return "lower it" if kind == "less_than_equal" else "raise it"
    return _written_block(value) or f"write {allowed.like}"


def _kind(value: Any) -> str:
    return next((shown for kind, shown in _KINDS.items() if isinstance(value, kind)), "a whole number")


def _right_kind(written: Any, place: Place, allowed: AllowedValues) -> str:
    """Return how to write the same value as a kind that the place accepts, or else what to write."""
    text = written if isinstance(written, str) else in_words(written)
    if not isinstance(written, list | dict):
        if accepts(place, text):
            return f'write it in quotes: "{text}"'
        for value in _meanings(text):
            if accepts(place, value):
                return f"write it without quotes: {text}" if written == str(value) else f"write {in_words(value)}"
    if allowed.values and accepts(place, allowed.values[-1]) and [*_meanings(allowed.values[-1])]:
        return f'write one of them in quotes, such as "{allowed.values[-1]}"'
    if allowed.values:
        return did_you_mean(text, allowed.values)
    return f'write text such as "{allowed.shape.like}"' if allowed.shape else f"write {allowed.like}"


def _meanings(text: str) -> Iterator[Any]:
    """Yield the number, and the truth, that a plain text stands for."""
    if text.lower() in _TRUE | _FALSE:
        yield text.lower() in _TRUE
    for number in (lambda: int(text, 0), lambda: int(text), lambda: float(text)):
        with suppress(ValueError, OverflowError):
            yield int(found) if (found := number()) == int(found) else found


def _written_block(value: Any) -> str:
    from ipaddress import IPv4Network  # noqa: PLC0415

    try:
        # A number would be an address, too.
        block = IPv4Network(str(value), strict=False)
    except ValueError:
        return ""
    return f"write {block}"
