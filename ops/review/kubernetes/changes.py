"""Review the changes of Kubernetes objects and Helm releases, one object at a time."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from k8s_charts.shared.names import IMAGE_BUILD_NAMESPACE
from ops.review.assembly import Pair, ResourceChange
from ops.review.consequences import ReviewFinding, Thing, endangers, unknown
from ops.review.kubernetes.deltas import deltas, summary
from ops.review.kubernetes.fields import strange_fields
from ops.review.kubernetes.object_effects import ObjectEffect, ReasonedEffect, effect_on
from ops.review.kubernetes.objects import KubernetesObject
from ops.review.kubernetes.releases import review_release, review_settings
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.kubernetes.rules.removals import review_removal
from ops.review.kubernetes.rules.table import rule_of
from ops.review.kubernetes.sides import TYPES, ObjectComparison, sides
from ops.review.model import Address, Change, Danger, Effect

# Of a new environment nothing is looser than before: these hold for whatever is new.
_ALWAYS: Final = frozenset({Danger.PUBLIC_ENDPOINT, Danger.UNKNOWN})
# The end of a Job's name: the hash of what it does.
_HASHES: Final = re.compile(r"(-[0-9a-f]{8,})+$")
_POLICY: Final = "helm.sh/resource-policy"
_METADATA: Final = frozenset({"labels", "annotations"})


def changes(pair: Pair, differing: Sequence[ResourceChange]) -> Iterator[Change]:
    """Yield what the differing manifests and releases do to each Kubernetes object and release.

    Raises ReviewError if a manifest, values or a chart of the project's own cannot be read.
    """
    both = sides(pair)
    context = RuleContext(pair.environment, both.before.all, both.after.all, both.accounts, pair.head)
    reported: set[tuple[str, str]] = set()
    jobs = both.replaced_jobs()
    gone = {old.key for old in jobs.values() if effect_on(old, None, both).fate is ObjectEffect.DELETED}
    for key in sorted(both.after.twice - both.before.twice):
        each = both.after.all[key]
        twice = unknown("stands at two places", "Which of the two texts is the live one depends on the order.")
        yield _change(_addresses(each), each.resource, twice, both)
    for before, after in both.pairs():
        if before and before.key in gone and after is None:
            continue
        if after and after.key in jobs and jobs[after.key].key in gone:
            reported.add(after.source.address)
            yield from _replaced_job(jobs[after.key], after, both, context)
            continue
        for change in _of_object(before, after, both, context):
            reported |= {each.source.address for each in (before, after) if each}
            yield change
    for resource in differing:
        address = resource.address
        found = list(_of_resource(resource, both))
        if not found and address not in reported:
            why = "Its objects are equal: only CDK's names or the order of the deployment differ."
            found = [ReviewFinding("no object differs", Effect.NOTHING, why)]
        source = both.after.sources.get(address) or both.before.sources.get(address)
        name = source.name if source else f"{resource.type} {resource.logical_id}"
        yield from (_change((address,), name, each, both) for each in found)


def _of_object(
    before: KubernetesObject | None, after: KubernetesObject | None, both: ObjectComparison, context: RuleContext
) -> Iterator[Change]:
    one = after or before
    if one is None:
        return
    way = effect_on(before, after, both)
    if before and after and before.body == after.body and way.fate is ObjectEffect.STAYS and not way.reason:
        return
    for each in _consequences(before, after, way, both, context):
        yield _change(_addresses(after, before), one.resource, each, both)


def _replaced_job(
    before: KubernetesObject, after: KubernetesObject, both: ObjectComparison, context: RuleContext
) -> Iterator[Change]:
    """Yield one change for a Job that takes another's place: its name is a hash of what it does."""
    name = _HASHES.sub("", after.name)
    resource = f"Job {after.namespace}/{name}"
    dangers: set[Danger] = set()
    for each in _consequences(None, after, effect_on(None, after, both), both, context):
        if each.dangers or each.effect is not Effect.CREATED:
            dangers |= each.dangers
            yield _change(_addresses(after, before), resource, each, both)
    if not dangers:
        what = f"{before.name} → {after.name}"
        work = "builds the image" if after.namespace == IMAGE_BUILD_NAMESPACE else "runs"
        reason = f"The new Job {work}; the old Job is deleted, and its pods end if it still runs."
        yield _change(_addresses(after, before), resource, ReviewFinding(what, Effect.CREATED, reason), both)


