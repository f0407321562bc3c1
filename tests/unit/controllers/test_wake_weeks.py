"""Random weeks of a group and of those that stand in for it, with refusals and missing capacity that last.

The expectations are worked out apart from the rule, from what happened to the nodes.
"""

import random
from dataclasses import dataclass, field
from functools import cache

import pytest

from controllers.sleep_decision import WAKE_SECONDS, Action, Seen, SleepMemory, SleepRule, decide

LOOK = 120
HOUR = 3600
WEEK = 7 * 24 * HOUR
OTHERS = ("gpu-b", "gpu-c")


@dataclass
class Group:
    """An instance group whose nodes come after a while, unless there is no capacity or HyperPod takes no change."""

    rule: SleepRule
    boot: int
    without_capacity: list[tuple[int, int]]
    target: int = 0
    nodes: int = 0
    workers: int = 0
    asked_at: int = 0
    memory: SleepMemory = field(default_factory=SleepMemory)

    def look(self, now: int, users: tuple[str, ...], replaced: bool, refused: bool) -> tuple[str, ...]:
        """Decide as the sleeper does, and act; return who is to stand in."""
        seen = Seen(now, users, self.target, self.workers, 0, nodes=self.nodes, replaced=replaced)
        found = decide(self.rule, seen, self.memory)
        self.memory = found.memory
        wakes = found.action is Action.WAKE
        if wakes or found.action is Action.RELEASE:
            self.workers = self.rule.workers if wakes else 0
        if not refused and (wakes or found.action is Action.LOWER):
            self.target, self.asked_at = self.rule.count if wakes else 0, now
        return found.stand_ins

    def follow(self, now: int) -> None:
        come = now - self.asked_at >= self.boot and not _within(self.without_capacity, now)
        if come or self.target < self.nodes:
            self.nodes = self.target


def _within(spans: list[tuple[int, int]], now: int) -> bool:
    return any(start <= now < end for start, end in spans)


def _spans(drawn: random.Random, number: int, longest: int) -> list[tuple[int, int]]:
    starts = [drawn.randrange(WEEK) for _ in range(drawn.randint(0, number))]
    return [(start, start + drawn.randint(60, longest)) for start in starts]


@dataclass
class Week:
    """A week that a number draws, and what was wrong in it."""

    number: int
    stood_in: int = 0
    """Looks in which a group stood in."""
    broken: list[str] = field(default_factory=list)

    def live(self) -> None:
        drawn = random.Random(f"waking week {self.number}")  # noqa: S311 (tests, not secrets)
        count = drawn.randint(1, 4)
        first, *others = (
            Group(
                SleepRule(name, count, 0, 600.0, None, count * (name == "gpu"), OTHERS if name == "gpu" else ()),
                drawn.randint(8, 20) * 60,
                _spans(drawn, 6, 12 * HOUR),
            )
            for name in ("gpu", *OTHERS)
        )
        uses, refusals = _spans(drawn, 12, 10 * HOUR), _spans(drawn, 6, 4 * HOUR)
        requested: int | None = None
        for now in range(0, WEEK, LOOK):
            used, refused = _within(uses, now), _within(refusals, now)
            last = others[min(max(first.memory.late, 1), len(others)) - 1]
            replaced = first.memory.late > 0 and last.nodes >= count and last.memory.waiting_since is None
            before = first.memory.late
            stand_ins = first.look(now, ("run train-7",) if used else (), replaced, refused)
            for each in others:
                each.look(now, ("workers of gpu",) if each.rule.group in stand_ins else (), False, refused)
            complete = first.nodes >= count
            requested = None if not used or complete else now if requested is None else requested
            self.stood_in += bool(stand_ins)
            waited = None if requested is None else now - requested
            self._expect(now, stand_ins, used, waited)
            if replaced and first.memory.late > before:
                self.broken.append(f"{now}: a further group is woken although one has all nodes")
            for each in (first, *others):
                each.follow(now)

    def _expect(self, now: int, stand_ins: tuple[str, ...], used: bool, waited: int | None) -> None:
        """Compare who stands in with what the nodes and uses alone say."""
        if stand_ins != OTHERS[: len(stand_ins)]:
            self.broken.append(f"{now}: {stand_ins} is out of order")
        if stand_ins and not used:
            self.broken.append(f"{now}: a group stands in although nothing needs the first")
        if stand_ins and (waited is None or waited < WAKE_SECONDS):
            self.broken.append(f"{now}: a group stands in too early, after {waited}")
        if len(stand_ins) == 2 and (waited is None or waited < 2 * WAKE_SECONDS):
            self.broken.append(f"{now}: the second group stands in too early, after {waited}")
        if not stand_ins and waited is not None and waited >= WAKE_SECONDS + LOOK:
            self.broken.append(f"{now}: nobody stands in after {waited}")


@cache
def _lived(number: int) -> Week:
    week = Week(number)
    week.live()
    return week


@pytest.mark.parametrize("number", range(20))
def test_a_group_stands_in_exactly_while_the_first_waits_in_vain(number: int) -> None:
    assert _lived(number).broken == []


def test_in_most_of_these_weeks_a_group_stands_in() -> None:
    assert sum(_lived(number).stood_in > 0 for number in range(20)) > 10
