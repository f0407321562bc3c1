"""What an update of the properties means for a cluster that exists.

| field | change |
| --- | --- |
| `InstanceGroups[]`: a new group | in place |
| `InstanceGroups[]`: a group is missing | `InstanceGroupsToDelete`, its nodes go |
| `InstanceGroups[]`: a group is renamed | both of these in one call: new nodes, then the old ones go |
| `InstanceCount`, `MinInstanceCount`, `LifeCycleConfig`, `InstanceStorageConfigs`, `OnStartDeepHealthChecks` \
and every other field of a group | in place (scripts and volumes: nodes made from then on) |
| `InstanceType`, `ExecutionRole`, `ThreadsPerCore`, `OverrideVpcConfig`, `CapacityRequirements` of a group | refused: \
rename the group |
| `NodeRecovery`, `ClusterRole`, `AutoScaling`, `TieredStorageConfig` | in place |
| `NodeProvisioningMode` | to Continuous in place; back is refused |
| `Tags` | `AddTags`, `DeleteTags` |
| `ClusterName`, `VpcConfig`, `Orchestrator` | refused: destroy the stack and deploy it again |

Sources: AWS docs, sagemaker-hyperpod-eks-operate-cli-command-update-cluster (type and role of a group must stay);
UpdateCluster's input has no VpcConfig; EKS and HyperPod clusters are 1:1, so that a replacement, which
CloudFormation creates before it deletes, cannot work.
"""

from collections.abc import Mapping
from typing import Any

from .errors import Refused

FIXED = ("ClusterName", "VpcConfig", "Orchestrator")
FIXED_IN_A_GROUP = (
    "InstanceType",
    "ExecutionRole",
    "ThreadsPerCore",
    "OverrideVpcConfig",
    "CapacityRequirements",
)
IN_PLACE = ("NodeRecovery", "NodeProvisioningMode", "ClusterRole", "AutoScaling", "TieredStorageConfig")

# DescribeCluster's other names for fields of a request; a wanted image or label stands under Desired….
_LIVE_NAMES: Mapping[str, str] = {"InstanceCount": "TargetCount", "MinInstanceCount": "MinCount"}

Fields = Mapping[str, Any]


def update_request(desired: Fields, live: Fields, previous: Fields) -> dict[str, Any] | None:
    """Return the UpdateCluster request that makes the live cluster as desired; None when it is so already.

    `desired` is a CreateCluster request, `live` a DescribeCluster answer, `previous` the properties before, as
    CloudFormation sends them (perhaps in an older shape): a field that stands only there has been taken away.
    Raises Refused for what cannot be changed.
    """
    _refuse_fixed(desired, live)
    groups = {
        group["InstanceGroupName"]: group
        for group in live.get("InstanceGroups", [])
        # A deleted group is listed until its last node is gone.
        if group.get("Status") != "Deleting"
    }
    wanted = {group["InstanceGroupName"]: group for group in desired["InstanceGroups"]}
    before = {group.get("InstanceGroupName"): group for group in previous.get("InstanceGroups", [])}
    for name in wanted.keys() & groups.keys():
        _refuse_fixed_in_group(name, wanted[name], groups[name], before.get(name, {}))
    request = {key: desired[key] for key in IN_PLACE if key in desired and not _holds(desired[key], live.get(key))}
    request |= _removals(desired, previous)
    removed = sorted(groups.keys() - wanted.keys())
    changed = any(
        not _holds(group, groups.get(name)) or _taken_away(group, before.get(name, {}))
        for name, group in wanted.items()
    )
    if not (request or removed or changed):
        return None
    # Always every group in full: a group's ThreadsPerCore falls back to the default when a call leaves it out.
    request |= {"ClusterName": desired["ClusterName"], "InstanceGroups": desired["InstanceGroups"]}
    return request | ({"InstanceGroupsToDelete": removed} if removed else {})


def _refuse_fixed(desired: Fields, live: Fields) -> None:
    for key in FIXED:
        if not _holds(desired.get(key), live.get(key)):
            raise Refused(
                f"{key} of HyperPod cluster {live['ClusterName']} cannot be changed "
                f"from {live.get(key)} to {desired.get(key)}: "
                "destroy this stack and what depends on it, then deploy again"
            )


def _refuse_fixed_in_group(name: str, wanted: Fields, live: Fields, before: Fields) -> None:
    for key in FIXED_IN_A_GROUP:
        if (key in wanted and not _holds(wanted[key], live.get(key))) or (key in before and key not in wanted):
            raise Refused(
                f"{key} of instance group {name} cannot be changed from {live.get(key)} to {wanted.get(key)}: "
                "give the group another name, which makes new nodes and removes the old ones"
            )


def _removals(desired: Fields, previous: Fields) -> dict[str, Any]:
    """What UpdateCluster must say for cluster fields that are no longer given: it keeps what is left out."""
    removals: dict[str, Any] = {}
    for key in IN_PLACE:
        if key not in previous or key in desired:
            continue
        if key not in _OFF:
            raise Refused(f"{key} cannot be taken away from a HyperPod cluster once it is set")
        removals[key] = _OFF[key]
    return removals


_OFF: Mapping[str, Any] = {
    "NodeRecovery": "Automatic",
    "AutoScaling": {"Mode": "Disable"},
    "TieredStorageConfig": {"Mode": "Disable"},
}


def _taken_away(group: Fields, before: Fields) -> bool:
    return bool(before.keys() - group.keys())


def _holds(desired: Any, live: Any) -> bool:
    """Whether the live value has everything that is desired; the service adds defaults and states of its own."""
    if isinstance(desired, Mapping):
        return isinstance(live, Mapping) and all(_holds(value, _live(live, key)) for key, value in desired.items())
    if isinstance(desired, list):
        if not isinstance(live, list) or len(desired) != len(live):
            return not desired and not live
        if all(isinstance(item, str) for item in desired):
            return sorted(desired) == sorted(live)
        return all(map(_holds, desired, live))
    return bool(desired == live)


def _live(live: Fields, key: str) -> Any:
    for name in (_LIVE_NAMES.get(key, key), f"Desired{key}"):
        if name in live:
            return live[name]
    return None
