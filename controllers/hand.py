"""What a person asks of an instance group that may sleep: `ops wake` and `ops sleep` write it on RayClusters.

The annotation of a group is there as long as the request is in force; the sleeper removes it afterwards.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self

HAND: Final = "hand.ray-on-hyperpod"
"""What an annotation's key has before the slash; the group's name follows."""

_AWAKE: Final = "awake until"
_ASLEEP: Final = "asleep since"
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Hand:
    """A request: be awake until `at`, or be asleep since `at`, in seconds since the epoch."""

    awake: bool
    at: float

    @classmethod
    def read(cls, text: str) -> Self:
        """Read `awake until 2026-11-29T14:00:00Z` or `asleep since …`. Raises ValueError."""
        words, _, time = text.rpartition(" ")
        if words not in (_AWAKE, _ASLEEP):
            raise ValueError(f"{text!r} is invalid. Allowed: `{_AWAKE} TIME`, `{_ASLEEP} TIME`")
        try:
            at = datetime.strptime(time, _TIME).replace(tzinfo=UTC).timestamp()
        except ValueError as error:
            raise ValueError(f"{text!r} is invalid. Allowed: a time such as 2026-11-29T14:00:00Z") from error
        return cls(words == _AWAKE, at)

    def __str__(self) -> str:
        """Return the annotation's value."""
        return f"{_AWAKE if self.awake else _ASLEEP} {datetime.fromtimestamp(self.at, UTC).strftime(_TIME)}"

    def wakes(self, now: float) -> bool:
        """Return whether it keeps the group awake."""
        return self.awake and now < self.at

    def in_words(self, now: float) -> str:
        """Return the request for people, such as `woken by hand until 14:00 UTC`."""
        at, today = (datetime.fromtimestamp(each, UTC) for each in (self.at, now))
        time = at.strftime("%H:%M UTC" if at.date() == today.date() else "%Y-%m-%d %H:%M UTC")
        return f"woken by hand until {time}" if self.awake else f"put to sleep by hand at {time}"


def in_force(hands: Iterable[Hand], now: float) -> Hand | None:
    """Return the request that counts: one to be awake before one to sleep, and of these the latest; None for none."""
    found = [each for each in hands if each.wakes(now) or not each.awake]
    return max(found, key=lambda each: (each.awake, each.at), default=None)
