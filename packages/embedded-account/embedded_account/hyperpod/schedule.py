"""What will happen later: the simulator's transitions, in order of time, without a thread or a sleep of its own."""

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Protocol

Action = Callable[[], None]
Key = tuple[str, ...]


class Clock(Protocol):
    """The account's clock: real time, and how many simulated seconds one real second holds."""

    scale: float

    def now(self) -> datetime:
        """The present moment in UTC."""


class Schedule:
    """Planned actions, at most one per key: planning again replaces, so an object has one next transition.

    Nothing runs by itself: `run_due` does what the clock has passed, in order. While an action runs, `now` is
    the moment for which it was planned; whatever it plans counts from there. A clock that jumps an hour
    therefore gives the same history as one that ticks.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: list[tuple[datetime, int, Key]] = []
        self._plans: dict[Key, tuple[int, Action]] = {}
        self._numbers = count()
        self._present: datetime | None = None

    def now(self) -> datetime:
        """The moment of the running action, else the clock's."""
        return self._present or self._clock.now()

    def plan(self, key: Key, minutes: float, action: Action) -> None:
        """Run `action` after `minutes` of simulated time, instead of what was planned under `key`."""
        number = next(self._numbers)
        due = self.now() + timedelta(minutes=minutes / self._clock.scale)
        self._plans[key] = (number, action)
        heapq.heappush(self._queue, (due, number, key))

    def planned(self, key: Key) -> bool:
        """Whether something is planned under `key`."""
        return key in self._plans

    def forget(self, key: Key) -> None:
        """Drop what is planned under `key`, if anything."""
        self._plans.pop(key, None)

    def run_due(self) -> None:
        """Run everything that is due, the earliest first; what a failing action raises ends the run."""
        now = self._clock.now()
        while self._queue and self._queue[0][0] <= now:
            due, number, key = heapq.heappop(self._queue)
            planned = self._plans.get(key)
            if planned is None or planned[0] != number:
                continue
            del self._plans[key]
            self._present = due
            try:
                planned[1]()
            finally:
                self._present = None
