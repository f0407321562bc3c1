"""Set the counts of instance groups with UpdateCluster, for the function GroupCounts, `ops pause` and `ops resume`.

UpdateCluster takes every group in full, and resets some fields that a call omits (ThreadsPerCore). The groups are
therefore sent as DescribeCluster shows them. The module imports only the standard library, because `ops` imports it,
too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_ONLY_IF_GIVEN: Final = ("ImageId", "ImageReleaseVersion")
"""DescribeCluster shows an image for every group; only a custom one may be sent."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Wanted:
    """The new count of a group, its minimum, and the custom image of the environment's file, if any."""

    count: int
    minimum: int = 0
    image_id: str | None = None


def set_counts(sagemaker: Any, cluster: Json, wanted: Mapping[str, Wanted]) -> None:
    """Call UpdateCluster once, with all groups of `cluster` (DescribeCluster) and the new counts by group."""
    shape = sagemaker.meta.service_model.shape_for("ClusterInstanceGroupSpecification")
    groups = [
        _specification(shape, live) | _counts(live, wanted.get(live["InstanceGroupName"]))
        for live in cluster["InstanceGroups"]
        if live.get("Status") != "Deleting"
    ]
    sagemaker.update_cluster(ClusterName=cluster["ClusterName"], InstanceGroups=groups)


def _specification(shape: Any, live: Json) -> dict[str, Any]:
    """Return the fields of the request's shape from an answer, where changing ones are named Desired…."""
    found = {}
    for key, member in shape.members.items():
        value = next((live[name] for name in (key, f"Desired{key}") if name in live), None)
        if value and key not in _ONLY_IF_GIVEN:
            found[key] = _specification(member, value) if member.type_name == "structure" else value
    return found


def _counts(live: Json, wanted: Wanted | None) -> dict[str, Any]:
    if wanted is None:
        return {"InstanceCount": live["TargetCount"], "MinInstanceCount": live.get("MinCount", 0)}
    image = {"ImageId": wanted.image_id} if wanted.image_id else {}
    return {"InstanceCount": wanted.count, "MinInstanceCount": wanted.minimum, **image}
