"""Says in an environment's own words what pydantic refused: a value of a wrong kind, a missing or unknown key."""

from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from config.findings import Finding, named
from config.model import Environment
from config.partial import model_within

_KINDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
}


def first_hand(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors without those that follow from others.

    Of a list with an item that it refuses pydantic says that it is too short, too: it counts the items that are right.
    """
    items = {error["loc"][:length] for error in errors for length in range(len(error["loc"]))}
    return [error for error in errors if error["type"] != "too_short" or error["loc"] not in items]


def kind_finding(error: ErrorDetails, document: Any) -> Finding:
    """Return pydantic's error as a finding of the document."""
    return Finding(named(".".join(map(str, error["loc"])), document), _message(error))


def _message(error: ErrorDetails) -> str:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return f"is not a key here (unknown, or not supported yet); allowed: {', '.join(_keys(error))}"
    if kind in _KINDS:
        return f"{_said(value)}; allowed: {_KINDS[kind]}{_advice(kind, value)}"
    said = _said(value)
    match kind:
        case "string_pattern_mismatch":
            allowed = f"text that matches {context['pattern']}"
        case "literal_error":
            allowed = str(context["expected"])
        case "greater_than_equal":
            allowed = f"{context['ge']} and more"
        case "greater_than":
            allowed = f"more than {context['gt']}"
        case "less_than_equal":
            allowed = f"{context['le']} and less"
        case "too_short":
            said, allowed = f"{context['actual_length']} of them", f"{context['min_length']} and more"
        case "too_long":
            said, allowed = f"{context['actual_length']} of them", f"at most {context['max_length']}"
        case _:
            return f"{error['msg'].removeprefix('Value error, ')}; {said}"
    return f"{said}; allowed: {allowed}"


def _said(value: Any) -> str:
    if value is None:
        return "is empty (null)"
    if isinstance(value, str | int | float):
        return f"got {value!r}"
    return "got a mapping" if isinstance(value, dict) else "got a list"


def _advice(kind: str, value: Any) -> str:
    if kind == "string_type" and isinstance(value, int | float):
        said = str(value).lower() if isinstance(value, bool) else value
        return f'; write it in quotes: "{said}"'
    if kind.startswith("int_") and isinstance(value, str) and value.isascii() and value.isdigit():
        return f"; write it without quotes: {value}"
    return ""


def _keys(error: ErrorDetails) -> list[str]:
    """The keys of the mapping that an unknown one stands in."""
    model: type[BaseModel] = Environment
    for part in error["loc"][:-1]:
        field = model.model_fields.get(str(part))
        model = (field and model_within(field.annotation)) or model
    return list(model.model_fields)
