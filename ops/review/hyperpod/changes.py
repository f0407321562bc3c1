"""Review the differing resources of the HyperPod cluster: the cluster, its teardown guard, the lifecycle scripts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from ops.review.assembly import RETAINED, Pair, ResourceChange
from ops.review.hyperpod import cluster, uploads, values
from ops.review.hyperpod.cluster import CLUSTER, TEARDOWN, is_of
from ops.review.hyperpod.rows import ClusterPart
from ops.review.hyperpod.uploads import UPLOAD
from ops.review.hyperpod.values import shown
from ops.review.model import Change, Danger, Effect

TYPES: Final = frozenset({CLUSTER, TEARDOWN, UPLOAD})
"""The resource types that this module reviews."""
_NAMES: Final = {
    CLUSTER: ("HyperPodCluster", "HyperPod cluster"),
    TEARDOWN: ("HyperPodClusterTeardown", "teardown guard of the HyperPod cluster"),
}
_POLICIES: Final = ("DeletionPolicy", "UpdateReplacePolicy")
_KEPT: Final = (*RETAINED, "Snapshot")


def changes(pair: Pair, differing: Sequence[ResourceChange]) -> Iterator[Change]:
    """Yield at least one change for each differing resource that is of one of TYPES on one side."""
    for each in differing:
        found = [*_changes(pair, each, differing), *_attributes(each)]
        found = found or [_thing(each).change("another spelling", Effect.NOTHING, "The values are the same.")]
        yield from (replace(change, addresses=(each.address,)) for change in found)


def _changes(pair: Pair, change: ResourceChange, differing: Sequence[ResourceChange]) -> Iterator[Change]:
    if _either_is(change, CLUSTER):
        yield from cluster.changes(pair, change, differing)
    if _either_is(change, TEARDOWN):
        yield from cluster.teardown_changes(change, differing)
    if _either_is(change, UPLOAD):
        yield from uploads.changes(pair, change)
    if change.before is not None and change.before.get("Type") not in TYPES:
        yield _thing(change).unknown(f"takes the place of {shown(change.before.get('Type'))}")


def _either_is(change: ResourceChange, kind: str) -> bool:
    return is_of(change.before, kind) or is_of(change.after, kind)


def _attributes(change: ResourceChange) -> Iterator[Change]:
    """Yield the changes of what is neither type nor property: policies, dependencies, metadata, conditions."""
    if change.before is None or change.after is None or change.before.get("Type") != change.after.get("Type"):
        return
    thing = _thing(change)
    for key in values.differing(change.before, change.after):
        if key == "Properties":
            continue
        what = f"{key} {shown(change.before.get(key))} → {shown(change.after.get(key))}"
        if key == "Metadata":
            yield thing.change("metadata", Effect.NOTHING, "Nothing reads it at the deployment.")
        elif key == "DependsOn":
            yield thing.change("order of creation and deletion", Effect.IN_PLACE, "Nothing that runs is touched.")
        elif key in _POLICIES:
            yield _policy(thing, what, change.before.get(key), change.after.get(key))
        else:
            # A condition may delete the resource.
            yield thing.unknown(what, *([Danger.CLUSTER_LOSS] if change.type == CLUSTER else []))


def _policy(thing: ClusterPart, what: str, old: Any, new: Any) -> Change:
    if new in _KEPT:
        return thing.change(what, Effect.IN_PLACE, "A destroy leaves it behind, with its cost.")
    dangers = frozenset({Danger.LOWER_PROTECTION} if old in _KEPT else set())
    return thing.change(what, Effect.IN_PLACE, "A destroy deletes it.", dangers=dangers)


def _thing(change: ResourceChange) -> ClusterPart:
    resource, title = _NAMES.get(change.type, ("", ""))
    return ClusterPart(change.stack, resource, title) if resource else uploads.thing_of(change)
