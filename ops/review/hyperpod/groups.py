"""Review the instance groups: added, removed, renamed, and each changed field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from handlers.hyperpod_cluster.consequences import (
    FIXED_IN_A_GROUP,
    GROUPS,
    KEY_OF_A_VOLUME,
    NODE_OF_SLURM,
    ChangeKind,
    consequence,
    keys_of_volumes,
)
from ops.review.assembly import Pair, Properties, number
from ops.review.cost import usd_per_hour_of_nodes
from ops.review.hyperpod import slurm
from ops.review.hyperpod.placement import Taint, of_labels, of_taint, ray_pods
from ops.review.hyperpod.rows import ClusterPart
from ops.review.hyperpod.uploads import upload_of, uploads
from ops.review.hyperpod.values import differing, has_intrinsic, same, sentence, shown
from ops.review.hyperpod.volumes import readable, without_keys
from ops.review.model import Change, Danger, Effect
from ops.review.scripts import dangerous_lines
from ops.review.steps import author, operator_after, operator_before, steps

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
    slurm: bool
    """Whether Slurm runs the jobs, instead of Ray."""
    sleeping: frozenset[str]
    """The groups that sleep until the deployment: `ops scale` refuses them."""


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
    confirmed = name in groups.confirmed
    environment = groups.pair.environment
    file = f"environments/{environment}.yaml"
    confirm = author(
        f"list {name} under `{CONFIRMATION}` in {file}; then the deployment does not fail, and no approval is needed"
    )
    capacity = author("without capacity for both groups, remove the old one first, in a deployment of its own")
    scale = f"run `ops scale {name} 0 --env {environment}`, which drains its nodes"
    rest = _rest(environment) if name in groups.sleeping else scale
    drain = operator_before(slurm.drain(old, environment) if groups.slurm else rest)
    verb = "deletes" if new is None else f"creates group {new} and deletes"
    return thing.change(
        f"renamed to {new}, {size(old)}" if new else f"removed, {size(old)}",
        Effect.NODES_REPLACED if new else Effect.NODES_REMOVED,
        f"HyperPod {verb} the {_nodes(old)} with everything that runs there, and does not drain. "
        f"{slurm.jobs_of(old) if groups.slurm else _users(groups, name)}",
        steps("" if confirmed else confirm, capacity if new else "", drain),
        dangers=frozenset({Danger.GROUP_REMOVED}),
        confirmed_by=CONFIRMATION if confirmed else "",
        fails_unless="" if confirmed else f"`{CONFIRMATION}` lists {name}",
    )


def _nodes(group: Group) -> str:
    count = number(group.get("InstanceCount"))
    return "nodes" if count is None else f"{count} node{'' if count == 1 else 's'}"


def _users(groups: Groups, name: str) -> str:
    """Return which pods of Ray select the group, in both checkouts."""
    users = [
        ", ".join(dict.fromkeys(pods.cluster for pods in ray_pods(side, name)))
        for side in (groups.pair.base, groups.pair.head)
    ]
    if users[1]:
        return f"RayCluster {users[1]} still selects the group: its pods find no node."
    if users[0]:
        return f"RayCluster {users[0]} runs on the group until the ray stack is deployed, which comes later."
    return "No RayCluster selects the group."


def _added(groups: Groups, name: str) -> Change:
    group, row = groups.after[name], consequence(GROUPS, ChangeKind.ADDED)
    reason = f"{sentence(row.reason) if row else ''} {price(group, number(group.get('InstanceCount')))}"
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
        elif key == "InstanceStorageConfigs":
            yield from _volumes(groups, thing, before, after)
        elif key == "OnStartDeepHealthChecks":
            yield _deep_checks(groups, thing, old, new)
        elif key == "SlurmConfig":
            yield from _slurm(groups, thing, old, new)
        else:
            yield _by_table(groups, thing, key, old, new)


def _volumes(groups: Groups, thing: ClusterPart, before: Group, after: Group) -> Iterator[Change]:
    """Yield the change of the volumes' key, and that of the volumes but for it."""
    name = "InstanceStorageConfigs"
    if not readable(before.get(name)) or not readable(after.get(name)):
        yield thing.unknown(f"{name} {shown(before.get(name))} → {shown(after.get(name))}")
        return
    old, new = keys_of_volumes(before) or None, keys_of_volumes(after) or None
    if not same(old, new):
        yield _by_table(groups, thing, KEY_OF_A_VOLUME, old, new)
    volumes = [without_keys(side.get(name)) for side in (before, after)]
    if not same(*volumes):
        yield _by_table(groups, thing, name, *volumes)


def _deep_checks(groups: Groups, thing: ClusterPart, old: Any, new: Any) -> Change:
    found = _by_table(groups, thing, "OnStartDeepHealthChecks", old, new)
    if isinstance(new or [], list) and {*map(str, old or [])} <= {*map(str, new or [])}:
        return found
    reason = f"{found.reason} New nodes are no longer tested in depth before pods run on them."
    return replace(found, reason=reason.strip(), dangers=frozenset({Danger.LOWER_PROTECTION}))


