"""Errors and warnings about an environment, in one form."""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

Place = tuple[int | str, ...]
"""The path to a value: keys of mappings, numbers of list items."""

MISSING: Final = "(missing)"
HIDDEN: Final = "a value that is not shown"
"""Messages show this for a value that may be secret: findings appear in logs."""
_LONGEST: Final = 80


class Severity(Enum):
    """An error keeps the environment from being used; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


class Finding(NamedTuple):
    """One error or warning.

    `key` is the dotted path in the file, empty for the file as a whole; `value` is the value at the key, in words;
    `rule` is the id of the rule that found it, empty for a value of a wrong kind. `accepted` is the environment's
    reason to accept a warning. `line` is 0 for the file as a whole. `label` is the key with the names of the list items
    on its path.
    """

    key: str
    value: str
    reason: str
    allowed: str
    fix: str
    rule: str = ""
    severity: Severity = Severity.ERROR
    accepted: str = ""
    file: Path | None = None
    line: int = 0
    label: str = ""

    def __str__(self) -> str:
        """Return `FILE:LINE KEY: VALUE is invalid: REASON. Allowed: … Fix: … [RULE]`."""
        place = " ".join(part for part in (self._place(), self.label or self.key) if part)
        verdict, label = ("is invalid", "Allowed") if self.severity is Severity.ERROR else ("is risky", "Advised")
        end = "" if self.fix.endswith("?") else "."
        text = f"{self.value} {verdict}: {self.reason}. {label}: {self.allowed}. Fix: {self.fix}{end}"
        return f"{place}: {text}{f' [{self.rule}]' if self.rule else ''}"

    def _place(self) -> str:
        if self.file is None:
            return ""
        file = shown(self.file)
        return f"{file}:{self.line}" if self.line else file


class ConfigError(Exception):
    """The configuration cannot be used; `str()` is the whole message."""


class InvalidEnvironmentError(ConfigError):
    """An environment file has errors; the message has a line for each of `findings`."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings
        super().__init__("\n".join(map(str, findings)))


def shown(file: Path) -> str:
    """Return the file's path as messages show it: relative to the working directory, if the file is below it."""
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)


def named(key: str, root: Any) -> str:
    """Return the key with the names of the list items on its path: `instance_groups.1 (worker-group-1).count`.

    `root` is the document or the model in which the key begins.
    """
    parts = []
    for part, value, is_item in _steps(key, root):
        name = _get(value, "name") if is_item else None
        parts.append(f"{part} ({name})" if isinstance(name, str) and name else str(part))
    return ".".join(parts)


def place_of(key: str, root: Any) -> Place:
    """Return the place of a dotted key; keys of the document's own mappings may contain dots."""
    return tuple(part for part, *_ in _steps(key, root))


def value_at(key: str, root: Any) -> Any:
    """Return the value of a dotted key, or None if there is none."""
    *_, (_, value, _) = ("", root, False), *_steps(key, root)
    return value


def may_be_secret(place: Place) -> bool:
    """Return whether the place is within `env`, where people put tokens by mistake."""
    return "env" in place[:-1]


def in_words(value: Any) -> str:
    """Return a value as messages show it."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(value) if len(value) <= _LONGEST else f"{value[:_LONGEST]!r}…"
    if isinstance(value, list | tuple):
        plain = all(isinstance(item, str | int | float) for item in value)
        text = f"[{', '.join(map(str, value))}]"
        return text if plain and len(text) <= _LONGEST else f"a list of {len(value)}"
    return "a mapping" if isinstance(value, dict) or hasattr(value, "model_fields_set") else str(value)


def _steps(key: str, root: Any) -> Iterator[tuple[int | str, Any, bool]]:
    """Yield each part of the key with the value there and whether it is an item of a list."""
    parts = key.split(".") if key else []
    while parts:
        if isinstance(root, list | tuple):
            word = parts.pop(0)
            number = int(word) if word.isdigit() else -1
            root = root[number] if 0 <= number < len(root) else None
            yield (number if number >= 0 else word), root, True
            continue
        length = 1
        if isinstance(root, dict):
            length = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in root), 1)
        part, parts = ".".join(parts[:length]), parts[length:]
        root = _get(root, part)
        yield part, root, False


def _get(container: Any, key: str) -> Any:
    return container.get(key) if isinstance(container, dict) else getattr(container, key, None)
