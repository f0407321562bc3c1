"""`python -m bench.walks` counts what passes from one file of the project to another."""

import pytest

from bench.walks import WALKS, count


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WALKS)
def test_each_walk_still_runs_and_passes_through_files(name: str) -> None:
    moves = count(WALKS[name])
    assert moves.between
    assert {file for pair in moves.between for file in pair} <= moves.files
