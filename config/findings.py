"""What is wrong with an environment, or worth a second look."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Severity(Enum):
    """An error keeps the environment from being used; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One thing: `key` is the dotted path in the file, empty for the file as a whole; `rule` the id of the rule that
    found it, empty where the value is of a wrong kind.
    """

    key: str
    message: str
    rule: str = ""
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        text = f"{self.key}: {self.message}" if self.key else self.message
        return f"{text} [{self.rule}]" if self.rule else text


class ConfigError(Exception):
    """An environment file cannot be used. `str()` is the whole message for a person, one finding a line."""

    def __init__(self, file: Path, findings: list[Finding]) -> None:
        self.file = file
        self.findings = findings
        super().__init__("\n".join(f"{file}: {finding}" for finding in findings))
