"""Judge the instance groups: added, removed, renamed, and each changed field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from handlers.hyperpod_cluster.consequences import GROUPS, Kind, consequence
from ops.review.assembly import Pair, Properties
from ops.review.cost import usd_per_hour_of_nodes
from ops.review.hyperpod.placement import Taint, of_labels, of_taint, ray_pods
from ops.review.hyperpod.rows import Thing
from ops.review.hyperpod.uploads import upload_of, uploads
from ops.review.hyperpod.values import differing, has_intrinsic, number, same, sentence, shown
from ops.review.model import Change, Danger, Effect
from ops.review.scripts import dangerous_lines

CONFIRMATION: Final = "hyperpod.confirm_group_removal"
_FOREIGN: Final = "This deployment does not upload the lifecycle scripts, and nothing here shows what they do."
Group = Mapping[str, Any]


@dataclass(frozen=True)
class Groups:
    """Both sides of the groups of one cluster."""

    pair: Pair
    stack: str
    before: Mapping[str, Group]
    after: Mapping[str, Group]
    confirmed: frozenset[str]
    """The names in the new template's ConfirmGroupRemoval."""


def named(properties: Properties) -> dict[str, Group] | None:
    """Return the groups by name; None if their names are known only at the deployment, or not different."""
    groups = properties.get("InstanceGroups", [])
    if not isinstance(groups, list):
        return None
    names = [group.get("InstanceGroupName") if isinstance(group, Mapping) else None for group in groups]
    if len(set(map(str, names))) < len(names) or not all(isinstance(name, str) for name in names):
        return None
    return dict(zip(map(str, names), groups, strict=True))


def changes(groups: Groups) -> Iterator[Change]:
    """Yield the changes of all groups."""
    removed = [name for name in groups.before if name not in groups.after]
    added = [name for name in groups.after if name not in groups.before]
    for name in removed:
        new = next((each for each in added if _but_for_the_name(groups.before[name], groups.after[each])), None)
        if new is not None:
            added.remove(new)
        yield _gone(groups, name, new)
    for name in added:
        yield _added(groups, name)
    for name in groups.before:
        if name in groups.after:
            yield from _changed(groups, name)


def size(group: Group) -> str:
    """Return the number and the type of the group's nodes: `4 x ml.p5.48xlarge`."""
    return f"{shown(group.get('InstanceCount'))} x {shown(group.get('InstanceType'))}"


def runs_foreign_scripts(pair: Pair, group: Group) -> bool:
    """Return whether the group's lifecycle scripts come from elsewhere than an upload of the new assembly."""
    settings = group.get("LifeCycleConfig") or {}
    return bool(settings) and upload_of(uploads(pair.head), settings.get("SourceS3Uri")) is None


def _but_for_the_name(one: Group, other: Group) -> bool:
    return differing(one, other) == ["InstanceGroupName"]


def _gone(groups: Groups, name: str, new: str | None) -> Change:
    """Return the change of a group that is removed, or renamed to `new`."""
    thing, old = _thing(groups, name), groups.before[name]
    row = consequence(GROUPS, Kind.RENAMED if new else Kind.REMOVED)
    confirmed = name in groups.confirmed
    drain = f"`ops scale {name} 0 --env {groups.pair.environment}`"
    action = f"To drain its nodes, run {drain} before the deployment, if no RayCluster needs the group."
    if not confirmed:
        action = f"List {name} under {CONFIRMATION}, or the deployment is refused. {action}"
    if new:
        action += " Without capacity for both groups, remove the old one first, in a deployment of its own."
    return thing.change(
        f"renamed to {new}, {size(old)}" if new else f"removed, {size(old)}",
        Effect.NODES_REPLACED if new else Effect.NODES_REMOVED,
        f"{sentence(row.reason) if row else ''} HyperPod does not drain them.",
        action,
        dangers=frozenset({Danger.GROUP_REMOVED}),
        confirmed_by=CONFIRMATION if confirmed else "",
    )


def _added(groups: Groups, name: str) -> Change:
    group, row = groups.after[name], consequence(GROUPS, Kind.ADDED)
    reason = f"{sentence(row.reason) if row else ''} {_price(group, number(group.get('InstanceCount')))}"
    foreign = runs_foreign_scripts(groups.pair, group)
    return _thing(groups, name).change(
        f"added, {size(group)}",
        Effect.CREATED,
        f"{reason} {_FOREIGN}" if foreign else reason,
        dangers=frozenset({Danger.RUNS_CODE} if foreign else set()),
    )


def _changed(groups: Groups, name: str) -> Iterator[Change]:
    before, after = groups.before[name], groups.after[name]
    thing = _thing(groups, name)
    for key in differing(before, after):
        old, new = before.get(key), after.get(key)
        if key == "InstanceCount":
            yield _count(groups, thing, before, after)
        elif key == "KubernetesConfig":
            yield _kubernetes(groups, name, old or {}, new or {})
        elif key == "LifeCycleConfig":
            yield _scripts(groups, thing, old or {}, new or {})
        else:
            yield thing.by_table(f"{GROUPS}.{key}", old, new)


