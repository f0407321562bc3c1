"""What a deployment does to the live object that leaves a manifest or a release.

CDK's handlers decide. kubectl creates the objects of a new manifest and fails on an existing one. It applies an updated
manifest and prunes the objects that left it, if their kind is on kubectl's list. It deletes the objects of a deleted
manifest by name. Helm refuses objects of others, and deletes what left its release. CloudFormation deletes resources
after it created and updated the others of the stack.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ops.review.assembly import RETAINED
from ops.review.kubernetes.objects import ApplyingResource, KubernetesObject
from ops.review.kubernetes.sides import ObjectComparison

# Kubernetes 1.35, kubectl/pkg/util/prune/prune.go: the kinds that `kubectl apply --prune` deletes without an allowlist.
_PRUNED: Final = frozenset(
    {
        "ConfigMap",
        "CronJob",
        "DaemonSet",
        "Deployment",
        "Endpoints",
        "Ingress",
        "Job",
        "Namespace",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "ReplicaSet",
        "ReplicationController",
        "Secret",
        "Service",
        "StatefulSet",
    }
)


class ObjectEffect(Enum):
    """What becomes of the live object."""

    STAYS = auto()
    """The same resource applies it, or another takes it over."""
    CREATED = auto()
    DELETED = auto()
    KEPT = auto()
    """Nothing deletes it, and nothing manages it."""
    REFUSED = auto()
    """Its new resource fails because the object exists."""
    DELETED_AFTER = auto()
    """Its new resource applies it, then its old resource deletes it."""
    RECREATED = auto()
    """Its old resource may delete it before its new resource creates it."""


@dataclass(frozen=True)
class ReasonedEffect:
    """A fate with its reason."""

    fate: ObjectEffect
    reason: str = ""


def effect_on(
    before: KubernetesObject | None, after: KubernetesObject | None, both: ObjectComparison
) -> ReasonedEffect:
    """Return what becomes of the live object."""
    if before is None:
        return ReasonedEffect(ObjectEffect.CREATED)
    old = before.source
    now = both.after.sources.get(old.address)
    leaves = _leaves(before, now)
    if after is None:
        return leaves
    new = after.source
    if new.address == old.address and new.is_release == old.is_release:
        return ReasonedEffect(ObjectEffect.STAYS)
    return _moved(before, after, leaves, both)


def _moved(
    before: KubernetesObject, after: KubernetesObject, leaves: ReasonedEffect, both: ObjectComparison
) -> ReasonedEffect:
    old, new = before.source, after.source
    now = both.after.sources.get(old.address)
    moved = f"The object moves from {old.name} ({old.stack}) to {new.name} ({new.stack})"
    exists = new.address in both.before.sources
    if leaves.fate is ObjectEffect.KEPT and _takes_over(new, exists):
        return ReasonedEffect(ObjectEffect.STAYS, f"{moved}, which takes it over.")
    same_release = old.is_release and new.is_release and old.name == new.name
    if (same_release or _takes_over(new, exists)) and now is None:
        return ReasonedEffect(
            ObjectEffect.DELETED_AFTER, f"{moved}, which applies it; then the deletion of the old one deletes it."
        )
    if new.stack == old.stack and (now is None or leaves.fate is ObjectEffect.KEPT):
        why = "Helm refuses objects of others" if new.is_release else "kubectl creates it, and it exists"
        return ReasonedEffect(ObjectEffect.REFUSED, f"{moved}, which fails: {why}.")
    return ReasonedEffect(
        ObjectEffect.RECREATED, f"{moved}. The old one may delete it before the new one creates it, or after."
    )


def _takes_over(new: ApplyingResource, exists: bool) -> bool:
    """Return whether a manifest applies an object that exists already."""
    overwrite = str(new.properties.get("Overwrite", "false")).lower() == "true"
    return not new.is_release and (exists or overwrite)


def _leaves(each: KubernetesObject, now: ApplyingResource | None) -> ReasonedEffect:
    """Return what becomes of an object that its resource no longer holds; `now` is that resource on the new side."""
    old = each.source
    if now is None:
        return _with_resource(each)
    if old.is_release:
        return _from_release(each)
    label = now.properties.get("PruneLabel")
    if each.kind not in _PRUNED:
        return ReasonedEffect(
            ObjectEffect.KEPT, f"kubectl does not prune a {each.kind}: it stays in existing clusters."
        )
    if not label or label != old.properties.get("PruneLabel"):
        return ReasonedEffect(
            ObjectEffect.KEPT, f"{old.name} does not prune what leaves it: the object stays in existing clusters."
        )
    return ReasonedEffect(ObjectEffect.DELETED, f"kubectl prunes what leaves {old.name}.")


def _with_resource(each: KubernetesObject) -> ReasonedEffect:
    if each.source.resource.get("DeletionPolicy") in RETAINED:
        return ReasonedEffect(
            ObjectEffect.KEPT, f"DeletionPolicy of {each.source.name} is Retain: nothing deletes the object."
        )
    return (
        _from_release(each)
        if each.source.is_release
        else ReasonedEffect(ObjectEffect.DELETED, "Its manifest is deleted.")
    )


def _from_release(each: KubernetesObject) -> ReasonedEffect:
    if (each.body["metadata"].get("annotations") or {}).get("helm.sh/resource-policy") == "keep":
        return ReasonedEffect(ObjectEffect.KEPT, "Its annotation helm.sh/resource-policy is keep: Helm leaves it.")
    return ReasonedEffect(ObjectEffect.DELETED, f"{each.source.name} no longer holds it: Helm deletes it.")
