"""Runs and jobs that train on pods: a model that notes what each of them lost.

A work takes a step each minute while all of its workers run, and saves every ten. If one of its pods goes, its attempt
is over: a run begins again from its last save, a job that nobody supervises has failed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.rehearsal.kubernetes.sleep_week.schedule import MINUTE, Work

SAVES_EVERY: Final = 10


@dataclass
class Training:
    """A work that has arrived."""

    work: Work
    began: float | None = None
    """When it first had its workers."""
    ended: float | None = None
    failed: bool = False
    seconds: float = 0.0
    """Of training, since the beginning; what was not saved is lost."""
    saved: int = 0
    attempts: int = 0
    pods: frozenset[str] = frozenset()
    steps: list[tuple[int, int]] = field(default_factory=list)
    """First and last step that each attempt saved."""

    @property
    def trains(self) -> bool:
        """Return whether it has its workers."""
        return bool(self.pods)

    @property
    def left(self) -> float:
        """Return the seconds until its last step."""
        return self.work.minutes * MINUTE - self.seconds

    def start(self, pods: frozenset[str], now: float) -> None:
        """Begin an attempt on these pods."""
        self.pods, self.attempts = pods, self.attempts + 1
        self.began = now if self.began is None else self.began
        self.seconds = self.saved * MINUTE

    def take(self, seconds: float) -> None:
        """Train for so long."""
        self.seconds = min(self.seconds + seconds, self.work.minutes * MINUTE)
        step = int(self.seconds / MINUTE + 1e-6)
        last = self.work.minutes if self.left <= 0 else step - step % SAVES_EVERY
        if last > self.saved:
            self.steps.append((self.saved + 1, last))
            self.saved = last

    def lose(self) -> None:
        """End the attempt: a pod of it is gone."""
        self.pods, self.seconds = frozenset(), self.saved * MINUTE

    def is_whole(self) -> bool:
        """Return whether it has ended with each of its steps, once."""
        return [n for first, last in self.steps for n in range(first, last + 1)] == [
            *range(1, self.work.minutes + 1)
        ] and self.ended is not None


def place(waiting: list[Training], running: Mapping[str, str], taken: frozenset[str], now: float) -> list[Training]:
    """Give free workers (uids) to those that wait, in their order; none overtakes another. Return who began."""
    free = [uid for uid in running if uid not in taken]
    began = []
    for each in waiting:
        if len(free) < each.work.workers:
            break
        each.start(frozenset(free[: each.work.workers]), now)
        free = free[each.work.workers :]
        began.append(each)
    return began
