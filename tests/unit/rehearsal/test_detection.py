"""How long EKS takes to notice a silent node: one constant, which code and all texts follow."""

import re
from pathlib import Path

from rehearsal.drills.cluster.report import EKS_DETECTION_SECONDS
from rehearsal.drills.thousand_workers import DETECTION_SECONDS

PROJECT = Path(__file__).parents[3]
# A range of seconds in a sentence about what EKS notices.
_RANGE = re.compile(r"\bEKS\b[^.|]{0,60}?\b([1-9]\d)\s+to\s+([1-9]\d)\b")


def test_a_silent_node_is_lost_after_the_grace_period_of_kubernetes_1_32_and_later() -> None:
    """kubernetes/kubernetes#126287: 50 s, which the last heartbeat precedes by up to the 10 s between two of them."""
    assert EKS_DETECTION_SECONDS == (50, 60)
    assert DETECTION_SECONDS == 50


def test_every_text_says_the_same_range() -> None:
    folders = ("docs", "rehearsal", "controllers", "ops", "config", "packages")
    files = [file for folder in folders for kind in ("md", "py") for file in (PROJECT / folder).rglob(f"*.{kind}")]
    said = {str(file.relative_to(PROJECT)): _RANGE.findall(file.read_text()) for file in files}
    found = {name: {tuple(map(int, each)) for each in ranges} for name, ranges in said.items() if ranges}
    assert {"docs/explain/recovery.md", "docs/unverified-on-aws.md"} <= set(found)
    assert found == {name: {EKS_DETECTION_SECONDS} for name in found}
