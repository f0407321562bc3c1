"""`python -m bench.walks` counts what passes from one file of the project to another."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from bench.walks import WALKS, Moves, count

SERVES = "CreateStack"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WALKS)
def test_each_walk_still_runs_and_passes_through_files(name: str) -> None:
    moves = _moves_in_another_process() if name == SERVES else count(WALKS[name])
    assert moves.between
    assert {file for pair in moves.between for file in pair} <= moves.files


def _moves_in_another_process() -> Moves:
    # A process serves one account, and this one may serve that of other tests.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_moves).result()


def _moves() -> Moves:
    return count(WALKS[SERVES])
