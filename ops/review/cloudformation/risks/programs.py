"""Find what nodes and functions newly run: other code, start scripts, machine images, versions that skip."""

import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ops.review.assembly import Assembly
from ops.review.cloudformation.risks.references import single
from ops.review.cloudformation.sides import ChangedResource, Key, Risk, TemplateComparison
from ops.review.cloudformation.values import is_off, mapping, nested, same, short, text
from ops.review.model import Danger
from ops.review.scripts import ONLY_TELLS, dangerous_lines
from ops.review.sleeping import ranges

_FUNCTION: Final = "AWS::Lambda::Function"
_LAYER: Final = "AWS::Lambda::LayerVersion"
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_READ: Final = (".py", ".sh", ".js", ".mjs")
_RANGES: Final = ("Environment", "Variables", "RANGES")
"""Between which counts the function of sleeping groups may set each."""
# What says only what is measured, or by which way a service is reached.
_HARMLESS: Final = re.compile(r"POWERTOOLS_\w+|AWS_STS_REGIONAL_ENDPOINTS")


def other_programs(sides: TemplateComparison) -> Iterator[Risk]:
    """Yield start scripts, images and remote access of nodes, and the code and the role of functions."""
    if sides.base.assembly is None:
        return
    for each in sides.differing("AWS::EC2::LaunchTemplate"):
        for path, _, new in single(each.before, each.after):
            if path[-1] == "AssociatePublicIpAddress" and not is_off(new):
                yield Risk(each.key, Danger.PUBLIC_ENDPOINT, f"{path[-1]} on", "Nodes get public addresses.")
    for each in sides.differing("AWS::EKS::Nodegroup"):
        access = each.after.get("RemoteAccess")
        if access and not same(each.before.get("RemoteAccess"), access):
            reason = "EKS opens SSH on its nodes, to everywhere without source security groups."
            yield Risk(each.key, Danger.OPENED_PORT, "RemoteAccess", reason)
        yield from _placement(each)
    for each in sides.differing(_FUNCTION, _LAYER):
        yield from _function(each, sides)


def _placement(group: ChangedResource) -> Iterator[Risk]:
    """Yield what keeps away or evicts the pods of a node group: the operator, the controllers, DNS."""
    if not group.before:
        return
    labels = mapping(group.after.get("Labels"))
    for name, value in mapping(group.before.get("Labels")).items():
        if not same(labels.get(name), value):
            what = f"Labels.{name} {short(value)} → {short(labels.get(name))}"
            yield Risk(group.key, Danger.LOWER_PROTECTION, what, "Pods that select the nodes by it do not start there.")
    known = group.before.get("Taints") or []
    for taint in group.after.get("Taints") or []:
        parts = mapping(taint)
        if taint not in known and parts.get("Effect") != "PREFER_NO_SCHEDULE":
            what = "Taints: added " + ":".join(
                short(parts[name]) for name in ("Key", "Value", "Effect") if name in parts
            )
            reason = (
                "Pods that do not tolerate it do not start there; NO_EXECUTE evicts them: KubeRay, the reaper, DNS."
            )
            yield Risk(group.key, Danger.LOWER_PROTECTION, what, reason)


def _function(function: ChangedResource, sides: TemplateComparison) -> Iterator[Risk]:
    key, before, after = function.key, function.before, function.after
    if before:
        yield from _environment(key, before, after, sides.head.assembly)
    name = "Content" if "Content" in after else "Code"
    old, new = mapping(before.get(name)), mapping(after.get(name))
    if same(old, new):
        return
    if before and not same(old.get("S3Bucket"), new.get("S3Bucket")):
        what = f"{name}.S3Bucket {short(old.get('S3Bucket'))} → {short(new.get('S3Bucket'))}"
        yield Risk(key, Danger.RUNS_CODE, what, "The code comes from another bucket than this assembly's.")
    lines, unread = _lines(old, sides.base.assembly), []
    if "S3Key" in new and not _asset(new, sides.head.assembly):
        unread.append(short(new["S3Key"]))
    if "ImageUri" in new:
        unread.append(short(new["ImageUri"]))
    if unread:
        yield Risk(key, Danger.RUNS_CODE, f"code {unread[0]}", "Nothing here shows what it does.")
    elif dangerous := dangerous_lines(lines, _lines(new, sides.head.assembly)):
        what = f"{len(dangerous)} dangerous lines: {short(dangerous[0])}"
        yield Risk(key, Danger.RUNS_CODE, what, "The function's code can delete, open or fetch more.")


def _environment(
    key: Key, before: Mapping[str, Any], after: Mapping[str, Any], head: Assembly | None
) -> Iterator[Risk]:
    """Yield variables that may decide what a function loads, or on what it acts."""
    follows = _ranges_follow(after, head)
    for path, old, new in single(before.get("Environment"), after.get("Environment"), ("Environment",)):
        if follows and path[:3] == _RANGES:
            continue
        if not ONLY_TELLS.fullmatch(path[-1]) and not _HARMLESS.fullmatch(path[-1]):
            what = f"{'.'.join(path)} {short(old)} → {short(new)}"
            yield Risk(key, Danger.RUNS_CODE, what, "The function loads other code, or acts on something else.")


def _ranges_follow(function: Mapping[str, Any], head: Assembly | None) -> bool:
    """Return whether the ranges of counts are those of the groups that sleep, about which the review says all."""
    wanted = ranges(head) if head else None
    said = mapping(mapping(function.get("Environment")).get("Variables")).get(_RANGES[-1])
    return (
        wanted is not None
        and isinstance(said, str)
        and nested(said) == {name: list(both) for name, both in wanted.items()}
    )


def _asset(code: Mapping[str, Any], assembly: Assembly | None) -> Path | None:
    digest = _HASH.search(text(code.get("S3Key")))
    return assembly.asset(digest[0]) if assembly and digest else None


def _lines(code: Mapping[str, Any], assembly: Assembly | None) -> str:
    """Return the code as one text."""
    path = _asset(code, assembly)
    if path is None:
        return str(code.get("ZipFile", ""))
    if path.is_dir():
        files = [each for each in sorted(path.rglob("*")) if each.is_file() and each.suffix in _READ]
        return "\n".join(each.read_text(errors="replace") for each in files)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = [each for each in sorted(archive.namelist()) if each.endswith(_READ)]
            return "\n".join(archive.read(each).decode(errors="replace") for each in names)
    return path.read_text(errors="replace")


def version_skips(sides: TemplateComparison) -> Iterator[Risk]:
    """Yield EKS clusters and node groups whose version does not go up by one minor version."""
    for each in sides.differing("AWS::EKS::Cluster", "AWS::EKS::Nodegroup"):
        before, after = each.before.get("Version"), each.after.get("Version")
        if before is None or same(before, after):
            continue
        old, new = _version(before), _version(after)
        if old is None or new is None or old[0] != new[0] or new[1] - old[1] not in (0, 1):
            what = f"Kubernetes {short(before)} → {short(after)}"
            reason = "EKS upgrades a cluster by one minor version at a time; back, only by its own rollback."
            yield Risk(each.key, Danger.VERSION_SKIP, what, reason)


def _version(value: object) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d+)\.(\d+)", str(value))
    return (int(match[1]), int(match[2])) if match else None
