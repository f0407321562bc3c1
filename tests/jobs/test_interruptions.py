"""An interrupted run ends with exactly the same weights as an undisturbed run.

There is no tolerance: the number of workers and the order of the data are equal, the state of the random number
generators is restored (the network uses dropout), and the training runs on CPUs. After an interruption, at most the
steps since the last checkpoint and the current step are repeated. With asynchronous saving the last checkpoint may be
one interval older, because the newest was still being written.
"""

import os
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Final

import pytest
import torch

from tests.jobs.support.ray_nodes import Nodes
from tests.jobs.support.runs import Attempt, Runs, Undisturbed
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

EVERY: Final = 5
STRETCH: Final = 15
"""The number of steps within which one interruption happens."""
STEP_SECONDS: Final = "--step-seconds=0.1"
PATIENCE: Final = "--patience=5"


class Interrupted:
    """A run, its newest attempt, and the number of steps done at each interruption."""

    def __init__(self, nodes: Nodes, runs: Runs, draw: random.Random, *arguments: str) -> None:
        self.nodes = nodes
        self.runs = runs
        self.draw = draw
        self.reached: list[int] = []
        self._arguments = arguments
        self.attempts: list[Attempt] = []
        self.next_attempt()

    @property
    def attempt(self) -> Attempt:
        return self.attempts[-1]

    def next_attempt(self) -> Attempt:
        """Start another attempt."""
        number = len(self.attempts) + 1
        self.attempts.append(self.runs.start(*self._arguments, STEP_SECONDS, attempt=number))
        return self.attempt

    def wait_for_step_of(self, stretch: range) -> None:
        """Wait for any step of this stretch except its last."""
        self.runs.wait_for_step(self.draw.choice(stretch[:-1]))

    def note(self) -> None:
        """Record how many steps the run has done."""
        self.reached.append(max(entry.step for entry in self.runs.trained()) + 1)

    def resumed(self) -> list[int]:
        """Return the first steps of all attempts' worker groups, from the log that the attempts share."""
        return self.attempts[0].resumed()

    def wait_for_workers(self) -> None:
        """Wait until workers have resumed after each interruption."""
        wanted = len(self.reached) + 1

        def resumed_or_over() -> bool:
            return len(self.resumed()) >= wanted or self.attempt.job.poll() is not None

        try:
            wait_until(resumed_or_over, f"group {wanted} of workers", REHEARSAL_PATIENCE_SECONDS)
        finally:
            print(self.attempt.output)
        assert len(self.resumed()) == wanted


def kill_a_worker(run: Interrupted, stretch: range) -> None:
    """Kill the process of any worker; its node stays."""
    run.wait_for_step_of(stretch)
    os.kill(run.draw.choice(run.runs.workers()), signal.SIGKILL)
    run.note()


def kill_a_node(run: Interrupted, stretch: range) -> None:
    """Kill any worker node, and add a new one."""
    run.wait_for_step_of(stretch)
    run.nodes.kill(run.draw.randrange(len(run.nodes.workers)))
    run.note()
    run.nodes.add()


def freeze_a_node(run: Interrupted, stretch: range) -> None:
    """Freeze a node until the other nodes continue without it."""
    run.wait_for_step_of(stretch)
    run.nodes.freeze(1)
    run.note()
    run.nodes.add()
    run.wait_for_workers()
    run.nodes.thaw()
    wait_until(lambda: not run.nodes.workers[1].remaining_processes_alive(), "the end of the node that was given up")
    run.nodes.kill(1)


def tear_a_checkpoint(run: Interrupted, stretch: range) -> None:
    """Kill all worker nodes while a checkpoint is written."""
    wait_until((run.runs.trace / "torn").exists, "a checkpoint, half written", REHEARSAL_PATIENCE_SECONDS)
    [torn] = (run.runs.storage / "job" / "checkpoints").glob(f"{tear_at(stretch):09}@*")
    for index in (1, 0):
        run.nodes.kill(index)
    run.note()
    run.nodes.be(workers=2)
    run.wait_for_workers()
    assert not torn.exists()


def lose_the_head(run: Interrupted, stretch: range) -> None:
    """Kill the head, and with it the attempt."""
    run.wait_for_step_of(stretch)
    run.nodes.lose_head()
    assert run.attempt.wait() != 0
    run.nodes.replace_head()
    # Workers without a head keep training until they are killed, and their checkpoints count.
    run.note()
    run.nodes.be(workers=2)
    run.next_attempt()


def hang(run: Interrupted, stretch: range) -> None:
    """Make a worker hang: the attempt ends with its workers."""
    assert run.attempt.wait() == 1
    assert re.search(r"^job: attempt \d+ stalled: no workers began", run.attempt.output, re.MULTILINE)
    wait_until(lambda: not run.runs.workers(), "the end of the workers")
    run.note()
    run.next_attempt()


def tear_at(stretch: range) -> int:
    """Return the step whose checkpoint `tear_a_checkpoint` interrupts in this stretch."""
    return stretch.start + EVERY


