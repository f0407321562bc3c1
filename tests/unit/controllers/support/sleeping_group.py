"""One group that may sleep: HyperPod's nodes, Ray's workers, runs, other pods, and a controller that asks a rule.

The world goes from event to event. Its controller looks 10 to 30 s after each event, so that the rule sees what a
controller sees that looks all the time, and otherwise as rarely as a rule allows that counts a gap of 120 s.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush

from controllers.hand import Hand
from controllers.sleep_decision import Action, Seen, SleepDecision, SleepMemory, SleepRule
from tests.unit.controllers.support.sleep_weeks import Down, Span, Week

Decide = Callable[[SleepRule, Seen, SleepMemory], SleepDecision]

SHORT = (10, 30)
"""Seconds between two looks of a controller."""
LONG = (60, 115)
"""Seconds between two looks while nothing changes."""


@dataclass(slots=True)
class Look:
    """What was so at one look of the controller, and what it did."""

    at: int
    clock: int
    used: bool
    """By a run, another pod or a head that does not answer."""
    opened: bool
    """Within the hours, by the controller's clock."""
    asked: str
    """What a person asks for: `awake`, `asleep` or nothing."""
    known: bool
    refused: bool
    """Whether HyperPod takes no change."""
    target: int
    replicas: int
    pods: int
    broken: bool
    """Whether the controller was not up all the time since the look before, or its clock was set."""
    previous: "Look | None"
    """The look whose memory was given."""
    action: Action = Action.KEEP
    memory: SleepMemory = field(default_factory=SleepMemory)
    target_after: int = 0
    replicas_after: int = 0

    @property
    def wanted(self) -> bool:
        """Whether something wants the group awake."""
        return self.used or self.asked == "awake" or (self.opened and self.asked != "asleep")


@dataclass(slots=True)
class Run:
    arrival: int
    left: int
    """Seconds of work that it still needs all workers for."""
    working_since: int | None = None
    attempt: int = 0
    started: int | None = None
    ended: int | None = None


@dataclass
class History:
    looks: list[Look] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    moves: list[Span] = field(default_factory=list)
    """When nodes came or went."""
    node_seconds: int = 0


def live(week: Week, decide: Decide) -> History:
    """Return what happens in a week if `decide` decides."""
    return _World(week, decide).live()


