"""How a rule is written."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from inspect import cleandoc
from pathlib import Path
from typing import Any

from config.findings import Finding, Severity, in_words, named, value_at


@dataclass(frozen=True)
class Violation:
    """One breach of a rule: the key, why its value cannot be, what can, and what to do.

    `value` says what stands at the key where the value itself would say too little; `file` and `line` are for what
    stands in another file than the environment's.
    """

    key: str
    reason: str
    allowed: str
    fix: str
    value: str = ""
    file: Path | None = None
    line: int = 0


Check = Callable[..., Iterator[Violation]]


@dataclass(frozen=True)
class Explanation:
    """What `ops explain` says of a rule; `example` is lines `KEY: VALUE` that break it."""

    what: str
    why: str
    source: str
    example: str


@dataclass(frozen=True)
class Rule:
    """A rule, by the id that findings and docs show.

    The docstring of its check explains it: what it demands, then the sections `Why:`, `Source:` and `Example:`.
    """

    id: str
    check: Check
    severity: Severity = Severity.ERROR

    def __call__(self, *environments: Any) -> Iterator[Finding]:
        """Yield what it finds; keys are of the first environment."""
        for each in self.check(*environments):
            value = each.value or in_words(value_at(each.key, environments[0]))
            yield Finding(
                *(each.key, value, each.reason, each.allowed, each.fix, self.id, self.severity),
                file=each.file,
                line=each.line,
                label=named(each.key, environments[0]),
            )

    @cached_property
    def explanation(self) -> Explanation:
        """What its docstring says."""
        what, *sections = re.split(r"^(Why|Source|Example):", cleandoc(self.check.__doc__ or ""), flags=re.MULTILINE)
        said = dict(zip(sections[::2], sections[1::2], strict=True))
        why, source = (" ".join(said.get(name, "").split()) for name in ("Why", "Source"))
        return Explanation(" ".join(what.split()), why, source, cleandoc(said.get("Example", "")).strip())


def error(id: str) -> Callable[[Check], Rule]:
    """Decorate a check whose violation keeps the environment from being used."""
    return lambda check: Rule(id, check)


def warning(id: str) -> Callable[[Check], Rule]:
    """Decorate a check whose violation is worth a second look."""
    return lambda check: Rule(id, check, Severity.WARNING)
