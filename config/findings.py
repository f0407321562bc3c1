"""What is wrong with an environment, or worth a second look."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any


class Severity(Enum):
    """An error keeps the environment from being used; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One thing: `key` is the dotted path in the file, empty for the file as a whole; `rule` the id of the rule that
    found it, empty where the value is of a wrong kind. `accepted` is the environment's reason to live with a warning.
    """

    key: str
    message: str
    rule: str = ""
    severity: Severity = Severity.ERROR
    accepted: str = ""

    def __str__(self) -> str:
        text = f"{self.key}: {self.message}" if self.key else self.message
        return f"{text} [{self.rule}]" if self.rule else text


class ConfigError(Exception):
    """An environment file cannot be used. `str()` is the whole message for a person, one finding a line."""

    def __init__(self, file: Path, findings: list[Finding]) -> None:
        self.file = file
        self.findings = findings
        super().__init__("\n".join(f"{file}: {finding}" for finding in findings))


def named(key: str, root: Any) -> str:
    """Return the key with the names of the list items on its way: `instance_groups.1 (worker-group-1).count`.

    `root` is the document, or the model, that the key begins at.
    """
    said = []
    for part in key.split("."):
        if isinstance(root, list | tuple):
            root = root[int(part)] if part.isdigit() and int(part) < len(root) else None
            name = _get(root, "name")
            said.append(f"{part} ({name})" if isinstance(name, str) and name else part)
        else:
            root = _get(root, part)
            said.append(part)
    return ".".join(said)


def _get(container: Any, key: str) -> Any:
    return container.get(key) if isinstance(container, dict) else getattr(container, key, None)