def _consequences(
    before: KubernetesObject | None,
    after: KubernetesObject | None,
    way: ReasonedEffect,
    both: ObjectComparison,
    context: RuleContext,
) -> Iterator[ReviewFinding]:
    one = after or before
    rule = rule_of(one.key) if one else None
    if rule is None:
        yield unknown(_what(before, after), "No rule knows this kind.")
        return
    if before and way.fate is not ObjectEffect.STAYS:
        yield from (_on_the_way(each, way) for each in review_removal(before.body, context))
    if after is None:
        return
    if strange := strange_fields(before.body if before else None, after.body):
        yield unknown(", ".join(strange), "The Kubernetes API has no such field.")
    if before is None:
        earlier = both.predecessor(after)
        found = [_as_created(each) for each in rule(earlier.body if earlier else None, after.body, context)]
        dangerous = [each for each in found if each.dangers & (_ALWAYS if both.new else each.dangers)]
        yield from dangerous or [ReviewFinding("created", Effect.CREATED)]
        return
    found = list(rule(before.body, after.body, context))
    found += list(_metadata(before, after))
    if way.fate is ObjectEffect.STAYS and way.reason:
        found.append(ReviewFinding("moved", Effect.IN_PLACE, way.reason))
    differing = list(deltas(before.body, after.body))
    yield from found or ([ReviewFinding(summary(differing))] if differing else [])


def _as_created(each: ReviewFinding) -> ReviewFinding:
    return replace(each, effect=Effect.CREATED) if each.effect is Effect.IN_PLACE else each


def _on_the_way(removal: ReviewFinding, way: ReasonedEffect) -> ReviewFinding:
    """Return the consequence on a removal as the object's way makes it; its dangers stay."""
    what = "moved" if way.fate not in {ObjectEffect.DELETED, ObjectEffect.KEPT} else removal.what
    reason = f"{way.reason} {removal.reason}".strip()
    if way.fate is ObjectEffect.KEPT:
        return replace(removal, what=what, effect=Effect.KEPT, reason=way.reason)
    if way.fate is ObjectEffect.REFUSED:
        return replace(removal, what=what, effect=Effect.REFUSED, reason=reason)
    if way.fate is ObjectEffect.RECREATED and removal.effect is Effect.DELETED:
        return replace(removal, what=what, effect=Effect.REPLACED, reason=reason)
    return replace(removal, what=what, reason=reason)


def _metadata(before: KubernetesObject, after: KubernetesObject) -> Iterator[ReviewFinding]:
    """Yield other labels and annotations, and fields of the metadata that no rule knows."""
    old, new = before.body["metadata"], after.body["metadata"]
    changed = [each for each in deltas(old, new, ("metadata",)) if len(each.path) > 1]
    kept = [(side.get("annotations") or {}).get(_POLICY) == "keep" for side in (old, new)]
    if kept == [True, False]:
        yield endangers(Danger.LOWER_PROTECTION, f"{_POLICY} keep is removed", "Helm deletes it with its release.")
    strange = [each for each in changed if each.path[1] not in _METADATA]
    if strange:
        yield unknown(summary(strange), "No rule knows these fields of the metadata.")
    reviewed = {"Namespace", "ServiceAccount", "Service", "Ingress"}
    plain = [each for each in changed if each not in strange]
    if plain and before.kind not in reviewed:
        hashes = all("ray-on-hyperpod/" in ".".join(each.path) for each in plain)
        yield ReviewFinding(
            summary(plain), Effect.NOTHING if hashes else Effect.IN_PLACE, "Only labels or annotations."
        )


def _of_resource(resource: ResourceChange, both: ObjectComparison) -> Iterator[ReviewFinding]:
    address = resource.address
    old, new = both.before.sources.get(address), both.after.sources.get(address)
    types = {side.get("Type") for side in (resource.before, resource.after) if side}
    if len(types) > 1 and not types <= TYPES | {None}:
        yield unknown(f"type {' → '.join(sorted(map(str, types)))}", "CloudFormation refuses another type.")
    elif len(types) > 1:
        yield ReviewFinding("type", Effect.REFUSED, "CloudFormation refuses another type of the same resource.")
    if (old and old.is_release) or (new and new.is_release):
        yield from review_release(address, both)
    if old and new and old.is_release == new.is_release:
        yield from review_settings(old, new)


def _addresses(*objects: KubernetesObject | None) -> tuple[Address, ...]:
    """Return the resources that apply the objects; the first object's stack is the change's."""
    return tuple(dict.fromkeys(each.source.address for each in objects if each))


def _change(addresses: tuple[Address, ...], resource: str, found: ReviewFinding, both: ObjectComparison) -> Change:
    dangers = found.dangers & _ALWAYS if both.new else found.dangers
    thing = Thing(addresses[0][0], resource, _title(resource), addresses)
    return thing.has(replace(found, dangers=dangers))


def _title(resource: str) -> str:
    kind, _, name = resource.partition(" ")
    words = {"HelmRelease": "Helm release", "KubernetesManifest": "manifest"}
    return f"{words.get(kind, kind)} {name.rpartition('/')[2]}"


def _what(before: KubernetesObject | None, after: KubernetesObject | None) -> str:
    if before and after:
        return summary(deltas(before.body, after.body))
    return "created" if after else "removed"