def _count(groups: Groups, thing: Thing, before: Group, after: Group) -> Change:
    old, new = number(before.get("InstanceCount")), number(after.get("InstanceCount"))
    what = f"count {shown(before.get('InstanceCount'))} → {shown(after.get('InstanceCount'))}"
    if old is None or new is None:
        reason = "The count is known only at the deployment: HyperPod may delete nodes."
        return thing.change(what, Effect.NODES_REMOVED, reason, dangers=frozenset({Danger.UNKNOWN}))
    if new > old:
        row = consequence(f"{GROUPS}.InstanceCount", Kind.RAISED)
        reason = f"{sentence(row.reason) if row else ''} {_price(after, new - old)} Nodes that run are not touched."
        return thing.change(what, Effect.IN_PLACE, reason)
    name = str(after["InstanceGroupName"])
    reason = (
        "In a plain deployment HyperPod chooses the nodes to delete, and does not drain them. If somebody raised the "
        f"group above {old} nodes outside the stack, the deployment is refused."
    )
    action = f"To drain them, run `ops scale {name} {new} --env {groups.pair.environment}` before the deployment."
    return thing.change(what, Effect.NODES_REMOVED, reason, action)


def _price(group: Group, nodes: int | None) -> str:
    kind = shown(group.get("InstanceType"))
    if nodes is None:
        return "Their number is known only at the deployment."
    price = usd_per_hour_of_nodes(kind, nodes)
    cost = "the table has no price for them" if price is None else f"US$ {price:,.2f} per hour"
    return f"{nodes} more {kind}: {cost}."


def _kubernetes(groups: Groups, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Change:
    """Return the worst of what the labels and taints do; a field that no rule knows is unknown."""
    base = _thing(groups, name).by_table(f"{GROUPS}.KubernetesConfig", old or None, new or None)
    if has_intrinsic(old) or has_intrinsic(new) or (old.keys() | new.keys()) - {"Labels", "Taints"}:
        return _thing(groups, name).unknown(base.what)
    before, after = ray_pods(groups.pair.base, name), ray_pods(groups.pair.head, name)
    found = [of_taint(taint, before, after) for taint in sorted(_taints(new) - _taints(old))]
    labels, kept = old.get("Labels", {}), new.get("Labels", {})
    if removed := {key: value for key, value in labels.items() if kept.get(key) != value}:
        found.append(of_labels(removed, kept, before, after))
    if not found:
        return base
    effect, reason = min(found, key=lambda each: each[0].rank)
    action = ""
    if effect is Effect.NEEDS_ROLLOUT:
        action = f"Run `ops rollout` in {groups.pair.environment} after the deployment."
    elif effect is Effect.ENDS_JOBS:
        action = "Wait until no job runs on the group, then deploy and roll out."
    return replace(base, effect=effect, reason=f"{base.reason} {reason}", action=action)


def _taints(settings: Mapping[str, Any]) -> set[Taint]:
    return {
        (str(each.get("Key")), str(each.get("Value", "")), str(each.get("Effect")))
        for each in settings.get("Taints", [])
    }


def _scripts(groups: Groups, thing: Thing, old: Mapping[str, Any], new: Mapping[str, Any]) -> Change:
    """Return the change of a group's lifecycle scripts.

    Lines that an upload gains are told at the upload. Here count the lines that the group gains by another upload or
    another entry point.
    """
    found = thing.by_table(f"{GROUPS}.LifeCycleConfig", old or None, new or None)
    if set(differing(old, new)) - {"SourceS3Uri", "OnCreate"}:
        return thing.unknown(found.what)
    before_uploads, after_uploads = uploads(groups.pair.base), uploads(groups.pair.head)
    before, after = (
        upload_of(each, side.get("SourceS3Uri")) for each, side in ((before_uploads, old), (after_uploads, new))
    )
    if after is None:
        return replace(found, reason=f"{found.reason} {_FOREIGN}", dangers=frozenset({Danger.RUNS_CODE}))
    entry = str(new.get("OnCreate"))
    if after.texts is None or entry not in after.texts:
        return thing.unknown(f"{found.what}: the upload has no {entry}")
    told = dangerous_lines("\n".join(each.text for each in before_uploads), after.text)
    lines = [line for line in dangerous_lines(before.text if before else "", after.text) if line not in told]
    if before and not same(old.get("OnCreate"), new.get("OnCreate")):
        earlier = (before.texts or {}).get(str(old.get("OnCreate")), "")
        lines += [line for line in dangerous_lines(earlier, after.texts[entry]) if line not in lines]
    if not lines:
        return found
    reason = f"{found.reason} They gain dangerous lines: {'; '.join(f'`{shown(line)}`' for line in lines)}."
    return replace(found, reason=reason, dangers=frozenset({Danger.RUNS_CODE}))


def _thing(groups: Groups, name: str) -> Thing:
    return Thing(groups.stack, f"InstanceGroup {name}", f"instance group {name}")
