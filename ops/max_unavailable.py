"""Values of `--max-unavailable` on the command line, such as `2` and `10%`."""

import re
from dataclasses import dataclass
from typing import Final

import typer

_FORM: Final = re.compile(r"([1-9]\d*)|([1-9]\d?|100)%")


@dataclass(frozen=True)
class MaxUnavailable:
    """How many pods of a group may be unavailable at once: a number, or per cent of the group."""

    number: int
    is_percent: bool = False

    def of(self, size: int) -> int:
        """Return the number for a group of `size` pods, rounded down as in a Deployment, and at least 1."""
        return max(1, size * self.number // 100) if self.is_percent else self.number

    def __str__(self) -> str:
        """Return the value as the command line takes it."""
        return f"{self.number}%" if self.is_percent else str(self.number)


def max_unavailable(given: "str | MaxUnavailable") -> MaxUnavailable:
    """Return what a person wrote. Raises typer.BadParameter if it is neither a number nor a percentage."""
    if isinstance(given, MaxUnavailable):
        return given
    if found := _FORM.fullmatch(given):
        return MaxUnavailable(int(found[1] or found[2]), is_percent=found[2] is not None)
    raise typer.BadParameter(f"{given!r} is no number of pods. Allowed: 1 or more, or 1% to 100%. Fix: give 2 or 10%")
