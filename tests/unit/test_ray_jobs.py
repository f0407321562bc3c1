"""The commands that the jobs print for their users. Ray is not needed here: tests/jobs runs the jobs."""

import re
from pathlib import Path

import pytest

from k8s_charts.shared.names import RAY_DIRECTORY
from rehearsal.paths import REPOSITORY

SOURCES = sorted((REPOSITORY / "ray_jobs").glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_jobs_name_only_paths_that_rays_user_can_make(source: Path) -> None:
    """The root of the file system belongs to root (docs/adr/0025)."""
    assert set(re.findall(r"/fsx/(\w+)", source.read_text())) <= {RAY_DIRECTORY}
