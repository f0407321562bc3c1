"""Review the custom resource of the cluster, and its teardown guard."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ops.review.assembly import RETAINED, Pair, ResourceChange
from ops.review.hyperpod import groups, sleep, slurm
from ops.review.hyperpod.rows import ClusterPart
from ops.review.hyperpod.values import differing, shown
from ops.review.model import Change, Danger, Effect
from ops.review.sleeping import ranges_of

CLUSTER: Final = "Custom::HyperPodCluster"
TEARDOWN: Final = "Custom::HyperPodClusterTeardown"
_LOST: Final = frozenset({Danger.CLUSTER_LOSS})
_REPLACED: Final = (
    "CloudFormation creates the new cluster before it deletes the old one. The creation fails while the name and the "
    "EKS cluster belong to the old one; where it succeeds, all nodes end with everything that runs on them."
)
_DELETED: Final = "All its nodes are deleted with everything that runs on them, and nothing is drained."
_UNREADABLE: Final = "the names of the instance groups cannot be read"
_AUTOMATIC: Final = "Automatic"


def is_of(side: Mapping[str, Any] | None, kind: str) -> bool:
    """Return whether this side of a resource exists and is of the type."""
    return side is not None and side.get("Type") == kind


def changes(pair: Pair, change: ResourceChange, differing_resources: Sequence[ResourceChange]) -> Iterator[Change]:
    """Yield the changes of the cluster and of its groups."""
    thing = ClusterPart(change.stack, "HyperPodCluster", "HyperPod cluster")
    before, after = change.before, change.after
    if before is not None and is_of(before, CLUSTER) and is_of(after, CLUSTER) and after is not None:
        yield from _properties(pair, thing, before.get("Properties", {}), after.get("Properties", {}))
    elif before is not None and is_of(before, CLUSTER):
        another = after is not None or any(is_of(each.after, CLUSTER) for each in differing_resources)
        yield _gone(thing, before, another)
    elif after is not None:
        found = groups.named(after.get("Properties", {}))
        if found is None:
            yield thing.unknown(f"created, {_UNREADABLE}")
            return
        foreign = sorted(name for name, group in found.items() if groups.runs_foreign_scripts(pair, group))
        reason = f"Nothing here shows what the lifecycle scripts of {', '.join(foreign)} do." if foreign else ""
        dangers = frozenset({Danger.RUNS_CODE} if foreign else set())
        what = f"created: {', '.join(map(groups.size, found.values())) or 'no groups'}"
        yield thing.change(what, Effect.CREATED, reason, dangers=dangers)


def teardown_changes(change: ResourceChange, differing_resources: Sequence[ResourceChange]) -> Iterator[Change]:
    """Yield the changes of the guard that deletes what is left of the cluster at the stack's end."""
    thing = ClusterPart(change.stack, "HyperPodClusterTeardown", "teardown guard of the HyperPod cluster")
    before, after = change.before, change.after
    if not is_of(after, TEARDOWN):
        if any(is_of(each.after, TEARDOWN) and each.stack == change.stack for each in differing_resources):
            reason = "The guard acts only while its stack is deleted: the cluster stays."
            yield thing.change("replaced by another", Effect.REPLACED, reason)
        else:
            reason = "A cluster that an interrupted handler left would outlive its stack, with its cost."
            yield thing.change("removed", Effect.DELETED, reason, dangers=frozenset({Danger.LOWER_PROTECTION}))
    elif before is None or not is_of(before, TEARDOWN):
        yield thing.change("created", Effect.CREATED)
    else:
        old, new = before.get("Properties", {}), (after or {}).get("Properties", {})
        for key in differing(old, new):
            if key == "ServiceToken":
                yield thing.by_table(key, old.get(key), new.get(key))
            else:
                what = f"{key} {shown(old.get(key))} → {shown(new.get(key))}"
                yield thing.change(what, Effect.NOTHING, "The guard reads no property.")


def _gone(thing: ClusterPart, before: Mapping[str, Any], another: bool) -> Change:
    if before.get("DeletionPolicy") in RETAINED:
        return thing.change("removed from its stack", Effect.KEPT, "Its nodes stay, with their cost.", dangers=_LOST)
    if another:
        return thing.change("replaced: another logical id or stack", Effect.REPLACED, _REPLACED, dangers=_LOST)
    return thing.change("deleted", Effect.DELETED, _DELETED, dangers=_LOST)


def _properties(pair: Pair, thing: ClusterPart, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for key in differing(old, new):
        if key == "InstanceGroups":
            yield from _groups(pair, thing, old, new)
        elif key == "SleepingGroups":
            yield from sleep.changes(pair, thing, old, new)
        elif key == "NodeRecovery":
            yield _node_recovery(thing, old.get(key), new.get(key))
        elif key == "ConfirmGroupRemoval" and not isinstance(new.get(key, []), list):
            yield thing.unknown(f"{key} → {shown(new.get(key))}", Danger.GROUP_REMOVED)
        else:
            yield thing.by_table(key, old.get(key), new.get(key))


def _groups(pair: Pair, thing: ClusterPart, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before, after = groups.named(old), groups.named(new)
    if before is None or after is None:
        yield thing.unknown(_UNREADABLE, Danger.GROUP_REMOVED)
        return
    names = new.get("ConfirmGroupRemoval")
    confirmed = frozenset(map(str, names)) if isinstance(names, list) else frozenset()
    asleep = frozenset(ranges_of(old) or ())
    both = groups.Groups(pair, thing.stack, before, after, confirmed, slurm.orchestrates(old), asleep)
    yield from groups.changes(both)


def _node_recovery(thing: ClusterPart, old: Any, new: Any) -> Change:
    found = thing.by_table("NodeRecovery", old, new)
    if new in (None, _AUTOMATIC):
        return found
    reason = "HyperPod no longer replaces unhealthy nodes: a job that loses a node does not get another."
    return thing.change(found.what, found.effect, reason, dangers=frozenset({Danger.LOWER_PROTECTION}))
