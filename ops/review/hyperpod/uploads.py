"""Review the uploads of lifecycle scripts: which files differ, and what the added lines do."""

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ops.review.assembly import Assembly, Pair, ResourceChange, stable
from ops.review.hyperpod.rows import ClusterPart
from ops.review.hyperpod.values import differing, same, shown
from ops.review.model import Change, Danger, Effect
from ops.review.scripts import dangerous_lines

UPLOAD: Final = "Custom::CDKBucketDeployment"
_CONTENT: Final = frozenset(
    {"SourceBucketNames", "SourceObjectKeys", "SourceMarkers", "SourceMarkersConfig", "DestinationBucketKeyPrefix"}
)
_Outcome = tuple[Effect, str, *tuple[Danger, ...]]
_SWITCHES: Final[Mapping[tuple[str, bool], _Outcome]] = {
    ("RetainOnDelete", True): (Effect.IN_PLACE, "A removed upload leaves its files in the bucket."),
    ("RetainOnDelete", False): (
        Effect.IN_PLACE,
        "The next change of the scripts deletes the files of this one, which a rollback needs.",
        Danger.LOWER_PROTECTION,
    ),
    ("Prune", False): (Effect.IN_PLACE, "The upload deletes nothing."),
    ("Prune", True): (
        Effect.IN_PLACE,
        "The upload deletes other files below its prefix.",
        Danger.LOWER_PROTECTION,
    ),
}
_OTHERS: Final[Mapping[str, _Outcome]] = {
    "WaitForDistributionInvalidation": (Effect.NOTHING, "It concerns a distribution, and there is none."),
    "OutputObjectKeys": (Effect.NOTHING, "It concerns what the upload answers."),
    "ServiceToken": (Effect.REFUSED, "CloudFormation allows a custom resource no other function."),
}
_KEEP: Final = (
    "Nodes that run keep what they have. HyperPod runs the scripts on nodes created afterwards, also when it replaces "
    "a node, and at an update of its software."
)


@dataclass(frozen=True)
class Upload:
    """One upload: where its files go, and their texts by name; None if the assembly lacks an asset."""

    bucket: Any
    prefix: str
    texts: Mapping[str, str] | None

    @property
    def text(self) -> str:
        """Return all files in one text."""
        return "\n".join(text for _, text in sorted((self.texts or {}).items()))


def uploads(assembly: Assembly | None) -> list[Upload]:
    """Return the uploads of an assembly."""
    stacks = assembly.stacks.values() if assembly else []
    resources = [resource for stack in stacks for resource in stack.resources.values()]
    return [_upload(assembly, each) for each in resources if assembly and each.get("Type") == UPLOAD]


def upload_of(found: Sequence[Upload], uri: Any) -> Upload | None:
    """Return the upload to the address `s3://BUCKET/PREFIX/`; None if none goes there."""
    for each in found:
        joined = {"Fn::Join": ["", ["s3://", each.bucket, f"/{each.prefix}/"]]}
        if same(uri, joined) or (isinstance(each.bucket, str) and uri == f"s3://{each.bucket}/{each.prefix}/"):
            return each
    return None


def changes(pair: Pair, change: ResourceChange) -> Iterator[Change]:
    """Yield the changes of one upload."""
    thing = thing_of(change)
    before, after = (side if side and side.get("Type") == UPLOAD else None for side in (change.before, change.after))
    if before is None and after is not None:
        yield _created(thing, pair, _upload(pair.head, after))
        if pair.base is not None and _on(after.get("Properties", {}), "Prune"):
            yield _pruning(thing, {}, after.get("Properties", {}))
    elif after is None and before is not None:
        yield _deleted(thing, before.get("Properties", {}))
    elif before is not None and after is not None and pair.base is not None:
        old, new = before.get("Properties", {}), after.get("Properties", {})
        keys = differing(old, new)
        if "SourceBucketNames" in keys:
            what = f"SourceBucketNames {shown(old.get('SourceBucketNames'))} → {shown(new.get('SourceBucketNames'))}"
            yield thing.unknown(what, Danger.RUNS_CODE)
        if _CONTENT & set(keys):
            yield _content(thing, _upload(pair.base, before), _upload(pair.head, after), _users(pair, new))
        for key in keys:
            if key not in _CONTENT:
                yield _property(thing, key, old, new)
        if _on(new, "Prune") and {"Prune", "DestinationBucketName", "DestinationBucketKeyPrefix"} & set(keys):
            yield _pruning(thing, old, new)


def _created(thing: ClusterPart, pair: Pair, upload: Upload) -> Change:
    if pair.base is None:
        return thing.change("created", Effect.CREATED, "The first nodes run these scripts.")
    if upload.texts is None:
        return thing.unknown("created, from an asset that the assembly lacks")
    # A folder that was copied, or whose upload got another name, adds no lines.
    earlier = "\n".join(each.text for each in uploads(pair.base))
    return _with_lines(thing, "created", Effect.CREATED, dangerous_lines(earlier, upload.text))


