"""Look up what the models declare at a place of an environment: the keys, and the kind of value in words."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from config.findings import Place
from config.model.base import Shape
from config.model.environment import every_key
from config.reading.partial_environment import model_within

_SIMPLE: Final = {
    str: ("text", "some text"),
    int: ("a whole number", "a whole number"),
    bool: ("true or false", "`true` or `false`"),
    Any: ("any value", "any value"),
    IPv4Network: (
        "an IPv4 address block in CIDR notation, such as 10.192.0.0/16",
        "an IPv4 block such as 10.192.0.0/16",
    ),
}


@dataclass(frozen=True)
class AllowedValues:
    """The allowed values: `text` describes them, `like` is a phrase with an example; `shape` or `values` if known."""

    text: str
    like: str
    shape: Shape | None = None
    values: tuple[str, ...] = ()


def allowed_at(place: Place, *, key: bool = False) -> AllowedValues:
    """Return the allowed values at the place; with `key`, the allowed keys of the user's own mapping there."""
    annotation = _annotation(place[:-1] if key else place)
    return _allowed(get_args(_bare(annotation)[0])[0] if key else annotation)


def is_declared(place: Place) -> bool:
    """Return whether the models declare the place."""
    return _annotation(place) is not None


def accepts(place: Place, value: Any) -> bool:
    """Return whether the type at the place takes the value; rules may still refuse it."""
    try:
        # As environments are read: lists are tuples there, and texts networks.
        TypeAdapter(_annotation(place)).validate_json(json.dumps(value), strict=True)
    except ValidationError:
        return False
    return True


def keys_of(place: Place) -> list[str]:
    """Return the keys of the mapping at the place."""
    model = model_of(place)
    return list(model.model_fields) if model else []


def model_of(place: Place) -> type[BaseModel] | None:
    """Return the model of the mapping at the place."""
    return model_within(_bare(_annotation(place))[0])


def places_of(key: str, here: Place) -> list[str]:
    """Return in words the nearest mappings that have a key which the mapping at `here` lacks."""
    mine = _pattern(here)
    found = [way for way, model in _mappings(every_key(), ()) if key in model.model_fields]
    near = {way: len(way) + len(mine) - 2 * _common(way, mine) for way in found}
    least = min(near.values(), default=0)
    return [f"`{'.'.join(way)}`" if way else "the top level" for way, far in near.items() if far == least]


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _pattern(place: Place) -> tuple[str, ...]:
    """Return the place with `[]` for each number of an item."""
    names: list[str] = []
    for part in place:
        if isinstance(part, int):
            names[-1] += "[]"
        else:
            names.append(part)
    return tuple(names)


def _mappings(model: type[BaseModel], way: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], type[BaseModel]]]:
    yield way, model
    for name, field in model.model_fields.items():
        if inner := model_within(field.annotation):
            step = name + ("[]" if get_origin(_bare(field.annotation)[0]) is tuple else "")
            yield from _mappings(inner, (*way, step))


def _annotation(place: Place) -> Any:
    """Return the annotation at the place, or None if the models do not declare it."""
    annotation: Any = every_key()
    for part in place:
        annotation = _below(annotation, part)
    return annotation


def _below(annotation: Any, part: int | str) -> Any:
    """Return the annotation of an item, or of the value of a key."""
    bare, _ = _bare(annotation)
    if isinstance(bare, type) and issubclass(bare, BaseModel):
        field = bare.model_fields.get(str(part))
        return _annotated(field) if field else None
    arguments = get_args(bare)
    if get_origin(bare) is tuple:
        return arguments[0]
    return arguments[1] if get_origin(bare) is dict else None


def _annotated(field: FieldInfo) -> Any:
    extra = field.json_schema_extra
    if field.annotation is str and isinstance(extra, dict) and isinstance(values := extra.get("enum"), list):
        return Literal[tuple(map(str, values))]
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def _bare(annotation: Any) -> tuple[Any, list[Any]]:
    """Return the annotation without `None` and without metadata, and the metadata."""
    metadata: list[Any] = []
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            for each in more:
                metadata += each.metadata if isinstance(each, FieldInfo) else [each]
            continue
        options = [each for each in get_args(annotation) if each is not type(None)]
        if len(options) == 1 and type(None) in get_args(annotation):
            [annotation] = options
            continue
        return annotation, metadata


def _allowed(annotation: Any) -> AllowedValues:
    bare, metadata = _bare(annotation)
    for each in metadata:
        if isinstance(each, Shape):
            return AllowedValues(f"{each.what}, such as {each.like}", f"such as {each.like}", each)
    if get_origin(bare) is Literal:
        values = tuple(map(str, get_args(bare)))
        return AllowedValues(", ".join(values), f"one of {', '.join(values)}", values=values)
    if model := bare if isinstance(bare, type) and issubclass(bare, BaseModel) else None:
        return AllowedValues(f"a mapping with {', '.join(model.model_fields) or 'no keys'}", "a mapping of these keys")
    if get_origin(bare) is tuple:
        return AllowedValues(
            f"a list, each item {_allowed(get_args(bare)[0]).text}", "a list in brackets, or with hyphens"
        )
    if get_origin(bare) is dict:
        return AllowedValues("a mapping of keys to values", "a mapping, with lines `key: value`")
    text, like = _SIMPLE[bare]
    return AllowedValues(text + _bounds(metadata), like)


def _bounds(metadata: list[Any]) -> str:
    least = next((each.ge for each in metadata if hasattr(each, "ge")), None)
    least = next((each.gt + 1 for each in metadata if hasattr(each, "gt")), least)
    most = next((each.le for each in metadata if hasattr(each, "le")), None)
    if least is None:
        return ""
    return f", {least} or more" if most is None else f", {least} to {most}"
