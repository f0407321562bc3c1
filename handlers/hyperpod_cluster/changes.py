"""Decide what an update of the properties changes in an existing cluster.

What an update of each property does is in `consequences.py`.
"""

from collections.abc import Collection, Mapping
from typing import Any

from .consequences import ANOTHER_NAME, DESTROY, FIXED, FIXED_IN_A_GROUP, IN_PLACE, LIVE_NAMES, keys_of_volumes
from .errors import RefusedRequestError

# UpdateCluster keeps a field that is left out: these values reset a field that is no longer given.
_OFF: Mapping[str, Any] = {
    "NodeRecovery": "Automatic",
    "AutoScaling": {"Mode": "Disable"},
    "TieredStorageConfig": {"Mode": "Disable"},
}
# Values by which a group explicitly resets a field: what UpdateCluster does with an omitted field is not documented.
_NONE: Mapping[str, Any] = {
    "ImageId": "default",
    "InstanceStorageConfigs": [],
    "KubernetesConfig": {"Labels": {}, "Taints": []},
    "MinInstanceCount": 0,
}

Fields = Mapping[str, Any]


def update_request(
    desired: Fields, live: Fields, previous: Fields, removable: Collection[str] = ()
) -> dict[str, Any] | None:
    """Return the UpdateCluster request that makes the live cluster as desired; None if nothing has to change.

    Args:
        desired: A CreateCluster request.
        live: A DescribeCluster answer.
        previous: The properties before the update, as CloudFormation sends them, perhaps in an older shape. A field in
            `previous` that is no longer desired is removed if it still has its previous value. Another live value is
            the service's default or somebody else's change, and stays.
        removable: The groups that may be removed if they are live and not desired.

    Raises:
        RefusedRequestError: A field that cannot be changed differs.
    """
    _refuse_fixed(desired, live)
    groups = _staying(live)
    wanted = _named(desired.get("InstanceGroups"))
    before = _named(previous.get("InstanceGroups"))
    for name in wanted.keys() & groups.keys():
        _refuse_fixed_in_group(name, wanted[name], groups[name], before.get(name, {}))
    request = {
        key: desired[key]
        for key in IN_PLACE
        if key in desired
        and (not _holds(desired[key], live.get(key)) or _is_left(previous.get(key), desired[key], live.get(key)))
    }
    request |= _switched_off(desired, live, previous)
    removed = sorted((groups.keys() - wanted.keys()) & set(removable))
    changed = any(
        name not in groups or not _holds(group, groups[name]) or _is_left(before.get(name), group, groups[name])
        for name, group in wanted.items()
    )
    if not (request or removed or changed):
        return None
    # Send every group in full: ThreadsPerCore of a group falls back to its default if a call omits it.
    full = [_with_none(before.get(name, {}), group, _NONE) for name, group in wanted.items()]
    request |= {"ClusterName": desired["ClusterName"], "InstanceGroups": full}
    return request | ({"InstanceGroupsToDelete": removed} if removed else {})


def surplus_groups(desired: Fields, live: Fields) -> set[str]:
    """Return the names of the live groups that are not desired."""
    return _staying(live).keys() - group_names(desired)


def raised_counts(desired: Fields, live: Fields, previous: Fields) -> dict[str, int]:
    """Return the live counts, by group, that are above both the desired and the previously deployed count.

    Somebody raised these counts outside the stack, or made these groups: no change of the template asks for fewer
    nodes. Nothing is known without previous counts.
    """
    wanted, found, deployed = counts(desired), counts(live), counts(previous)
    known = wanted.keys() & found.keys() if deployed else set()
    return {name: found[name] for name in known if found[name] > max(wanted[name], deployed.get(name, 0))}


def counts(fields: Fields) -> dict[str, int]:
    """Return the counts of the groups, by name: of a request, of a template of any version, or of a live cluster."""
    groups = _staying(fields).items()
    found = {name: str(group.get("TargetCount", group.get("InstanceCount"))) for name, group in groups}
    return {name: int(count) for name, count in found.items() if count.isdecimal()}


def autoscaled(desired: Fields, live: Fields, previous: Fields) -> bool:
    """Return whether HyperPod's autoscaling decides about the groups' counts, now and after the update."""
    becomes = desired.get("AutoScaling", {} if "AutoScaling" in previous else live.get("AutoScaling"))
    return all((each or {}).get("Mode") == "Enable" for each in (live.get("AutoScaling"), becomes))


