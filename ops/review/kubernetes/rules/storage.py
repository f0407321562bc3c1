"""Review volumes, claims and storage classes."""

from collections.abc import Iterator
from typing import Any, Final

from ops.review.consequences import ReviewFinding, endangers, refused, unknown
from ops.review.kubernetes.deltas import at, fields, others, shown, summary
from ops.review.kubernetes.objects import Body
from ops.review.kubernetes.rules.context import RuleContext
from ops.review.kubernetes.rules.namespaces import quantity
from ops.review.model import Danger, Effect
from ops.review.steps import operator_before

_SOURCES: Final = ("csi", "nfs", "hostPath", "local", "awsElasticBlockStore", "fc", "iscsi")
_RENAME: Final = operator_before("save the data, then delete the claim and its volume")
_VOLUME_FIELDS: Final = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeMode",
        "nodeAffinity",
        *_SOURCES,
    }
)
_CLAIM_FIXED: Final = (
    "storageClassName",
    "volumeName",
    "accessModes",
    "volumeMode",
    "dataSource",
    "dataSourceRef",
    "selector",
)
_CLASS_FIXED: Final = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode", "mountOptions")
_OTHER_FILES: Final = "Jobs would see another file system."


def review_volume(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield what a PersistentVolume's change does to its data and to the pods that mount it."""
    policy = at(before, "spec", "persistentVolumeReclaimPolicy") or "Retain"
    old, new = at(before, "spec") or {}, at(after, "spec") or {}
    now = new.get("persistentVolumeReclaimPolicy") or "Retain"
    if now != "Retain" and (before is None or policy != now):
        what = f"persistentVolumeReclaimPolicy {policy if before else 'none'} → {now}"
        yield endangers(Danger.LOWER_PROTECTION, what, "A deleted claim deletes the file system.")
    elif policy != now:
        yield ReviewFinding(f"persistentVolumeReclaimPolicy {policy} → {now}", Effect.IN_PLACE)
    if (path := at(new, "hostPath", "path")) and at(old, "hostPath") != at(new, "hostPath"):
        yield endangers(Danger.LOOSER_ISOLATION, f"hostPath {path}", "Pods mount the node's own disk.")
    if before is None:
        return
    moved = fields(old, new, *_SOURCES)
    if moved and _is_renamed(before, after):
        yield endangers(Danger.DATA_LOSS, summary(moved), _OTHER_FILES, Effect.CREATED)
    elif moved:
        why = f"The source of a PersistentVolume is immutable. {_OTHER_FILES}"
        yield ReviewFinding(summary(moved), Effect.REFUSED, why, _RENAME, frozenset({Danger.DATA_LOSS}))
    yield from _other(old, new, _VOLUME_FIELDS - set(_SOURCES) - {"persistentVolumeReclaimPolicy"})


def review_claim(before: Body | None, after: Body, context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield what a PersistentVolumeClaim's change does to its data."""
    if before is None:
        return
    old, new = at(before, "spec") or {}, at(after, "spec") or {}
    if _is_renamed(before, after):
        source = _source(old, context, after=False)
        if source is None or source != _source(new, context, after=True):
            yield endangers(Danger.DATA_LOSS, f"instead of {before['metadata']['name']}", _OTHER_FILES, Effect.CREATED)
        return
    if fixed := fields(old, new, *_CLAIM_FIXED):
        why = f"These fields of a claim are immutable. {_OTHER_FILES}"
        yield ReviewFinding(summary(fixed), Effect.REFUSED, why, _RENAME, frozenset({Danger.DATA_LOSS}))
    yield from _size(old, new)
    yield from _other(old, new, frozenset({*_CLAIM_FIXED, "resources"}), skip=True)


def _is_renamed(before: Body, after: Body) -> bool:
    """Return whether the object is a new one in the place of another: it may differ in what is immutable."""
    return bool(before["metadata"]["name"] != after["metadata"]["name"])


def _source(claim: Any, context: RuleContext, *, after: bool) -> Any:
    """Return the source of a static claim's volume; None if it is dynamic, or its volume is not among the objects."""
    volumes = [
        each for each in context.of_kind("PersistentVolume", after=after) if each.name == claim.get("volumeName")
    ]
    return next(({key: at(each.body, "spec", key) for key in _SOURCES} for each in volumes), None)


def _size(old: Any, new: Any) -> Iterator[ReviewFinding]:
    path = ("resources", "requests", "storage")
    was, now = at(old, *path), at(new, *path)
    least, wanted = quantity(was), quantity(now)
    if was == now or (least is not None and least == wanted):
        return
    what = f"storage {was} → {now}"
    if least is None or wanted is None or wanted < least:
        yield refused(what, "A claim cannot shrink.")
    elif new.get("volumeName"):
        yield refused(what, "A claim of a static volume cannot grow: no storage class expands it.")
    else:
        yield ReviewFinding(what, Effect.IN_PLACE, "The driver expands the volume if its storage class allows it.")


def review_storage_class(before: Body | None, after: Body, _context: RuleContext) -> Iterator[ReviewFinding]:
    """Yield a StorageClass' change; all but the labels is immutable."""
    default = "storageclass.kubernetes.io/is-default-class"
    if before is None:
        return
    if at(before, "reclaimPolicy") == "Retain" and at(after, "reclaimPolicy") != "Retain":
        why = "A deleted claim deletes the file system."
        yield endangers(Danger.LOWER_PROTECTION, "reclaimPolicy Retain → Delete", why, Effect.REFUSED)
    was, now = (at(each, "parameters", "kmsKeyId") for each in (before, after))
    if was and was != now:
        what = f"kmsKeyId {shown(was)} → {shown(now)}"
        yield endangers(Danger.LOWER_PROTECTION, what, "New file systems have another key.", Effect.REFUSED)
    if not _is_renamed(before, after) and (fixed := fields(before, after, *_CLASS_FIXED)):
        action = "Delete the StorageClass, then deploy; volumes stay."
        yield refused(summary(fixed), "A StorageClass is immutable.", action)
    if at(before, "metadata", "annotations", default) != at(after, "metadata", "annotations", default):
        yield ReviewFinding("default class", Effect.IN_PLACE, "Claims without a class get the default class.")
    if growth := fields(before, after, "allowVolumeExpansion"):
        yield ReviewFinding(summary(growth))


def _other(old: Any, new: Any, known: frozenset[str], *, skip: bool = False) -> Iterator[ReviewFinding]:
    """Yield the changes of known fields, unless `skip`, and of unknown ones; sources are reviewed apart."""
    changed = others(old, new, {*_SOURCES, "persistentVolumeReclaimPolicy"})
    if mine := [each for each in changed if each.path[0] in known and not skip]:
        yield ReviewFinding(summary(mine), Effect.IN_PLACE, "It holds for new mounts.")
    if strange := [each for each in changed if each.path[0] not in known]:
        yield unknown(summary(strange), "No rule knows these fields.")
