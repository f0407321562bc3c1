"""Run sequences: the written ones and random ones.

`python -m tests.handlers.support.exploring` runs the sequences of a usual run until an invariant breaks; with a seed,
the random sequences of that seed. A broken invariant is a defect of the handler, of the simulator or of the
invariant itself. Add its sequence to regressions.py together with the fix.
"""

import logging
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.internal.constants_ast import Constants
from hypothesis.stateful import run_state_machine_as_test

from embedded_account.hyperpod.bench import HyperPodBench
from tests.handlers.support.regressions import REGRESSIONS, Sequence
from tests.handlers.support.sequences import Sequences

USUAL: dict[str, Any] = {"examples": 150, "steps": 8, "seed": 1}
"""The settings of a usual run, which always explores the same sequences."""

USUAL_OF_SLURM: dict[str, Any] = {**USUAL, "examples": 40}
"""Fewer, because the handler hardly knows the orchestrator: only what the simulator does with a new cluster differs."""

LONG: dict[str, Any] = {"examples": 300, "steps": 8, "phases": [Phase.generate]}
"""What a long run explores of each of its seeds."""
LONG_SEEDS = (1, 2, 3, 4, 5)

Machine = type[Sequences]


@contextmanager
def machine(seen: Counter[str], *, slurm: bool = False) -> Iterator[Machine]:
    """Return the state machine over an account of its own; `seen` counts what happens."""
    with HyperPodBench(slurm=slurm) as bench:
        yield type("Sequences", (Sequences,), {"bench": bench, "seen": seen})


def run(sequences: Machine, sequence: Sequence) -> None:
    """Run one sequence with all invariants; raise AssertionError if one breaks."""
    state = sequences()
    try:
        sequence(state)
    except BaseException:
        state.close()
        raise
    state.teardown()


def explore(sequences: Machine, examples: int, steps: int, *, seed: int | None = None, **options: Any) -> None:
    """Run so many random sequences, those of a seed if given; raise the error of the first one that fails."""
    # Hypothesis also draws constants of the modules that are imported: sequences would depend on other tests.
    with patch.object(HypothesisProvider, "_local_constants", Constants()):
        run_state_machine_as_test(
            sequences if seed is None else hypothesis.seed(seed)(sequences),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                print_blob=False,
                **options,
            ),
        )


def first_broken(seed: int | None = None) -> str:
    """Return which sequence breaks an invariant first, and how; "" if all hold.

    The sequences are those of a usual run, or those of a seed.
    """
    seen: Counter[str] = Counter()
    with machine(seen) as sequences:
        for number, sequence in enumerate(REGRESSIONS, 1):
            try:
                run(sequences, sequence)
            except AssertionError as error:
                return f"{number} ({sequence.__name__}): {error!s:.200}"
        seen.clear()
        try:
            # Only whether one breaks matters, so Hypothesis does not shrink it.
            wanted = {**USUAL, "phases": [Phase.generate]} if seed is None else {**LONG, "seed": seed}
            explore(sequences, **wanted)
        except AssertionError as error:
            return f"{len(REGRESSIONS) + seen['sequences']} (random): {error!s:.200}"
    return ""


if __name__ == "__main__":
    logging.disable()
    broken = first_broken(int(sys.argv[1]) if sys.argv[1:] else None)
    print(f"broken by sequence {broken}" if broken else "all sequences hold")
    sys.exit(bool(broken))
