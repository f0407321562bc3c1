"""Fixtures of these tests."""

from pathlib import Path

import pytest

from tests.unit.ops.review.kubernetes.assemblies import Environment


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """Return a writer of both sides of an environment."""
    return Environment(tmp_path)
