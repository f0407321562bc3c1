"""Decide whether the cause that a failure names is real."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.handlers.support.cloudformation import strings
from tests.handlers.support.framework import Event, Properties

if TYPE_CHECKING:
    from tests.handlers.support.judging import Judge


def justified(judge: "Judge", event: Event, reason: str) -> bool:
    """Return whether a failure names a cause that is real."""
    return any(
        found and holds(judge, event, found)
        for pattern, holds in _CAUSES
        for found in [re.match(pattern, reason, re.DOTALL)]
    )


def others(judge: "Judge", event: Event) -> bool:
    """Return whether the request's cluster name belongs, or belonged a moment ago, to somebody else's cluster."""
    name = _cluster(event)
    if name in judge.deeds.went and name not in judge.clusters:
        return True
    return name in judge.clusters and name not in judge.owned_by(event["StackId"], event["LogicalResourceId"])


def _cluster(event: Event) -> str:
    """Return the name of the request's cluster; a Create has no physical id yet."""
    return str(event.get("PhysicalResourceId", event["ResourceProperties"].get("ClusterName")))


def _all_or_nothing(event: Event) -> bool:
    """Return whether the service reverts an update for lack of a node: it does without continuous provisioning."""
    return "NodeProvisioningMode" not in event["ResourceProperties"]


def _before(judge: "Judge", event: Event) -> Properties:
    """Return the properties before the request: for a Create, those of the cluster that an earlier one left behind."""
    left = judge.clusters.get(_cluster(event))
    if event["RequestType"] != "Create" or left is None:
        return dict(event.get("OldResourceProperties", {}))
    groups = [group.specification for group in left.groups.values()]
    return dict(strings(left.request | {"InstanceGroups": groups}))


def _differs(properties: Properties, old: Properties, key: str) -> bool:
    groups: list[dict[str, Any]] = [*properties.get("InstanceGroups", []), *old.get("InstanceGroups", [])]
    return properties.get(key) != old.get(key) or len({str(group.get(key)) for group in groups}) > 1


def _karpenter_decides(judge: "Judge", event: Event) -> bool:
    """Return whether Karpenter decides about counts now."""
    cluster = judge.clusters.get(_cluster(event))
    return cluster is not None and cluster.request.get("AutoScaling", {}).get("Mode") == "Enable"


def _surplus(judge: "Judge", event: Event, names: str) -> bool:
    # A confirmation counts once, unless it came before the removal.
    old = event.get("OldResourceProperties", {})
    before = {group["InstanceGroupName"] for group in old.get("InstanceGroups", [])}
    spent = {*old.get("ConfirmGroupRemoval", [])} - before
    confirmed = {*event["ResourceProperties"].get("ConfirmGroupRemoval", [])} - spent
    cluster = judge.clusters.get(_cluster(event))
    if cluster is None:
        return judge.deeds.removed_by_hand
    # A rollback removes only the groups that the failed update added, and must not fail because of others.
    return not judge.rolls_back() and all(
        name in cluster.groups and name not in confirmed for name in names.split(", ")
    )


_HOLDS = Callable[["Judge", Event, "re.Match[str]"], bool]
_CLUSTER = r"HyperPod cluster \S+ "
_CAUSES: list[tuple[str, _HOLDS]] = [
    (r"(\w+) failed \((\w+)\): (.+)", lambda judge, event, found: judge.api_error(event, *found.groups())),
    (r"(\w+) got no answer: ", lambda judge, _, found: judge.deeds.explains(found[1], "time-out")),
    (r"(\w+) was not tried: no time is left", lambda judge, _, __: bool(judge.deeds.errors)),
    (r"Task timed out after ", lambda judge, _, __: judge.deeds.killed),
    # The record went with a cluster that somebody deleted, and another delivery of its Create made the cluster again.
    (
        r"Update of HyperPod cluster \S+ was superseded: it was cancelled before",
        lambda judge, _, __: judge.deeds.removed_by_hand,
    ),
    # Lagging reads: ListTags showed an older request as the newest.
    (
        r"Update of HyperPod cluster \S+ was superseded: request \S+ came after",
        lambda judge, _, __: judge.deeds.lagging,
    ),
    (_CLUSTER + "exists already and (was not made|belongs)", lambda judge, event, _: others(judge, event)),
    (_CLUSTER + "is not this stack's any more", lambda judge, event, _: others(judge, event)),
    (_CLUSTER + "carries no tag that names its stack", lambda judge, event, _: others(judge, event)),
    (_CLUSTER + "(is gone|does not exist any more)", lambda judge, _, __: judge.deeds.removed_by_hand),
    # Somebody deletes the cluster, or an earlier request of the stack whose deletion has not ended.
    (
        _CLUSTER + "is being deleted by somebody else",
        lambda judge, _, __: judge.deeds.removed_by_hand or judge.deleting(),
    ),
    (_CLUSTER + "is (Failed|Deleting) and takes no update", lambda judge, _, __: judge.deeds.removed_by_hand),
    (
        r"HyperPod cluster (\S+) is Failed: ([^\n]+?)(?: …)?(?:\n|$)",
        lambda judge, _, found: judge.told(*found.groups()),
    ),
    (_CLUSTER + "is RollingBack: ", lambda judge, _, __: judge.deeds.drift or judge.deeds.taken_back),
    (
        _CLUSTER + r"takes no update while \d+ of its nodes are in deep",
        lambda judge, _, __: judge.checked() and not judge.rolls_back(),
    ),
    (
        _CLUSTER + "accepted the update but did not keep it: ",
        lambda judge, event, __: (
            judge.updates(event) > 0 and (judge.deeds.drift or judge.deeds.taken_back or _all_or_nothing(event))
        ),
    ),
    (
        r"(\w+) of (?:HyperPod cluster|instance group) \S+ cannot be changed: ",
        lambda judge, event, found: (
            not judge.rolls_back()
            and (
                found[1] in judge.deeds.unknown_fields
                or _differs(event["ResourceProperties"], _before(judge, event), found[1])
            )
        ),
    ),
    (
        r"(\w+) cannot be taken away from a HyperPod cluster",
        lambda _, event, found: found[1] not in event["ResourceProperties"],
    ),
    (r"CreateCluster: unknown field '(\w+)'", lambda _, event, found: found[1] in event["ResourceProperties"]),
    (
        "Instance group (.+?) of HyperPod cluster .* would be removed with its nodes",
        lambda judge, event, found: _surplus(judge, event, found[1]),
    ),
    (
        r"Instance group \S+ of HyperPod cluster \S+ has (\d+) instances, raised outside this stack",
        lambda judge, event, found: (
            judge.deeds.explains_count(found[1]) and not judge.rolls_back() and not _karpenter_decides(judge, event)
        ),
    ),
    (
        r"\w+ of \S+ has not ended after \d+ minutes, and CloudFormation's one-hour limit is near: "
        r"(it is \w+|it takes no update|\d+ of its nodes|HyperPod cluster \S+ \([^)]+\)|"
        r"(\w+) (failed|got|was))",
        lambda judge, event, found: (
            bool(judge.deeds.errors)
            if found[2]
            # A creation whose nodes take hours must not fail: its rollback would delete the cluster.
            else (event["RequestType"], found[1]) != ("Create", "it is Creating") and judge.in_its_words(found.string)
        ),
    ),
]