class _World:
    def __init__(self, week: Week, decide: Decide) -> None:
        self._week, self._decide = week, decide
        self._drawn = random.Random(f"looks of week {week.number}")  # noqa: S311 (tests, not secrets)
        self._history = History()
        self._now = week.begins
        self._target = week.rule.min if week.asleep else week.rule.count
        self._replicas = week.floor if week.asleep else week.rule.workers
        self._ending = 0
        self._here = set(range(self._target))
        self._coming: set[int] = set()
        self._going: set[int] = set()
        self._since = dict.fromkeys(self._here, week.begins)
        self._move_began: int | None = None
        self._runs: list[Run] = []
        self._notebooks = self._silent = self._down = self._unknown = self._refused = self._full = 0
        self._offset = 0
        self._hand: Hand | None = None
        self._broken = True
        self._remembered: Look | None = None
        self._idle_from: int | None = None
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._order = 0
        self._plan()

    def live(self) -> History:
        look_at = self._now
        while look_at < self._week.ends:
            self._advance(look_at)
            if self._down:
                look_at = self._events[0][0] + self._drawn.randint(*SHORT)
            else:
                acted = self._look()
                look_at = self._next_look(acted)
        self._advance(self._week.ends)
        for slot in list(self._since):
            self._gone(slot)
        if self._move_began is not None:
            self._history.moves.append((self._move_began, self._week.ends))
        return self._history

    # What happens, whatever the controller does.

    def _plan(self) -> None:
        week = self._week
        for arrival, length in week.runs:
            self._at(arrival, partial(self._arrive, Run(arrival, length)))
        for begin, end in week.notebooks:
            self._count("_notebooks", (begin, end))
        for name, spans in (("_silent", week.silent), ("_unknown", week.unknown), ("_refused", week.refused)):
            for span in spans:
                self._count(name, span)
        for span in week.without_capacity:
            self._count("_full", span, self._grow)
        for down in week.downs:
            self._count("_down", down.span, partial(self._restart, down))
        for time in week.deployments:
            self._at(time, partial(self._ask_for, week.rule.workers))
        for time, target in week.operator:
            self._at(time, partial(self._set, target))
        for time, seconds in week.hands:
            self._at(time, partial(self._ask_by_hand, Hand(awake=seconds > 0, at=float(time + seconds))))
            self._at(time + seconds, lambda: None)
        for time, offset in week.jumps:
            self._at(time, partial(self._jump, offset))
        for time in [*week.bounds, week.ends]:
            self._at(time, lambda: None)

    def _at(self, time: int, happens: Callable[[], object]) -> None:
        self._order += 1
        heappush(self._events, (time, self._order, happens))

    def _count(self, name: str, span: Span, then: Callable[[], object] | None = None) -> None:
        def change(by: int) -> None:
            setattr(self, name, getattr(self, name) + by)
            if by < 0 and then:
                then()

        self._at(span[0], partial(change, 1))
        self._at(span[1], partial(change, -1))

    def _advance(self, to: int) -> None:
        while self._events and self._events[0][0] <= to:
            time, _, happens = heappop(self._events)
            self._now = max(self._now, time)
            happens()
        self._now = to

    def _arrive(self, run: Run) -> None:
        self._runs.append(run)
        self._history.runs.append(run)
        self._work()

    def _restart(self, down: Down) -> None:
        self._broken = True
        for _ in range(down.lost or 0):
            self._remembered = self._remembered and self._remembered.previous
        if down.lost is None:
            self._remembered = None

    def _jump(self, offset: int) -> None:
        self._offset, self._broken = offset, True

    def _ask_by_hand(self, hand: Hand) -> None:
        self._hand = hand

    def _asked(self, clock: int) -> str:
        """Return what a person asks for; forget what has ended, as the controller does."""
        if self._hand is None:
            return ""
        if self._hand.awake:
            ended = clock >= self._hand.at
        else:
            ended = bool(self._runs or self._notebooks)
            ended = ended or any(self._hand.at < opening <= clock for opening in self._week.openings)
        if ended:
            self._hand = None
            return ""
        return "awake" if self._hand.awake else "asleep"

    # Nodes.

    def _set(self, target: int) -> bool:
        """Set the target as UpdateCluster does; return whether HyperPod takes the change."""
        if self._closed():
            return False
        self._target = target
        for slot in [slot for slot in self._here if slot >= target]:
            self._here.remove(slot)
            self._going.add(slot)
            self._at(self._now + self._week.departures[slot], partial(self._go, slot))
        self._grow()
        return True

    def _closed(self) -> bool:
        return bool(self._refused or self._coming or self._going)

    def _grow(self) -> None:
        if not self._full:
            for slot in set(range(self._target)) - self._here - self._coming - self._going:
                self._coming.add(slot)
                self._since[slot] = self._now
                self._at(self._now + self._week.boots[slot], partial(self._come, slot))
        self._moved()

    def _come(self, slot: int) -> None:
        self._coming.remove(slot)
        self._here.add(slot)
        self._moved()

    def _go(self, slot: int) -> None:
        self._going.remove(slot)
        self._gone(slot)
        self._grow()

    def _gone(self, slot: int) -> None:
        self._history.node_seconds += min(self._now, self._week.ends) - self._since.pop(slot)

    def _moved(self) -> None:
        moving = bool(self._coming or self._going)
        if moving and self._move_began is None:
            self._move_began = self._now
        elif not moving and self._move_began is not None:
            self._history.moves.append((self._move_began, self._now))
            self._move_began = None
        self._work()

    # Workers.

    def _ask_for(self, replicas: int) -> None:
        """Change the replicas. Pods on nodes take their time to end; pods without a node do not."""
        here = len(self._here)
        ended = min(self._replicas, here) - min(replicas, here)
        self._replicas = replicas
        if ended > 0:
            self._ending += ended
            self._at(self._now + self._week.pod_end, partial(self._end, ended))
        self._work()

    def _end(self, pods: int) -> None:
        self._ending -= pods

    def _work(self) -> None:
        """Let runs work, or wait, as there are workers."""
        needed = self._week.rule.workers
        complete = min(self._replicas, len(self._here)) >= needed
        for run in self._runs:
            if complete and run.working_since is None:
                run.working_since = self._now
                run.started = self._now if run.started is None else run.started
                self._at(self._now + run.left, partial(self._finish, run, run.attempt))
            elif not complete and run.working_since is not None:
                run.left -= self._now - run.working_since
                run.working_since = None
                run.attempt += 1

    def _finish(self, run: Run, attempt: int) -> None:
        if run.attempt == attempt:
            run.ended = self._now
            self._runs.remove(run)

    # The controller.

    def _look(self) -> bool:
        """Look, decide and act; return whether the decision was an action."""
        rule = self._week.rule
        clock = self._now + self._offset
        hand = self._hand
        look = Look(
            at=self._now,
            clock=clock,
            used=bool(self._runs or self._notebooks or self._silent),
            opened=self._week.opened(clock),
            asked=self._asked(clock),
            known=not self._unknown,
            refused=self._closed(),
            target=self._target,
            replicas=self._replicas,
            pods=self._replicas + self._ending,
            broken=self._broken,
            previous=self._remembered,
        )
        # The rule sees a request that has just ended, too.
        target = look.target if look.known else None
        seen = Seen(float(clock), self._users(), target, look.replicas, look.pods, hand)
        decision = self._decide(rule, seen, look.previous.memory if look.previous else SleepMemory())
        look.action, look.memory = decision.action, decision.memory
        if look.action is Action.WAKE:
            self._ask_for(rule.workers)
            if look.known and look.target < rule.count:
                self._set(rule.count)
        elif look.action is Action.RELEASE:
            self._ask_for(self._week.floor)
        elif look.action is Action.LOWER:
            self._set(rule.min)
        look.target_after, look.replicas_after = self._target, self._replicas
        self._history.looks.append(look)
        self._remembered, self._broken = look, False
        if look.wanted:
            self._idle_from = None
        elif self._idle_from is None or look.broken:
            self._idle_from = self._now
        return look.action is not Action.KEEP

    def _users(self) -> tuple[str, ...]:
        runs = [f"run train-{run.arrival}" for run in self._runs]
        pods = [f"pod team/notebook-{number}" for number in range(self._notebooks)]
        return (*runs, *pods, *(["cannot be asked: head of main"] if self._silent else []))

    def _next_look(self, acted: bool) -> int:
        soon = self._now + self._drawn.randint(*SHORT)
        if acted:
            return soon
        coming = [self._events[0][0]]
        if self._offset:
            # By a clock that is wrong, the hours begin and end at other times.
            coming += [bound - self._offset for bound in self._week.bounds if bound - self._offset > self._now][:1]
        if self._idle_from is not None and self._idle_from + self._week.after > self._now:
            coming.append(self._idle_from + self._week.after)
        late = self._drawn.choice((0, self._drawn.randint(0, 20)))
        return max(soon, min(self._now + self._drawn.randint(*LONG), min(coming) + late))
