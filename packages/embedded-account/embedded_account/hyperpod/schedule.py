"""Schedule the simulator's transitions in order of time, without a thread or a sleep of its own."""

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Protocol

Action = Callable[[], None]
Key = tuple[str, ...]


class SimulatedClock(Protocol):
    """The account's clock: real time, and the number of simulated seconds in a real second (`scale`)."""

    scale: float

    def now(self) -> datetime:
        """Return the present time in UTC."""


class Schedule:
    """Planned actions, at most one per key: a new plan replaces the old one, so an object has one next transition.

    Only `run_due` runs actions: those whose time has passed, in order. While an action runs, `now` returns the time
    for which the action was planned, and what the action plans counts from that time. A clock that jumps an hour
    therefore produces the same history as a clock that ticks.
    """

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock
        self._queue: list[tuple[datetime, int, Key]] = []
        self._plans: dict[Key, tuple[int, Action]] = {}
        self._numbers = count()
        self._present: datetime | None = None

    def now(self) -> datetime:
        """Return the planned time of the running action, or else the clock's time."""
        return self._present or self._clock.now()

    def plan(self, key: Key, minutes: float, action: Action) -> None:
        """Run `action` after `minutes` of simulated time; this replaces an earlier plan under `key`."""
        number = next(self._numbers)
        due = self.now() + timedelta(minutes=minutes / self._clock.scale)
        self._plans[key] = (number, action)
        heapq.heappush(self._queue, (due, number, key))

    def planned(self, key: Key) -> bool:
        """Return whether an action is planned under `key`."""
        return key in self._plans

    def forget(self, key: Key) -> None:
        """Cancel the action planned under `key`, if any."""
        self._plans.pop(key, None)

    def run_due(self) -> None:
        """Run every action that is due, the earliest first; an exception of an action ends the run."""
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
