"""The classes and decorators that rules are written with."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from inspect import cleandoc
from pathlib import Path
from typing import Any, NamedTuple

from config.findings import Finding, Severity, in_words, named, value_at
from config.model.environment import types_taken


class Violation(NamedTuple):
    """One breach of a rule: the key, the reason, what is allowed, and how to fix it.

    `value` describes the value at the key if the value alone would say too little; `file` and `line` are set if it is
    in another file than the environment's.
    """

    key: str
    reason: str
    allowed: str
    fix: str
    value: str = ""
    file: Path | None = None
    line: int = 0


Check = Callable[..., Iterator[Violation]]


class Explanation(NamedTuple):
    """The text of `ops explain` about a rule; `example` is lines `KEY: VALUE` that break the rule."""

    what: str
    why: str
    source: str
    example: str


@dataclass(frozen=True)
class Rule:
    """A rule with the id that findings and docs show.

    The docstring of its check explains it: the requirement, then the sections `Why:`, `Source:` and `Example:`. Its
    signature says which environments it is for: `EksEnvironment`, `SlurmEnvironment`, or any `Environment`.
    """

    id: str
    check: Check
    severity: Severity = Severity.ERROR

    def finding(self, breach: Violation, environment: Any) -> Finding:
        """Return the finding about a breach, whose key is the environment's."""
        return Finding(
            breach.key,
            breach.value or in_words(value_at(breach.key, environment)),
            *(breach.reason, breach.allowed, breach.fix, self.id, self.severity),
            file=breach.file,
            line=breach.line,
            label=named(breach.key, environment),
        )

    @cached_property
    def environments(self) -> tuple[type, ...]:
        """The types of environments that it is for."""
        return types_taken(self.check)

    @cached_property
    def explanation(self) -> Explanation:
        """The parts of the check's docstring."""
        what, *sections = re.split(r"^(Why|Source|Example):", cleandoc(self.check.__doc__ or ""), flags=re.MULTILINE)
        stated = dict(zip(sections[::2], sections[1::2], strict=True))
        why, source = (" ".join(stated.get(name, "").split()) for name in ("Why", "Source"))
        return Explanation(" ".join(what.split()), why, source, cleandoc(stated.get("Example", "")).strip())


def error(id: str) -> Callable[[Check], Rule]:
    """Decorate a check whose violations are errors: the environment cannot be used."""
    return lambda check: Rule(id, check)


def warning(id: str) -> Callable[[Check], Rule]:
    """Decorate a check whose violations are warnings."""
    return lambda check: Rule(id, check, Severity.WARNING)
