"""Durations: on the command line, such as `90s`, `10m`, `2h` and `1d`, and in words."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

import typer

_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_FIRST_POLL_SECONDS: Final = 1.0
_FORM: Final = re.compile(rf"(\d+(?:\.\d+)?)([{''.join(_UNITS)}])")


@dataclass(frozen=True)
class Duration:
    """A length of time; `str()` writes it as the command line takes it."""

    seconds: float

    def __str__(self) -> str:
        """Return the duration in the largest unit that gives a whole number, else in seconds."""
        for unit, seconds in _UNITS.items():
            if self.seconds and self.seconds % seconds == 0:
                return f"{self.seconds / seconds:.0f}{unit}"
        return f"{self.seconds:g}s"


UNTIL_READY: Final = Duration(4 * 3600)
"""How long a command waits for new nodes: longer than their longest published time (config/estimates)."""


def duration(given: "str | Duration") -> Duration:
    """Return the duration that a person wrote. Raises typer.BadParameter if there is no unit, or no number."""
    if isinstance(given, Duration):
        return given
    if found := _FORM.fullmatch(given):
        return Duration(float(found[1]) * _UNITS[found[2]])
    fix = f"give the unit: {given}s or {given}m" if re.fullmatch(r"\d+(\.\d+)?", given) else "give a number and a unit"
    raise typer.BadParameter(
        f"{given!r} is no duration. Allowed: seconds, minutes, hours or days, such as 90s, 10m, 2h or 1d. Fix: {fix}"
    )


def at_least(least: Duration) -> Callable[[str | Duration], Duration]:
    """Return a function like `duration` that refuses shorter ones."""

    def parse(given: str | Duration) -> Duration:
        parsed = duration(given)
        if parsed.seconds < least.seconds:
            raise typer.BadParameter(f"{parsed} is too short. Allowed: {least} or longer")
        return parsed

    return parse


Timeout = Annotated[
    Duration, typer.Option(parser=duration, metavar="DURATION", help="Give up after this time; rerun to resume.")
]
Interval = Annotated[
    Duration,
    typer.Option(parser=at_least(Duration(0.2)), metavar="DURATION", help="Longest time between two checks."),
]


def until_next_poll(waited: float, interval: float) -> float:
    """Return the seconds between two polls after a wait of `waited` seconds: at most `interval`, and fewer at first.

    So a wait that ends soon takes no longer than it must, and a long one asks AWS no more often than `interval`.
    """
    return min(interval, max(_FIRST_POLL_SECONDS, waited / 4))


def elapsed(seconds: float) -> str:
    """Format a duration, such as `2 min 05 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
