"""Build the part of an environment whose values are of the right kind, so that rules can check it."""

import json
from collections.abc import Collection
from functools import cache
from typing import Any, Final, get_args

from pydantic import BaseModel, TypeAdapter

from config.findings import Place
from config.model import Environment
from config.model.base import Model
from config.model.environment import model_of

_UNKNOWN: Final = object()


def known_part(document: Any, refused: Collection[Place]) -> Environment:
    """Return the environment without the values at the places that pydantic refused.

    Reading such a value, or a missing one, raises UnknownValueError. Use the result for findings only.
    """
    part: Environment = _part(model_of(document if isinstance(document, dict) else {}), document, (), refused)
    return part


def _part(model: type[BaseModel], value: Any, here: Place, refused: Collection[Place]) -> Any:
    values = value if isinstance(value, dict) and here not in refused else {}
    known, unknown = {}, []
    for name, field in model.model_fields.items():
        if name in values:
            typed = _typed(model, name, values[name], (*here, name), refused)
            if typed is _UNKNOWN:
                unknown.append(name)
            else:
                known[name] = typed
        elif field.is_required() or values is not value:
            unknown.append(name)
    part = model.model_construct(set(known), **known)
    for name in unknown:
        # Otherwise the default would be read as if the file stated it.
        part.__dict__.pop(name, None)
    return part


def _typed(of: type[BaseModel], name: str, value: Any, here: Place, refused: Collection[Place]) -> Any:
    if not any(place[: len(here)] == here for place in refused):
        return _adapter(of, name).validate_json(json.dumps(value))
    model = model_within(of.model_fields[name].annotation)
    # The catalogue's models are taken as a whole: a type that lacks one figure is unknown.
    if model is None or not issubclass(model, Model) or here in refused:
        return _UNKNOWN
    if isinstance(value, list):
        return tuple(_part(model, item, (*here, n), refused) for n, item in enumerate(value))
    return _part(model, value, here, refused)


@cache
def _adapter(model: type[BaseModel], name: str) -> TypeAdapter[Any]:
    """Return the adapter of a field; building it takes longer than reading a value."""
    return TypeAdapter(model.model_fields[name].annotation)  # type: ignore[arg-type]  # None in no declared field


def model_within(annotation: Any) -> type[BaseModel] | None:
    """Return the model in a field's annotation: itself, or that of a list or an optional value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := model_within(part))), None)
