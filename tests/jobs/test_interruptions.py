"""A run that something happens to ends as one that nothing happened to: the same weights, to the bit.

Equal number of workers, equal order of the data, restored random number generators (the network drops out), on CPUs:
there is nothing to tolerate. What is done again is at most the steps since the last checkpoint, and the one in hand.
"""

import secrets
from collections.abc import Callable

import pytest
import torch

from tests.jobs.nodes import Nodes, wait_until
from tests.jobs.runs import Attempt, Runs, Undisturbed

STEPS, EVERY = 60, 5
ARGUMENTS = (f"--steps={STEPS}", f"--every={EVERY}")
SLOW = (*ARGUMENTS, "--step-seconds=0.1")


def assert_as_undisturbed(runs: Runs, expected: Undisturbed) -> None:
    weights = runs.weights()
    assert weights.keys() == expected.weights.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, expected.weights[name]), name
    assert runs.final_loss() == expected.loss
    assert runs.samples() == expected.samples


def assert_resumed(job: Attempt, *reached: int) -> None:
    """Each time at most the steps since the last checkpoint were lost, and the one that was in hand."""
    resumed = job.resumed()[-len(reached) :]
    print(f"reached {reached}, went on from {resumed}")
    for step, origin in zip(reached, resumed, strict=True):
        assert 0 <= step - origin <= EVERY + 1


def kill_a_node(nodes: Nodes, runs: Runs, step: int) -> int:
    """Kill any worker node once the run is at this step, and give a new one; how many steps were done then."""
    runs.wait_for_step(step)
    nodes.kill(secrets.randbelow(len(nodes.workers)))
    reached = max(entry.step for entry in runs.trained()) + 1
    nodes.add()
    return reached


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
def test_random_kills_of_worker_nodes_change_nothing(
    kills: int, nodes: Nodes, runs: Runs, undisturbed: Callable[..., Undisturbed]
) -> None:
    steps = STEPS * max(1, kills // 4)
    arguments = (f"--steps={steps}", f"--every={EVERY}", f"--worker-failures={kills}")
    expected = undisturbed(*arguments)
    # One in each stretch, so that every kill meets a run that goes.
    stretch = steps // (kills + 1)
    at = [1 + index * stretch + secrets.randbelow(stretch) for index in range(kills)]
    print(f"kills at steps {at}")
    job = runs.start(*arguments, "--step-seconds=0.1")
    reached = [kill_a_node(nodes, runs, step) for step in at]
    assert job.wait() == 0, job.output
    assert_resumed(job, *reached)
    assert_as_undisturbed(runs, expected)


def test_frozen_node_is_replaced_and_changes_nothing_when_it_thaws(
    nodes: Nodes, runs: Runs, undisturbed: Callable[..., Undisturbed]
) -> None:
    expected = undisturbed(*ARGUMENTS)
    job = runs.start(*SLOW)
    runs.wait_for_step(10 + secrets.randbelow(10))
    nodes.freeze(1)
    reached = max(entry.step for entry in runs.trained()) + 1
    nodes.add()
    wait_until(lambda: len(job.resumed()) == 2, 120)
    nodes.thaw()
    assert job.wait() == 0, job.output
    assert_resumed(job, reached)
    assert_as_undisturbed(runs, expected)


def test_lost_head_costs_an_attempt_and_no_more_steps(
    nodes: Nodes, runs: Runs, undisturbed: Callable[..., Undisturbed]
) -> None:
    expected = undisturbed(*ARGUMENTS)
    first = runs.start(*SLOW, attempt=1)
    runs.wait_for_step(10 + secrets.randbelow(STEPS - 20))
    nodes.lose_head()
    assert first.wait() != 0
    nodes.replace_head()
    # Workers without a head train on until somebody ends them, and their checkpoints count.
    reached = max(entry.step for entry in runs.trained()) + 1
    nodes.be(workers=2)
    second = runs.start(*SLOW, attempt=2)
    assert second.wait() == 0, second.output
    assert_resumed(second, reached)
    assert_as_undisturbed(runs, expected)

    trained = runs.trained()
    third = runs.start(*SLOW, attempt=3)
    assert third.wait() == 0, third.output
    assert "nothing is left to do" in third.output
    assert runs.trained() == trained


def test_node_lost_while_a_checkpoint_is_written_leaves_none_that_is_torn(
    nodes: Nodes, runs: Runs, undisturbed: Callable[..., Undisturbed]
) -> None:
    expected = undisturbed(*ARGUMENTS)
    job = runs.start(*SLOW, "--tear-at=25")
    wait_until((runs.trace / "torn").exists, 240)
    torn = runs.storage / "job" / "checkpoints" / "000000025@0001.01"
    assert torn.is_dir()
    for index in (1, 0):
        nodes.kill(index)
    nodes.be(workers=2)
    assert job.wait() == 0, job.output
    assert job.resumed() == [0, 20]
    assert not torn.exists()
    assert_as_undisturbed(runs, expected)


def test_run_that_stands_still_ends_with_its_workers_and_the_next_attempt_goes_on(
    nodes: Nodes, runs: Runs, undisturbed: Callable[..., Undisturbed]
) -> None:
    expected = undisturbed(*ARGUMENTS)
    first = runs.start(*SLOW, "--hang-at=17", "--patience=60", attempt=1)
    assert first.wait() == 1
    assert "job: attempt 1 stood still" in first.output
    wait_until(lambda: not runs.workers(), 60)
    second = runs.start(*SLOW, attempt=2)
    assert second.wait() == 0, second.output
    assert_resumed(second, 17)
    assert_as_undisturbed(runs, expected)