def _deleted(thing: ClusterPart, properties: Mapping[str, Any]) -> Change:
    if _on(properties, "RetainOnDelete"):
        return thing.change("removed", Effect.KEPT, "The files stay in the bucket, where a rollback finds them.")
    reason = "The files are deleted: groups that still name them get no new nodes, and a rollback does not find them."
    return thing.change("removed with its files", Effect.DELETED, reason, dangers=frozenset({Danger.LOWER_PROTECTION}))


def _content(thing: ClusterPart, before: Upload, after: Upload, users: Sequence[str]) -> Change:
    if after.texts is None:
        return thing.unknown("files from an asset that the assembly lacks")
    names = sorted(set(differing(before.texts or {}, after.texts)))
    if not names:
        return thing.change("another place of the same files", Effect.IN_PLACE, _KEEP)
    what = f"{', '.join(names)} of {', '.join(users) or 'no group'}"
    return _with_lines(thing, what, Effect.IN_PLACE, dangerous_lines(before.text, after.text))


def _with_lines(thing: ClusterPart, what: str, effect: Effect, lines: Sequence[str]) -> Change:
    if not lines:
        return thing.change(what, effect, _KEEP)
    reason = f"{_KEEP} They gain {len(lines)} dangerous lines: {'; '.join(f'`{shown(line)}`' for line in lines)}."
    return thing.change(what, effect, reason, dangers=frozenset({Danger.RUNS_CODE}))


def _property(thing: ClusterPart, key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Change:
    what = f"{key} {shown(old.get(key))} → {shown(new.get(key))}"
    known = _SWITCHES.get((key, _on(new, key))) or _OTHERS.get(key)
    if known is None:
        return thing.unknown(what)
    effect, reason, *dangers = known
    return thing.change(what, effect, reason, dangers=frozenset(dangers))


def _pruning(thing: ClusterPart, old: Mapping[str, Any], new: Mapping[str, Any]) -> Change:
    prefix = new.get("DestinationBucketKeyPrefix")
    moved = not same(old.get("DestinationBucketName"), new.get("DestinationBucketName"))
    if moved or not prefix or prefix == "/" or not isinstance(prefix, str):
        what = "deletes all other files of its destination"
        reason = "The upload prunes, and its destination is a bucket, or a part of one, that holds other files."
        return thing.change(what, Effect.DATA_LOST, reason, dangers=frozenset({Danger.DATA_LOSS}))
    return thing.change("prunes its own prefix", Effect.IN_PLACE, "Nothing else lies below the hash of the scripts.")


def _users(pair: Pair, properties: Mapping[str, Any]) -> list[str]:
    """Return the names of the groups whose nodes run the uploaded scripts."""
    own = [Upload(properties.get("DestinationBucketName"), str(properties.get("DestinationBucketKeyPrefix")), None)]
    return [
        str(group.get("InstanceGroupName"))
        for stack in pair.head.stacks.values()
        for resource in stack.resources.values()
        if resource.get("Type") == "Custom::HyperPodCluster"
        for group in _list(resource.get("Properties", {}).get("InstanceGroups"))
        if upload_of(own, group.get("LifeCycleConfig", {}).get("SourceS3Uri"))
    ]


def _upload(assembly: Assembly, resource: Mapping[str, Any]) -> Upload:
    properties = resource.get("Properties", {})
    prefix = properties.get("DestinationBucketKeyPrefix", "")
    return Upload(properties.get("DestinationBucketName"), str(prefix), _texts(assembly, properties))


def _texts(assembly: Assembly, properties: Mapping[str, Any]) -> dict[str, str] | None:
    texts: dict[str, str] = {}
    for key in _list(properties.get("SourceObjectKeys")):
        path = assembly.asset(key.partition(".")[0]) if isinstance(key, str) else None
        if path is None:
            return None
        texts |= _files(path)
    return texts


def _files(path: Path) -> dict[str, str]:
    if path.is_dir():
        files = (file for file in sorted(path.rglob("*")) if file.is_file())
        return {str(file.relative_to(path)): file.read_text(errors="replace") for file in files}
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name).decode(errors="replace") for name in archive.namelist()}
    return {path.name: path.read_text(errors="replace")}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _on(properties: Mapping[str, Any], key: str) -> bool:
    """Return whether the property is on; CDK's function takes an absent one as on."""
    return str(properties.get(key, True)).lower() == "true"


def thing_of(change: ResourceChange) -> ClusterPart:
    """Return the upload's name, of the folder that it uploads."""
    resource = change.after or change.before or {}
    found = re.search(r"/Upload-([^/]+)/", str(resource.get("Metadata", {}).get("aws:cdk:path", "")))
    # Without a path: the logical id without the hash of the path.
    name = found[1] if found else stable(change.logical_id)
    return ClusterPart(change.stack, f"LifecycleScripts {name}", f"lifecycle scripts {name}")
