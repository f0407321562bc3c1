"""What a reviewed change takes away: nodes of instance groups, whole groups.

Asked of the templates: a synthesis knows no earlier state, and CloudFormation has no warnings. A deployment that
lowers a count is not refused (HyperPod can do it), but HyperPod chooses the nodes and does not drain them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_CLUSTER: Final = "Custom::HyperPodCluster"


def lowered(base: Path, head: Path, environment: str) -> Iterator[str]:
    """Markdown for each instance group that has fewer nodes in `head` than in `base`, two folders of templates."""
    after = _counts(head)
    for group, count in _counts(base).items():
        if group not in after:
            yield (
                f"**Instance group {group} goes, with its {count} nodes**, without a drain: `ops scale {group} 0 "
                f"--env {environment}` before the deployment drains them, where no RayCluster needs the group."
            )
        elif after[group] < count:
            yield (
                f"**Instance group {group} goes from {count} to {after[group]} nodes.** By this deployment alone "
                "HyperPod chooses which, and what runs on them ends without a drain: "
                f"`ops scale {group} {after[group]} --env {environment}` first."
            )


def _counts(templates: Path) -> dict[str, int]:
    """Node counts by instance group."""
    counts: dict[str, int] = {}
    for file in sorted(templates.glob("*.template.json")):
        for resource in json.loads(file.read_text()).get("Resources", {}).values():
            if resource["Type"] == _CLUSTER:
                groups = resource["Properties"]["InstanceGroups"]
                counts |= {group["InstanceGroupName"]: int(group["InstanceCount"]) for group in groups}
    return counts