def hang_at(stretch: range) -> int:
    """Return the step at which a worker hangs if `hang` is drawn for this stretch."""
    return stretch.start + EVERY + 2


Interruption = Callable[[Interrupted, range], None]
KILLS: Final[tuple[Interruption, ...]] = (kill_a_worker, kill_a_node, lose_the_head)
INTERRUPTIONS: Final[tuple[Interruption, ...]] = (kill_a_node, freeze_a_node, tear_a_checkpoint, lose_the_head, hang)
Case = tuple[Sequence[Interruption], bool]


def cases(length: int) -> dict[str, Case]:
    """Return each order of so many different interruptions, with each way of saving, by name."""
    return {
        "-".join(("asynchronous" if asynchronous else "blocking", *(each.__name__ for each in order))): (
            order,
            asynchronous,
        )
        for asynchronous in (False, True)
        for order in permutations(INTERRUPTIONS, length)
    }


ALL: Final = cases(len(INTERRUPTIONS))
PAIRS: Final = cases(2)


def assert_as_undisturbed(runs: Runs, expected: Undisturbed) -> None:
    weights = runs.weights()
    assert weights.keys() == expected.weights.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, expected.weights[name]), name
    assert runs.final_loss() == expected.loss
    assert runs.samples() == expected.samples


def assert_resumed(run: Interrupted, *, asynchronous: bool = False) -> None:
    """Assert that each interruption lost at most the steps since the last checkpoint, and the current step."""
    most = (2 if asynchronous else 1) * EVERY + 1
    first, *resumed = run.resumed()
    print(f"reached {run.reached}, resumed from {resumed}")
    print(f"steps lost: {[step - origin for step, origin in zip(run.reached, resumed, strict=False)]}")
    assert first == 0
    for step, origin in zip(run.reached, resumed, strict=True):
        assert 0 <= step - origin <= most


@pytest.mark.sampled(1, long=0)
@pytest.mark.parametrize("case", PAIRS.values(), ids=PAIRS)
def test_run_with_two_interruptions_ends_like_an_undisturbed_run(
    case: Case, nodes: Nodes, runs: Runs, undisturbed: Callable[..., Undisturbed], draw: random.Random
) -> None:
    assert_interrupted_ends_like_undisturbed(case, nodes, runs, undisturbed, draw)


@pytest.mark.sampled(0, long=8)
@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_run_with_every_interruption_ends_like_an_undisturbed_run(
    case: Case, nodes: Nodes, runs: Runs, undisturbed: Callable[..., Undisturbed], draw: random.Random
) -> None:
    assert_interrupted_ends_like_undisturbed(case, nodes, runs, undisturbed, draw)


def assert_interrupted_ends_like_undisturbed(
    case: Case, nodes: Nodes, runs: Runs, undisturbed: Callable[..., Undisturbed], draw: random.Random
) -> None:
    order, asynchronous = case
    stretches = {each: range(index * STRETCH, (index + 1) * STRETCH) for index, each in enumerate(order)}
    size = (f"--steps={STRETCH * len(order)}", f"--every={EVERY}", f"--worker-failures={len(order)}")
    expected = undisturbed(*size)
    run = Interrupted(nodes, runs, draw, *size, *faults(stretches), *(["--asynchronous"] if asynchronous else []))
    for interrupt, stretch in stretches.items():
        runs.allow(stretch.stop)
        interrupt(run, stretch)
    assert run.attempt.wait() == 0, run.attempt.output
    assert_resumed(run, asynchronous=asynchronous)
    assert_as_undisturbed(runs, expected)

    trained = runs.trained()
    assert run.next_attempt().wait() == 0, run.attempt.output
    assert "nothing is left to do" in run.attempt.output
    assert runs.trained() == trained


def faults(stretches: Mapping[Interruption, range]) -> list[str]:
    """Return the arguments for the interruptions that the training itself makes."""
    tear, hung = stretches.get(tear_a_checkpoint), stretches.get(hang)
    return [
        *([f"--tear-at={tear_at(tear)}"] if tear else []),
        *([f"--hang-at={hang_at(hung)}", PATIENCE] if hung else []),
    ]


@pytest.mark.long
@pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "asynchronous"])
def test_twenty_random_kills_change_nothing(
    nodes: Nodes, runs: Runs, undisturbed: Callable[..., Undisturbed], draw: random.Random, asynchronous: bool
) -> None:
    kills = draw.choices(KILLS, k=20)
    print(Counter(kill.__name__ for kill in kills), [kill.__name__ for kill in kills])
    size = (f"--steps={STRETCH * len(kills)}", f"--every={EVERY}", f"--worker-failures={len(kills)}")
    expected = undisturbed(*size)
    run = Interrupted(nodes, runs, draw, *size, *(["--asynchronous"] if asynchronous else []))
    for index, kill in enumerate(kills):
        stretch = range(index * STRETCH, (index + 1) * STRETCH)
        runs.allow(stretch.stop)
        kill(run, stretch)
    assert run.attempt.wait() == 0, run.attempt.output
    assert_resumed(run, asynchronous=asynchronous)
    assert_as_undisturbed(runs, expected)
