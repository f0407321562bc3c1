"""Review which instance groups sleep while nothing uses them: what happens to nodes, and what comes or goes with it."""

from collections.abc import Iterator, Mapping
from typing import Any

from ops.review.assembly import Pair, number
from ops.review.hyperpod.groups import named, price
from ops.review.hyperpod.rows import ClusterPart
from ops.review.kubernetes.sleeper import known_groups
from ops.review.model import Change, Danger, Effect
from ops.review.sleeping import ranges_of


def changes(pair: Pair, thing: ClusterPart, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Yield the change of each group that begins or ceases to sleep, or keeps another number of nodes."""
    before, after = ranges_of(old), ranges_of(new)
    if before is None or after is None:
        # A range that nobody knows may hold any count.
        yield thing.unknown("the groups that sleep are known only at the deployment", Danger.JOBS_ENDED)
        return
    there = named(new) or {}
    names = [each for each in there if before.get(each, ())[:1] != after.get(each, ())[:1]]
    if not names:
        yield thing.change("SleepingGroups", Effect.NOTHING, "It differs in names of groups that are not there.")
    for name in names:
        group = ClusterPart(thing.stack, f"InstanceGroup {name}", f"instance group {name}")
        if name not in before:
            yield _added(pair, group, name, *after[name], first=not before)
        elif name not in after:
            yield _removed(group, before[name][0], there[name], last=not after)
        else:
            yield _other_minimum(group, before[name][0], *after[name])


def _added(pair: Pair, group: ClusterPart, name: str, least: int, most: int, *, first: bool) -> Change:
    known = known_groups(pair.head).get(name)
    after = f" after {known.sleep.after} without use" if known else ""
    hours = f", but not in its hours, {known.hours}" if known and known.sleep.hours else ""
    program = " This stack gets the function that sets its count, the ray stack the sleeper." if first else ""
    reason = (
        "Nothing happens to its nodes now. Once nothing has used it for that long, its Ray workers end and its nodes "
        f"go; what uses it again waits for them, and AWS may have none left.{program}"
    )
    return group.change(f"may sleep{after}, down to {least} of {most} nodes{hours}", Effect.IN_PLACE, reason)


def _removed(group: ClusterPart, least: int, now: Mapping[str, Any], *, last: bool) -> Change:
    count = number(now.get("InstanceCount"))
    program = " The function that set its count and the sleeper are deleted." if last else ""
    more = price(now, None if count is None else count - least)
    reason = f"HyperPod adds those that are asleep, at most {more} Nodes that run are not touched.{program}"
    all_of_them = "nodes" if count is None else f"{count} nodes"
    return group.change(f"no longer sleeps: it gets all of its {all_of_them}", Effect.CREATED, reason)


def _other_minimum(group: ClusterPart, old: int, new: int, count: int) -> Change:
    if new < old:
        reason = "Nothing happens to its nodes now. More of them go while nothing uses the group."
        return group.change(f"sleep: min {old} → {new}", Effect.IN_PLACE, reason)
    reason = f"With fewer nodes than {new} it gets all of its {count}, until it falls asleep again."
    return group.change(f"sleep: min {old} → {new}", Effect.CREATED, reason)
