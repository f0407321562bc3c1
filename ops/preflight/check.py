"""What a check is: a title, a function that looks at the account, and the results that the function yields."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from ops.preflight.here import Here


class Verdict(StrEnum):
    """PASS: a deployment will not fail for this reason. WARN: it may, or nobody could look. FAIL: it would fail."""

    PASS = auto()
    WARN = auto()
    FAIL = auto()


@dataclass(frozen=True)
class Found:
    """What a check found: about which of its subjects, in words, and the command or the step that mends it."""

    verdict: Verdict
    text: str
    fix: str = ""
    about: str = ""


Look = Callable[[Here[Any]], Iterator[Found]]


@dataclass(frozen=True)
class Check:
    """One check of the table; the signature of `look` says which environments it is for."""

    title: str
    look: Look


@dataclass(frozen=True)
class Result:
    """One row of the table. `about` names which of the check's subjects it is about, if there are several."""

    title: str
    about: str
    verdict: Verdict
    found: str
    fix: str

    @property
    def check(self) -> str:
        """Title and subject in one phrase."""
        return f"{self.title}: {self.about}" if self.about else self.title


def passed(text: str, about: str = "") -> Found:
    """Return what is as it must be."""
    return Found(Verdict.PASS, text, about=about)


def warned(text: str, fix: str, about: str = "") -> Found:
    """Return what may keep a deployment from succeeding."""
    return Found(Verdict.WARN, text, fix, about)


def failed(text: str, fix: str, about: str = "") -> Found:
    """Return what keeps a deployment from succeeding."""
    return Found(Verdict.FAIL, text, fix, about)
