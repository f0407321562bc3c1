"""Fixtures of this folder."""

from pathlib import Path

import pytest

from tests.unit.ops.review.cloudformation.pairs import Pairs


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    """Return a maker of pairs of assemblies."""
    return Pairs(tmp_path)