def with_counts(desired: Fields, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the desired fields with these counts, by group, in place of the desired counts."""
    groups = [
        group | {"InstanceCount": counts[group["InstanceGroupName"]]} if group["InstanceGroupName"] in counts else group
        for group in desired.get("InstanceGroups", [])
    ]
    return dict(desired) | ({"InstanceGroups": groups} if "InstanceGroups" in desired else {})


def live_groups(live: Fields) -> set[str]:
    """Return the names of the live groups, without those that are being deleted."""
    return set(_staying(live))


def group_names(properties: Fields) -> set[str]:
    """Return the names of the groups in properties as CloudFormation sends them, perhaps in an older shape."""
    return set(_named(properties.get("InstanceGroups")))


def _staying(live: Fields) -> dict[str, Fields]:
    # A deleted group is listed until its last node is gone.
    return {
        name: group for name, group in _named(live.get("InstanceGroups")).items() if group.get("Status") != "Deleting"
    }


def _named(groups: Any) -> dict[str, Fields]:
    """Return the groups by name; an empty mapping if `groups` is not a list."""
    if not isinstance(groups, list):
        return {}
    return {
        group["InstanceGroupName"]: group
        for group in groups
        if isinstance(group, Mapping) and isinstance(group.get("InstanceGroupName"), str)
    }


def _refuse_fixed(desired: Fields, live: Fields) -> None:
    for key in FIXED:
        if not _holds(desired.get(key), live.get(key)):
            raise RefusedRequestError(
                f"{key} of HyperPod cluster {live['ClusterName']} cannot be changed: {DESTROY}\n"
                f"It is {live.get(key)} and would be {desired.get(key)}."
            )


def _refuse_fixed_in_group(name: str, wanted: Fields, live: Fields, before: Fields) -> None:
    for key in FIXED_IN_A_GROUP:
        changed = key in wanted and not _holds(wanted[key], live.get(key))
        if changed or (key in before and key not in wanted and live.get(key)):
            raise RefusedRequestError(
                f"{key} of instance group {name} cannot be changed: {ANOTHER_NAME}\n"
                f"It is {live.get(key)} and would be {wanted.get(key)}."
            )
    was, becomes = ((group.get("SlurmConfig") or {}).get("NodeType") for group in (live, wanted))
    if was != becomes:
        raise RefusedRequestError(
            f"NodeType of instance group {name} cannot be changed: {ANOTHER_NAME}\nIt is {was} and would be {becomes}."
        )
    old, new = keys_of_volumes(live), keys_of_volumes(wanted)
    if old != new:
        raise RefusedRequestError(
            f"VolumeKmsKeyId of instance group {name} cannot be changed: {ANOTHER_NAME}\n"
            f"It is {old or None} and would be {new or None}."
        )


def _switched_off(desired: Fields, live: Fields, previous: Fields) -> dict[str, Any]:
    """Return the values that reset the cluster's fields which are no longer given."""
    off: dict[str, Any] = {}
    for key in IN_PLACE:
        if key not in previous or key in desired or not live.get(key):
            continue
        if key not in _OFF:
            raise RefusedRequestError(f"{key} cannot be taken away from a HyperPod cluster once it is set")
        if not _holds(_OFF[key], live[key]):
            off[key] = _OFF[key]
    return off


def _is_left(before: Any, desired: Any, live: Any) -> bool:
    """Return whether any field, at any depth, is no longer desired but still live with its previous value."""
    if not (isinstance(before, Mapping) and isinstance(desired, Mapping) and isinstance(live, Mapping)):
        return False
    return any(_is_left_in(key, value, desired, _live(live, key)) for key, value in before.items())


def _is_left_in(key: str, before: Any, desired: Fields, live: Any) -> bool:
    if key in desired:
        return _is_left(before, desired[key], live)
    if isinstance(before, Mapping) and isinstance(live, Mapping):
        return _is_left(before, {}, live)
    return bool(live) and _holds(_as_text(before), _as_text(live))


def _with_none(before: Fields, desired: Fields, none: Fields) -> dict[str, Any]:
    """Return the desired fields, and the value of `none` for each previous field that is no longer desired."""
    requested = dict(desired)
    for key in none.keys() & before.keys():
        if isinstance(none[key], Mapping) and isinstance(before[key], Mapping):
            requested[key] = _with_none(before[key], desired.get(key, {}), none[key])
        elif key not in desired:
            requested[key] = none[key]
    return requested


def _as_text(value: Any) -> Any:
    """Return the value with every scalar as the string that CloudFormation sends."""
    if isinstance(value, Mapping):
        return {key: _as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _holds(desired: Any, live: Any) -> bool:
    """Return whether the live value contains the desired one; the service adds defaults and states."""
    if isinstance(desired, Mapping):
        return isinstance(live, Mapping) and all(_holds(value, _live(live, key)) for key, value in desired.items())
    if isinstance(desired, list):
        if not isinstance(live, list) or len(desired) != len(live):
            return not desired and not live
        if all(isinstance(item, str) for item in desired):
            return sorted(desired) == sorted(live)
        return _matched(desired, live)
    return bool(desired == live)


def _matched(desired: list[Any], live: list[Any]) -> bool:
    """Return whether each desired item matches a different live item, in any order: the service promises none."""
    left = list(live)
    for item in desired:
        found = next((each for each in left if _holds(item, each)), None)
        if found is None:
            return False
        left.remove(found)
    return True


def _live(live: Fields, key: str) -> Any:
    for name in (LIVE_NAMES.get(key, key), f"Desired{key}"):
        if name in live:
            return live[name]
    return None