def _slurm(groups: Groups, thing: ClusterPart, old: Any, new: Any) -> Iterator[Change]:
    """Yield what differs in what the nodes are in Slurm: the node type never changes, the partition may."""
    before, after = old or {}, new or {}
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield thing.unknown(f"SlurmConfig {shown(old)} → {shown(new)}")
        return
    for field in differing(before, after):
        yield _by_table(groups, thing, f"SlurmConfig.{field}", before.get(field), after.get(field))


def _by_table(groups: Groups, thing: ClusterPart, key: str, old: Any, new: Any) -> Change:
    found = thing.by_table(f"{GROUPS}.{key}", old, new)
    if key not in (*FIXED_IN_A_GROUP, KEY_OF_A_VOLUME, NODE_OF_SLURM):
        return found
    name = thing.title.rpartition(" ")[2]
    action = author(
        f"give the group another name; that adds a group and removes {name} with its nodes, so that it ends their "
        f"jobs, needs {name} under `{CONFIRMATION}`, and needs capacity for both groups at once"
    )
    field = key.rpartition(".")[2]
    reason = f"SageMaker cannot change {field} in an existing group. The deployment leaves the group as it is."
    return replace(found, reason=f"{reason} {_users_now(groups, name)}".strip(), action=action)


def _users_now(groups: Groups, name: str) -> str:
    users = ", ".join(dict.fromkeys(pods.cluster for pods in ray_pods(groups.pair.base, name)))
    return f"RayCluster {users} runs on it." if users else ""


def _count(groups: Groups, thing: ClusterPart, before: Group, after: Group) -> Change:
    old, new = number(before.get("InstanceCount")), number(after.get("InstanceCount"))
    what = f"count {shown(before.get('InstanceCount'))} → {shown(after.get('InstanceCount'))}"
    if old is None or new is None:
        reason = "The count is known only at the deployment: HyperPod may delete nodes."
        return thing.change(what, Effect.NODES_REMOVED, reason, dangers=frozenset({Danger.UNKNOWN}))
    if new > old:
        row = consequence(f"{GROUPS}.InstanceCount", ChangeKind.RAISED)
        reason = f"{sentence(row.reason) if row else ''} {price(after, new - old)} Nodes that run are not touched."
        return thing.change(what, Effect.IN_PLACE, reason)
    name = str(after["InstanceGroupName"])
    gone = "1 node" if old - new == 1 else f"{old - new} nodes"
    unless = "" if groups.slurm or name in groups.sleeping else "Without `ops scale` before the deployment, "
    reason = (
        f"{gone} removed. {unless}HyperPod chooses which, and ends what runs there "
        f"without a drain. If somebody raised the group above {old} nodes by hand, the deployment fails."
    )
    environment = groups.pair.environment
    scaling = f"run `ops scale {name} {new} --env {environment}`, which drains {gone} and lowers Ray's replicas"
    rest = _rest(environment) if name in groups.sleeping else scaling
    scale = operator_before(slurm.shrink(name, gone) if groups.slurm else rest)
    check = operator_before(f"check with `ops status --env {environment}` that the group has at most {old} nodes")
    return thing.change(what, Effect.NODES_REMOVED, reason, steps(check, scale), lost=old - new)


def _rest(environment: str) -> str:
    return f"wait until the group is asleep, or check with `ops status --env {environment}` that nothing runs on it"


def price(group: Group, nodes: int | None) -> str:
    """Return what so many more nodes of the group cost, as a sentence; `nodes` is None if nobody knows how many."""
    kind = shown(group.get("InstanceType"))
    if nodes is None:
        return "Their number is known only at the deployment."
    usd = usd_per_hour_of_nodes(kind, nodes)
    cost = "the table has no price for them" if usd is None else f"US$ {usd:,.2f} per hour"
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
        action = operator_after(f"run `ops rollout CLUSTER --env {groups.pair.environment}`, which ends its jobs")
    elif effect is Effect.ENDS_JOBS:
        action = steps(operator_before("wait until no job runs on the group"), operator_after("run `ops rollout`"))
    return replace(base, effect=effect, reason=f"{base.reason} {reason}", action=action)


def _taints(settings: Mapping[str, Any]) -> set[Taint]:
    return {
        (str(each.get("Key")), str(each.get("Value", "")), str(each.get("Effect")))
        for each in settings.get("Taints", [])
    }


def _scripts(groups: Groups, thing: ClusterPart, old: Mapping[str, Any], new: Mapping[str, Any]) -> Change:
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
    dangerous = dangerous_lines("\n".join(each.text for each in before_uploads), after.text)
    lines = [line for line in dangerous_lines(before.text if before else "", after.text) if line not in dangerous]
    if before and not same(old.get("OnCreate"), new.get("OnCreate")):
        earlier = (before.texts or {}).get(str(old.get("OnCreate")), "")
        lines += [line for line in dangerous_lines(earlier, after.texts[entry]) if line not in lines]
    if not lines:
        return found
    reason = f"{found.reason} They gain dangerous lines: {'; '.join(f'`{shown(line)}`' for line in lines)}."
    return replace(found, reason=reason, dangers=frozenset({Danger.RUNS_CODE}))


def _thing(groups: Groups, name: str) -> ClusterPart:
    return ClusterPart(groups.stack, f"InstanceGroup {name}", f"instance group {name}")
