"""Review Helm releases: their names, values, charts and life."""

from collections.abc import Iterator
from typing import Any, Final

from ops.review.assembly import RETAINED
from ops.review.consequences import ReviewFinding, endangers, unknown
from ops.review.kubernetes.charts import RenderedRelease
from ops.review.kubernetes.deltas import deltas, summary
from ops.review.kubernetes.objects import ApplyingResource, literal
from ops.review.kubernetes.rules.values import review_values
from ops.review.kubernetes.sides import ObjectComparison
from ops.review.model import Address, Danger, Effect

_ORPHANS: Final = "The old release stays in the cluster unmanaged, and Helm refuses its objects in the new one."
_GUARD: Final = "Helm deletes its objects."
# What else goes with a release of this project; a release's objects are reviewed too, if its chart was rendered.
_REMOVED: Final = {
    "kuberay-crds": (
        "Kubernetes deletes every RayCluster of the cluster with the definitions.",
        Effect.DATA_LOST,
        {Danger.JOBS_REMOVED, Danger.DATA_LOSS},
    ),
    "kuberay-operator": (
        "RayClusters run on without an operator: lost workers are not replaced.",
        Effect.DELETED,
        {Danger.LOWER_PROTECTION},
    ),
    "aws-fsx-csi-driver": ("New pods cannot mount the file system.", Effect.DELETED, {Danger.LOWER_PROTECTION}),
    "hyperpod-dependencies": (
        "HyperPod's health checks and device plugins stop: nodes lose their GPUs for new pods.",
        Effect.DELETED,
        {Danger.LOWER_PROTECTION},
    ),
}


def review_release(address: Address, both: ObjectComparison) -> Iterator[ReviewFinding]:
    """Yield what the change of a release does, its objects aside."""
    before, after = both.before.releases.get(address), both.after.releases.get(address)
    if before and after:
        yield from _updated(before, after, both)
    elif before:
        yield _removed(before, both)
    elif after:
        yield from _invalid(after)
        if other := _exists(after.source, both.before.sources):
            yield from review_values(both.before.releases[other.address].values, after.values, both.accounts)
            return
        yield ReviewFinding(f"installed: {_chart(after)}", Effect.CREATED)
        if not both.new and after.objects is None:
            yield unknown("its chart was not rendered", "Nobody knows its objects. Install Helm, then review again.")


def _updated(before: RenderedRelease, after: RenderedRelease, both: ObjectComparison) -> Iterator[ReviewFinding]:
    old, new = before.source.name, after.source.name
    if old != new:
        dangers = _REMOVED.get(_name(before.source), ("", Effect.DELETED, {Danger.LOWER_PROTECTION}))[2]
        yield ReviewFinding(f"{old} → {new}", Effect.REFUSED, _ORPHANS, dangers=frozenset(dangers))
    yield from review_values(before.values, after.values, both.accounts)
    changed = before.chart and after.chart and before.chart.name != after.chart.name
    if (before.chart is None) != (after.chart is None) or (after.chart is None and not before.objects):
        yield unknown("chart", "The assembly lacks the chart.")
    elif changed:
        yield from _other_chart(before, after)
    yield from _invalid(after)


def _invalid(release: RenderedRelease) -> Iterator[ReviewFinding]:
    if release.invalid:
        yield ReviewFinding(f"values: {release.error}", Effect.REFUSED, "Helm fails, and so does the deployment.")


def _other_chart(before: RenderedRelease, after: RenderedRelease) -> Iterator[ReviewFinding]:
    old, new = _chart(before), _chart(after)
    what = f"chart {old} → {new}" if old != new else f"chart {new}: other content"
    if before.objects is None or after.objects is None:
        yield unknown(what, "The charts were not rendered. Install Helm, then review again.")
    elif old != new:
        yield ReviewFinding(what, Effect.IN_PLACE, "Helm upgrades the release; its objects are compared one by one.")
    else:
        yield ReviewFinding(what, Effect.NOTHING, "Its objects are compared one by one.")


def _removed(before: RenderedRelease, both: ObjectComparison) -> ReviewFinding:
    other = _exists(before.source, both.after.sources)
    reason, effect, dangers = _REMOVED.get(_name(before.source), (_GUARD, Effect.DELETED, {Danger.LOWER_PROTECTION}))
    if before.source.resource.get("DeletionPolicy") in RETAINED:
        return ReviewFinding(
            "removed from the stack", Effect.KEPT, "Its DeletionPolicy is Retain: Helm does not uninstall it."
        )
    if other:
        why = f"{other.logical_id} upgrades it, then the deletion of {before.source.logical_id} uninstalls it. {reason}"
        return ReviewFinding("moved to another resource", effect, why, dangers=frozenset(dangers))
    return ReviewFinding("removed", effect, reason, dangers=frozenset(dangers))


def _exists(source: ApplyingResource, others: Any) -> ApplyingResource | None:
    """Return another resource of the same release."""
    return next(
        (
            each
            for each in others.values()
            if each.address != source.address and each.is_release and each.name == source.name
        ),
        None,
    )


def _another_bucket(before: ApplyingResource, after: ApplyingResource) -> str:
    """Return where a chart newly comes from; empty if it comes from the same bucket as before."""
    old, new = (literal(each.properties.get("ChartAssetURL", "")).rpartition("/")[0] for each in (before, after))
    return f"ChartAssetURL {old} → {new}" if old != new and old and new else ""


def _name(source: ApplyingResource) -> str:
    return literal(source.properties.get("Release", ""))


def _chart(release: RenderedRelease) -> str:
    return f"{release.metadata.get('name', 'chart')} {release.metadata.get('version', '')}".strip()


def review_settings(before: ApplyingResource, after: ApplyingResource) -> Iterator[ReviewFinding]:
    """Yield what differs in a manifest's or release's resource beside its objects, values and chart."""
    reviewed = {"Manifest", "PruneLabel", "Release", "Namespace", "Values", "ChartAssetURL"}
    harmless = {"Wait", "Timeout", "Atomic", "CreateNamespace", "SkipValidation", "Overwrite", "RoleArn"}
    changed = [
        each
        for each in deltas(dict(before.properties), dict(after.properties))
        if each.path and each.path[0] not in reviewed
    ]
    if other := _another_bucket(before, after):
        yield unknown(other, "The chart does not come from this assembly.")
    if plain := [each for each in changed if each.path[0] in harmless]:
        yield ReviewFinding(summary(plain), Effect.IN_PLACE, "It holds for this and later deployments.")
    if strange := [each for each in changed if each.path[0] not in harmless]:
        yield unknown(summary(strange), "The objects go to another cluster, or come from another chart.")
    policies = [each.resource.get("DeletionPolicy", "Delete") for each in (before, after)]
    if policies[0] != policies[1]:
        what = f"DeletionPolicy {policies[0]} → {policies[1]}"
        yield endangers(Danger.LOWER_PROTECTION, what) if policies[1] == "Delete" else ReviewFinding(what)
    if before.resource.get("Condition") != after.resource.get("Condition"):
        yield unknown("Condition", "The condition decides whether the objects exist.")
    if (before.properties.get("PruneLabel") is None) != (after.properties.get("PruneLabel") is None):
        yield ReviewFinding(
            "pruning", Effect.IN_PLACE, "It decides whether objects that leave the manifest are deleted."
        )
