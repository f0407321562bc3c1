"""How a rule is written."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from config.findings import Finding, Severity, named
from config.model import Environment

# Yields the key and the message of each violation; the message names the value and what is allowed.
Check = Callable[[Environment], Iterator[tuple[str, str]]]


@dataclass(frozen=True)
class Rule:
    """A rule, by the id that findings and docs show; the check's docstring says why, with its source."""

    id: str
    check: Check
    severity: Severity = Severity.ERROR

    def __call__(self, environment: Environment) -> Iterator[Finding]:
        for key, message in self.check(environment):
            yield Finding(named(key, environment), message, self.id, self.severity)


def error(id: str) -> Callable[[Check], Rule]:
    """Decorate a check whose violation keeps the environment from being used."""
    return lambda check: Rule(id, check)


def warning(id: str) -> Callable[[Check], Rule]:
    """Decorate a check whose violation is worth a second look."""
    return lambda check: Rule(id, check, Severity.WARNING)
