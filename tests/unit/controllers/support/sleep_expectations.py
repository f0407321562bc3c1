"""What must be so in every week of a group that may sleep, judged by the week's own history.

Nothing here calls the rule or reads its reasons.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from controllers.sleep_decision import Action
from tests.unit.controllers.support.sleep_weeks import HOUR, Span, Week, union
from tests.unit.controllers.support.sleeping_group import SHORT, History, Look

GAP: Final = 120
TOLERANCE: Final = 0.05


def broken(week: Week, history: History) -> dict[str, str]:
    """Return by name the expectations that the history does not meet, each with the first case."""
    found = {each.__name__: next(each(week, history), None) for each in EXPECTATIONS}
    return {name: case for name, case in found.items() if case}


def users_keep_all(week: Week, history: History) -> Iterator[str]:
    """Yield looks that took something from a group that was used, within its hours or woken by hand."""
    for look in history.looks:
        if look.wanted:
            taken = look.replicas_after < look.replicas or look.target_after < look.target
            if taken or look.action in (Action.RELEASE, Action.LOWER):
                yield _say("took from a group that was in use", look)


def all_come_back(week: Week, history: History) -> Iterator[str]:
    """Yield looks that did not give all workers and nodes to a group that was used, in its hours or woken by hand."""
    for look in history.looks:
        if look.wanted:
            if look.replicas_after != week.rule.workers:
                yield _say("left workers asleep", look)
            if look.target_after != week.rule.count and look.known and not look.refused:
                yield _say("left nodes asleep", look)


def runs_wait_for_the_world_only(week: Week, history: History) -> Iterator[str]:
    """Yield runs that waited although the controller looked, HyperPod took changes, and nodes had come."""
    imposed = [*(down.span for down in week.downs), *week.unknown, *week.refused, *week.without_capacity]
    hindered = union([*imposed, *history.moves])
    moments = [*(time for time, _ in week.operator), *week.deployments]
    for run in history.runs:
        until = week.ends if run.started is None else run.started
        waits = [(max(begin, run.arrival), min(end, until)) for begin, end in hindered]
        waits = [(begin, end) for begin, end in waits if begin <= end]
        looks = 1 + len(waits) + sum(run.arrival <= moment <= until for moment in moments)
        rest = until - run.arrival - sum(end - begin for begin, end in waits)
        if rest > looks * SHORT[1]:
            yield f"a run waited for {rest} s for nothing but the controller, from {_time(run.arrival)} on"


def workers_go_before_nodes(week: Week, history: History) -> Iterator[str]:
    """Yield looks that lowered nodes while more of Ray's pods existed than stay."""
    for look in history.looks:
        if look.action is Action.LOWER and look.pods > week.floor:
            yield _say("lowered the nodes under pods", look)


def each_action_has_an_object(week: Week, history: History) -> Iterator[str]:
    """Yield looks that raised what was at its most, lowered what was at its least, or changed what was unknown."""
    rule = week.rule
    for look in history.looks:
        nodes_low, workers_low = look.known and look.target < rule.count, look.replicas < rule.workers
        if look.action is Action.WAKE and not (nodes_low or workers_low):
            yield _say("woke a group that was awake", look)
        if look.action is Action.RELEASE and look.replicas <= week.floor:
            yield _say("released workers that stay", look)
        if look.action is Action.LOWER and not (look.known and look.target > rule.min):
            yield _say("lowered nodes below the least, or without knowing their number", look)


def idle_groups_sleep_in_time(week: Week, history: History) -> Iterator[str]:
    """Yield looks that did not release, or then lower, a group that nothing had used for `after`."""
    idle_from: int | None = None
    for look in history.looks:
        if look.wanted:
            idle_from = None
            continue
        if idle_from is None or look.broken:
            idle_from = look.at
        if look.at - idle_from < week.after and look.asked != "asleep":
            continue
        if look.replicas_after > week.floor:
            yield _say("did not release workers in time", look)
        hindered = look.replicas > week.floor or look.pods > week.floor or not look.known or look.refused
        if look.target_after > week.rule.min and not hindered:
            yield _say("did not lower the nodes in time", look)


def idle_time_was_watched(week: Week, history: History) -> Iterator[str]:
    """Yield looks that let a group sleep, unasked, that was not seen unused, all the time, for `after`."""
    for look in history.looks:
        if (
            look.asked != "asleep"
            and look.action in (Action.RELEASE, Action.LOWER)
            and (why := _unwatched(look, week.after))
        ):
            yield _say(f"let the group sleep {why}", look)


