"""Sequences of deployments through the real engine, with everything that can go wrong on the way."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.handlers.sequences import explore
from tests.handlers.steps import MISHAPS

ENDS = {
    *(f"create: {status}" for status in ("CREATE_COMPLETE", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED")),
    *(f"update: {status}" for status in ("UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED")),
    *(f"delete: {status}" for status in ("DELETE_COMPLETE", "DELETE_FAILED")),
    *(f"mishap: {mishap}" for mishap in MISHAPS),
    "delivered late",
    "given up",
}


Record = Callable[[str, object], None]


def test_invariants_hold_over_sequences(record_property: Record) -> None:
    seen: Counter[str] = Counter()
    explore(seen, examples=150, steps=8, derandomize=True)
    record_property("explored", dict(seen))


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_invariants_hold_over_thousands_of_sequences(record_property: Record, part: int) -> None:
    seen: Counter[str] = Counter()
    explore(seen, examples=600, steps=12)
    record_property("explored", dict(seen))
    assert seen.keys() >= ENDS, "the exploration misses ends that it is there for"
