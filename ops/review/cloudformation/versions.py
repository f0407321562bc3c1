"""Find Kubernetes versions that skip a minor version, or go down."""

import re
from collections.abc import Iterator

from ops.review.cloudformation.sides import Risk, Sides
from ops.review.cloudformation.values import same, short
from ops.review.model import Danger


def version_skips(sides: Sides) -> Iterator[Risk]:
    """Yield EKS clusters and node groups whose version does not go up by one minor version."""
    for key, after in sides.head.of_type("AWS::EKS::Cluster", "AWS::EKS::Nodegroup"):
        if not sides.existed(key):
            continue
        before = sides.before(key).get("Version")
        if before is None or same(before, after.get("Version")):
            continue
        old, new = _version(before), _version(after.get("Version"))
        if old is None or new is None or old[0] != new[0] or new[1] - old[1] not in (0, 1):
            what = f"Kubernetes {short(before)} → {short(after.get('Version'))}"
            reason = "EKS upgrades a cluster by one minor version at a time, and never goes back."
            yield Risk(key, Danger.VERSION_SKIP, what, reason)


def _version(value: object) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d+)\.(\d+)", str(value))
    return (int(match[1]), int(match[2])) if match else None
