"""Sequences of deployments through the real engine, with everything that can go wrong on the way."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.handlers.support import exploring
from tests.handlers.support.exploring import Machine
from tests.handlers.support.regressions import REGRESSIONS, Sequence
from tests.handlers.support.steps import MISHAPS

ENDS = {
    *(f"create: {status}" for status in ("CREATE_COMPLETE", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED")),
    *(f"update: {status}" for status in ("UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED")),
    *(f"delete: {status}" for status in ("DELETE_COMPLETE", "DELETE_FAILED")),
    *(f"mishap: {mishap}" for mishap in MISHAPS),
    "delivered late",
    "given up",
}


@pytest.fixture(scope="module")
def seen() -> Counter[str]:
    return Counter()


@pytest.fixture(scope="module")
def machine(seen: Counter[str]) -> Iterator[Machine]:
    with exploring.machine(seen) as machine:
        yield machine


Record = Callable[[str, object], None]


@pytest.mark.parametrize("sequence", REGRESSIONS, ids=lambda sequence: sequence.__name__)
def test_invariants_hold_over_a_sequence_that_once_broke_one(machine: Machine, sequence: Sequence) -> None:
    exploring.run(machine, sequence)


def test_invariants_hold_over_sequences(machine: Machine, seen: Counter[str], record_property: Record) -> None:
    seen.clear()
    exploring.explore(machine, **exploring.USUAL)
    record_property("explored", dict(seen))


@pytest.mark.long
def test_invariants_hold_over_thousands_of_sequences(record_property: Record) -> None:
    """An account keeps the network interfaces of clusters that sequences leave, so each seed has its own account."""
    seen = Counter[str]()
    for seed in exploring.LONG_SEEDS:
        with exploring.machine(seen) as machine:
            exploring.explore(machine, **exploring.LONG, seed=seed)
    record_property("explored", dict(seen))
    assert seen.keys() >= ENDS, "the exploration misses ends that it is there for"
