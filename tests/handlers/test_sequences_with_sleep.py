"""Sequences of test_sequences.py in which groups sleep, and the function sets their counts meanwhile."""

from collections import Counter
from collections.abc import Callable

from embedded_account.hyperpod.bench import HyperPodBench
from tests.handlers.support import exploring
from tests.handlers.support.sleeping import SleepingSequences


def test_invariants_hold_while_the_function_sets_counts(record_property: Callable[[str, object], None]) -> None:
    seen = Counter[str]()
    with HyperPodBench() as bench:
        machine = type("Sequences", (SleepingSequences,), {"bench": bench, "seen": seen})
        exploring.explore(machine, **exploring.USUAL | {"examples": 40, "seed": 1})
    record_property("explored", dict(seen))
    assert seen["function: accepted"] > 5, "the function hardly acts in these sequences"
