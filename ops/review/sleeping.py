"""Which instance groups of an assembly sleep, and between which counts, as the cluster's handler reads it."""

from collections.abc import Mapping
from typing import Final

from ops.review.assembly import Assembly, Properties, number

_CLUSTER: Final = "Custom::HyperPodCluster"
_KEY: Final = "SleepingGroups"

Ranges = Mapping[str, tuple[int, int]]
"""The fewest and the most nodes of each group that sleeps."""


def ranges(assembly: Assembly) -> Ranges | None:
    """Return the ranges of an assembly's groups; None if they are known only at the deployment."""
    clusters = [
        resource.get("Properties", {})
        for stack in assembly.stacks.values()
        for resource in stack.resources.values()
        if resource.get("Type") == _CLUSTER
    ]
    found: dict[str, tuple[int, int]] = {}
    for properties in clusters:
        own = ranges_of(properties)
        if own is None or found.keys() & own.keys():
            return None
        found |= own
    return found


def ranges_of(properties: Properties) -> Ranges | None:
    """Return the ranges of a cluster's groups; None if they are known only at the deployment."""
    minima, groups = properties.get(_KEY) or {}, properties.get("InstanceGroups")
    if not isinstance(minima, Mapping):
        return None
    if not minima:
        return {}
    if not isinstance(groups, list) or not all(isinstance(group, Mapping) for group in groups):
        return None
    counts = {str(group.get("InstanceGroupName")): number(group.get("InstanceCount")) for group in groups}
    found = {}
    for name, value in minima.items():
        least, most = number(value), counts.get(name, 0)
        if least is None or most is None:
            return None
        # A name that is no group's does nothing.
        if name in counts:
            found[name] = (least, most)
    return found
