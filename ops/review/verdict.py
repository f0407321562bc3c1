"""Review what one environment's two assemblies differ in."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ops.review.assembly import Pair, ResourceChange, resource_changes
from ops.review.cloudformation import changes as cloudformation
from ops.review.cloudformation.words import permissions as aws_permissions
from ops.review.consequences import Thing, unknown
from ops.review.cost import bill
from ops.review.digests import identified
from ops.review.hyperpod import changes as hyperpod
from ops.review.hyperpod.tables import groups
from ops.review.kubernetes import changes as kubernetes
from ops.review.kubernetes.differences import differences
from ops.review.kubernetes.ray import ray_clusters
from ops.review.kubernetes.words import permissions as kubernetes_permissions
from ops.review.model import Change, Danger, Effect, EnvironmentVerdict

_KUBERNETES: Final = frozenset({"Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart"})

_ENDING: Final = frozenset({Effect.ENDS_JOBS, Effect.NODES_REMOVED})


def verdict_on(pair: Pair) -> EnvironmentVerdict:
    """Return the verdict on both sides of an environment, its changes worst first.

    Raises ReviewError if an assembly cannot be read.
    """
    differing = list(resource_changes(pair))
    changes = identified(pair, differing, _asked(list(_changes(pair, differing)), pair.removable_nodes))
    return EnvironmentVerdict(
        pair.environment,
        tuple(sorted(changes, key=lambda each: (each.effect.rank, not each.gated, each.title, each.what))),
        before=bill(pair.base) if pair.base else None,
        after=bill(pair.head, pair.base),
        groups=groups(pair),
        ray_clusters=ray_clusters(pair),
        permissions=(*aws_permissions(pair), *kubernetes_permissions(pair)),
        differences=tuple(differences(pair)),
        dependents={part: pair.head.dependents(part) for part in pair.head.stacks},
    )


def _asked(changes: list[Change], removable: int) -> Iterator[Change]:
    """Yield the changes; those that end jobs endanger them if together they take more away than `removable`."""
    ending = [each for each in changes if each.effect in _ENDING and not each.gated]
    lost = Counter[bool]()
    for each in ending:
        # A node's workers go with it: the larger one of both sums counts.
        lost[each.effect is Effect.NODES_REMOVED] += removable + 1 if each.lost is None else each.lost
    asks = any(number > removable for number in lost.values())
    for each in changes:
        yield replace(each, dangers=frozenset({Danger.JOBS_ENDED})) if asks and each in ending else each


def _changes(pair: Pair, differing: Sequence[ResourceChange]) -> Iterator[Change]:
    """Yield the changes that each module finds among its own resources."""
    # A deployment does not touch a stack that is gone, nor what is in it; `cloudformation` reports it.
    there = pair.head.stacks.keys()
    own = _KUBERNETES | hyperpod.TYPES
    for changes, mine in (
        (kubernetes.changes, [each for each in differing if each.type in _KUBERNETES and each.stack in there]),
        (hyperpod.changes, [each for each in differing if each.type in hyperpod.TYPES and each.stack in there]),
        (cloudformation.changes, [each for each in differing if each.type not in own]),
    ):
        found = list(changes(pair, mine))
        yield from found
        # What a module overlooks must not pass as harmless.
        reviewed = {address for change in found for address in change.addresses}
        yield from (_unknown(each) for each in mine if each.address not in reviewed)


def _unknown(each: ResourceChange) -> Change:
    name = f"{each.type} {each.logical_id}"
    what = ", ".join(each.changed_properties) or "it differs"
    return Thing(each.stack, name, name, (each.address,)).has(unknown(what, "No rule covers it."))
