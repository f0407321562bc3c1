"""Find the fields of an object that the Kubernetes API does not have.

The source is the Kubernetes client, which is generated from the API's own description. Below `spec`, the fields of
custom resources are their rules' own matter.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from kubernetes import client

from ops.review.kubernetes.objects import Body

_ITEMS: Final = re.compile(r"list\[(.*)\]|dict\(str, (.*)\)")
_OF_EVERY_OBJECT: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_VERSION: Final = re.compile(r"v\d+((alpha|beta)\d+)?")


def strange_fields(before: Body | None, after: Body) -> list[str]:
    """Return the paths of the fields that the API lacks and that are new, or have another value than before."""
    known = dict(_strange(before)) if before is not None else {}
    missing = object()
    return sorted(path for path, value in _strange(after) if known.get(path, missing) != value)


def _strange(body: Body) -> Iterator[tuple[str, Any]]:
    if model := _model(str(body.get("apiVersion", "")), str(body.get("kind", ""))):
        yield from _of(body, model, "")
    else:
        yield from ((key, value) for key, value in body.items() if key not in _OF_EVERY_OBJECT)


def _of(value: Any, model: str, path: str) -> Iterator[tuple[str, Any]]:
    if items := _ITEMS.fullmatch(model):
        inner = items[1] or items[2]
        each = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        for key, item in each:
            yield from _of(item, inner, f"{path}.{key}")
        return
    fields = _fields(model)
    if fields is None or not isinstance(value, Mapping):
        return
    for key, item in value.items():
        here = f"{path}.{key}".lstrip(".")
        if key in fields:
            yield from _of(item, fields[key], here)
        else:
            yield here, item


@cache
def _fields(model: str) -> dict[str, str] | None:
    """Return the types of a model's fields by their names in YAML; None for a type without fields."""
    found = getattr(client, model, None)
    names = getattr(found, "attribute_map", None)
    return {names[key]: kind for key, kind in found.openapi_types.items()} if found and names else None


@cache
def _model(api_version: str, kind: str) -> str:
    """Return the client's model of a kind, "" if it has none: a custom resource, or an API that it lacks."""
    version = _VERSION.fullmatch(api_version.rpartition("/")[2])
    name = f"{version[0].capitalize()}{kind}" if version else ""
    return name if _fields(name) else ""
