"""Compare nested values of objects, and show what differs."""

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_ABSENT: Final = "none"
_SHOWN: Final = 4
_LENGTH: Final = 60
# Fields by which Kubernetes identifies the items of a list.
_NAMES: Final = ("name", "groupName", "containerPort")


@dataclass(frozen=True)
class Delta:
    """A value that differs; None if it is absent on a side."""

    path: tuple[str, ...]
    before: Any
    after: Any

    def __str__(self) -> str:
        """Return the delta on one line: `spec.replicas 2 → 3`."""
        return f"{'.'.join(self.path)} {shown(self.before)} → {shown(self.after)}".strip()


def deltas(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[Delta]:
    """Yield the values that differ, deepest first level by level; items with names are compared by name."""
    if before == after:
        return
    old, new = _by_name(before), _by_name(after)
    if old is None and before is None and new:
        old = {}
    if new is None and after is None and old:
        new = {}
    if old is None or new is None:
        yield Delta(path, before, after)
        return
    if not old and not new:
        yield Delta(path, before, after)
        return
    for key in sorted(old.keys() | new.keys()):
        yield from deltas(old.get(key), new.get(key), (*path, key))


def fields(before: Any, after: Any, *keys: str) -> list[Delta]:
    """Return the values that differ in these fields of an object or a part of it."""
    return [each for key in keys for each in deltas(at(before, key), at(after, key), (key,))]


def others(before: Any, after: Any, known: Container[str]) -> list[Delta]:
    """Return the values that differ in all other fields than the known ones."""
    return [each for each in deltas(before, after) if each.path[0] not in known]


def summary(changed: Iterable[Delta | str]) -> str:
    """Return deltas on one line, the first few in full."""
    texts = [str(each) for each in changed]
    more = [f"{len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return "; ".join([*texts[:_SHOWN], *more])


def shown(value: Any) -> str:
    """Return a value for a reader: short, on one line."""
    if value is None:
        return _ABSENT
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    text = " ".join(text.split())
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}…"


def at(body: Any, *path: str) -> Any:
    """Return the value at `path`; None if any level is absent."""
    for key in path:
        if not isinstance(body, Mapping):
            return None
        body = body.get(key)
    return body


def _by_name(value: Any) -> Mapping[str, Any] | None:
    """Return a mapping, or a list of named items as one; None for any other value."""
    if isinstance(value, Mapping):
        return {str(key): each for key, each in value.items()}
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        for field in _NAMES:
            names = [str(item.get(field)) for item in value]
            if all(field in item for item in value) and len(set(names)) == len(names):
                return dict(zip(names, value, strict=True))
    return None