def _unwatched(look: Look, after: int) -> str:
    each = look
    while look.clock - each.clock < after:
        before = each.previous
        if before is None:
            return f"after watching for {look.clock - each.clock} s"
        if not 0 <= each.clock - before.clock <= GAP:
            return f"though nobody watched between {_time(before.clock)} and {_time(each.clock)}"
        if before.wanted:
            return f"though it was used at {_time(before.clock)}"
        each = before
    return ""


def nodes_cost_the_least(week: Week, history: History) -> Iterator[str]:
    """Yield hours of nodes that these uses do not need; disturbances may cost as much as they last."""
    least, spent = least_node_seconds(week, history), history.node_seconds
    if spent > least * (1 + TOLERANCE):
        yield f"{spent / HOUR:.1f} hours of nodes; {least / HOUR:.1f} are enough"
    if week.quiet and spent < least * (1 - TOLERANCE):
        yield f"{spent / HOUR:.1f} hours of nodes; {least / HOUR:.1f} are needed"


def least_node_seconds(week: Week, history: History) -> int:
    """Return the seconds of nodes that the week's uses need: each use and `after`, joined with the hours.

    What disturbs counts as use as long as it lasts. Each node takes its time to go once the workers have ended.
    """
    uses = [(run.arrival, week.ends if run.ended is None else run.ended) for run in history.runs]
    uses += [*week.notebooks, *week.silent, *week.unknown, *week.refused, *(down.span for down in week.downs)]
    uses += [(time, time) for time, _ in (*week.operator, *week.jumps)]
    if not week.asleep:
        uses.append((week.begins, week.begins))
    wrong = max((abs(offset) for _, offset in week.jumps), default=0)
    asked = pairwise([*week.hands, (week.ends, 0)])
    woken = [(time, min(time + seconds + wrong, end)) for (time, seconds), (end, _) in asked if seconds]
    uses += woken
    hours = [(begin - wrong, end + wrong) for begin, end in week.within]
    awake = _without_sleep(
        week, uses, union([(begin, end + week.after) for begin, end in [*uses, *hours]]), history, wrong
    )
    pods_end = week.pod_end if week.rule.workers > week.floor else 0
    needed = 0
    for slot in range(week.rule.count):
        going = pods_end + week.departures[slot]
        kept = [(week.begins, week.ends)] if slot < week.rule.min else [(begin, end + going) for begin, end in awake]
        needed += sum(max(0, end - begin) for begin, end in _within(week, kept))
    # A deployment wakes workers for the time between two looks; nodes that are about to go wait for their end.
    return needed + len(week.deployments) * week.rule.count * (week.pod_end + 2 * SHORT[1])


def _without_sleep(week: Week, uses: list[Span], awake: list[Span], history: History, wrong: int) -> list[Span]:
    """Return when the group is awake although persons put it to sleep: not from then until its next use or hours.

    Nodes that just come must come before they can go.
    """
    for time, seconds in week.hands:
        if seconds or any(begin <= time < end for begin, end in uses):
            continue
        later = [begin for begin, _ in uses] + [opening - wrong for opening in week.openings]
        until = min((begin for begin in later if begin > time), default=week.ends)
        asleep = next((end for begin, end in history.moves if begin <= time < end), time)
        cut = [(begin, min(end, asleep)) for begin, end in awake] + [(max(begin, until), end) for begin, end in awake]
        awake = union([(begin, end) for begin, end in cut if begin < end])
    return awake


def _within(week: Week, spans: list[Span]) -> list[Span]:
    return union([(max(begin, week.begins), min(end, week.ends)) for begin, end in spans if end > week.begins])


def _say(what: str, look: Look) -> str:
    return f"{what} at {_time(look.at)}: {look.action}, {look.replicas} workers, {look.pods} pods, target {look.target}"


def _time(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%a %d %b %H:%M:%S} UTC"


EXPECTATIONS: Final[tuple[Callable[[Week, History], Iterator[str]], ...]] = (
    users_keep_all,
    all_come_back,
    runs_wait_for_the_world_only,
    workers_go_before_nodes,
    each_action_has_an_object,
    idle_groups_sleep_in_time,
    idle_time_was_watched,
    nodes_cost_the_least,
)
