"""What a check is: a title, a function that looks at the account, and the results that the function yields."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from ops.preflight.here import Here


class CheckStatus(StrEnum):
    """PASS: a deployment will not fail for this reason. WARN: it may, or nobody could look. FAIL: it would fail."""

    PASS = auto()
    WARN = auto()
    FAIL = auto()


@dataclass(frozen=True)
class CheckFinding:
    """What a check found: about which of its subjects, in words, and the command or the step that mends it."""

    verdict: CheckStatus
    text: str
    fix: str = ""
    about: str = ""


CheckFunction = Callable[[Here[Any]], Iterator[CheckFinding]]


@dataclass(frozen=True)
class Check:
    """One check of the table; the signature of `look` says which environments it is for."""

    title: str
    inspect: CheckFunction


@dataclass(frozen=True)
class CheckResult:
    """One row of the table. `about` names which of the check's subjects it is about, if there are several."""

    title: str
    about: str
    verdict: CheckStatus
    found: str
    fix: str

    @property
    def check(self) -> str:
        """Title and subject in one phrase."""
        return f"{self.title}: {self.about}" if self.about else self.title


def passed(text: str, about: str = "") -> CheckFinding:
    """Return what is as it must be."""
    return CheckFinding(CheckStatus.PASS, text, about=about)


def warned(text: str, fix: str, about: str = "") -> CheckFinding:
    """Return what may keep a deployment from succeeding."""
    return CheckFinding(CheckStatus.WARN, text, fix, about)


def failed(text: str, fix: str, about: str = "") -> CheckFinding:
    """Return what keeps a deployment from succeeding."""
    return CheckFinding(CheckStatus.FAIL, text, fix, about)
