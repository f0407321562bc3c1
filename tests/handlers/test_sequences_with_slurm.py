"""The sequences of test_sequences.py over clusters that Slurm orchestrates."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.handlers.support import exploring
from tests.handlers.support.exploring import Machine
from tests.handlers.support.regressions import REGRESSIONS, Sequence


@pytest.fixture(scope="module")
def seen() -> Counter[str]:
    return Counter()


@pytest.fixture(scope="module")
def machine(seen: Counter[str]) -> Iterator[Machine]:
    with exploring.machine(seen, slurm=True) as machine:
        yield machine


@pytest.mark.parametrize("sequence", REGRESSIONS, ids=lambda sequence: sequence.__name__)
def test_invariants_hold_over_a_sequence_that_once_broke_one(machine: Machine, sequence: Sequence) -> None:
    exploring.run(machine, sequence)


def test_invariants_hold_over_sequences(
    machine: Machine, seen: Counter[str], record_property: Callable[[str, object], None]
) -> None:
    seen.clear()
    exploring.explore(machine, **exploring.USUAL_OF_SLURM)
    record_property("explored", dict(seen))
