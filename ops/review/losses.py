"""Find what a reviewed change removes: nodes, whole instance groups, the file system with its data.

This compares templates, because a synthesis knows no earlier state and CloudFormation has no warnings. A deployment
that lowers a count is allowed (HyperPod can do it), but HyperPod chooses the nodes and does not drain them. Such a
deployment is refused if somebody raised the count outside the stack (ADR 34), which templates do not show. A deployment
that replaces the file system is refused only while another stack uses the storage stack's exports of it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_CLUSTER: Final = "Custom::HyperPodCluster"
_FILE_SYSTEM: Final = "AWS::FSx::FileSystem"
# "Update requires: Replacement" (CloudFormation's reference of AWS::FSx::FileSystem and of its LustreConfiguration).
_REPLACES: Final = (
    "SubnetIds",
    "SecurityGroupIds",
    "FileSystemTypeVersion",
    "DeploymentType",
    "PerUnitStorageThroughput",
)
# CloudFormation updates it in place, but FSx's UpdateFileSystem has no such field.
_CANNOT_CHANGE: Final = "EfaEnabled"


def losses(base: Path, head: Path, environment: str) -> Iterator[str]:
    """Yield a Markdown warning for each loss of nodes or file systems from `base` to `head`, folders of templates."""
    yield from _fewer_nodes(base, head, environment)
    yield from _other_file_systems(base, head)


def _fewer_nodes(base: Path, head: Path, environment: str) -> Iterator[str]:
    after = _counts(head)
    for group, count in _counts(base).items():
        if group not in after:
            yield (
                f"**Instance group {group} is removed with its {count} nodes**, without a drain. To drain them, run "
                f"`ops scale {group} 0 --env {environment}` before the deployment, if no RayCluster needs the group."
            )
        elif after[group] < count:
            yield (
                f"**Instance group {group} goes from {count} to {after[group]} nodes.** In a plain deployment HyperPod "
                "chooses the nodes and does not drain them. To drain them, first run "
                f"`ops scale {group} {after[group]} --env {environment}`. If somebody raised the group above {count} "
                "nodes outside the stack, the deployment is refused."
            )


def _other_file_systems(base: Path, head: Path) -> Iterator[str]:
    after = _file_systems(head)
    for name, old in _file_systems(base).items():
        if (new := after.get(name)) is None:
            continue
        if changed := [key for key in _REPLACES if old.get(key) != new.get(key)]:
            yield (
                f"**File system {name} is replaced** ({', '.join(changed)}): the new one is empty. CloudFormation "
                "refuses this while the ray stack uses the old file system. Without a ray stack, and with `protect` "
                "off, it deletes the old one with its data. Save the data, destroy the ray stack, then deploy."
            )
        elif bool(old.get(_CANNOT_CHANGE)) != bool(new.get(_CANNOT_CHANGE)):
            yield (
                f"**File system {name} changes {_CANNOT_CHANGE}**, which FSx cannot change on an existing file "
                "system. Save the data, `cdk destroy --all`, then deploy."
            )


def _counts(templates: Path) -> dict[str, int]:
    """Map each instance group to its node count."""
    counts: dict[str, int] = {}
    for _, properties in _resources(templates, _CLUSTER):
        groups = properties["InstanceGroups"]
        counts |= {group["InstanceGroupName"]: int(group["InstanceCount"]) for group in groups}
    return counts


def _file_systems(templates: Path) -> dict[str, dict[str, Any]]:
    """Map each file system's logical id to its properties, merged with those of its LustreConfiguration."""
    found = _resources(templates, _FILE_SYSTEM)
    return {name: properties | properties.get("LustreConfiguration", {}) for name, properties in found}


def _resources(templates: Path, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(templates.glob("*.template.json")):
        for name, resource in json.loads(file.read_text()).get("Resources", {}).items():
            if resource["Type"] == kind:
                yield name, resource.get("Properties", {})
