"""A run that something happens to ends as one that nothing happened to: the same weights, to the bit."""

import secrets
from collections.abc import Callable

import torch

from tests.jobs.nodes import Nodes
from tests.jobs.runs import Runs, Undisturbed

STEPS, EVERY = 60, 5
ARGUMENTS = (f"--steps={STEPS}", f"--every={EVERY}")
SLOW = (*ARGUMENTS, "--step-seconds=0.1")


def assert_as_undisturbed(runs: Runs, undisturbed: Callable[..., Undisturbed]) -> None:
    """Equal number of workers, equal order of data, restored generators: there is nothing to tolerate."""
    expected = undisturbed(*ARGUMENTS)
    weights = runs.weights()
    assert weights.keys() == expected.weights.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, expected.weights[name]), name
    assert runs.final_loss() == expected.loss
    assert runs.samples() == expected.samples


def steps_lost(runs: Runs, resumed_at: int, before: int) -> int:
    """Steps done before `before` trained steps that were done again."""
    return before - resumed_at


def test_lost_worker_node(nodes: Nodes, runs: Runs, undisturbed: Callable[..., Undisturbed]) -> None:
    victim_step = 2 + secrets.randbelow(STEPS - 12)
    print(f"killed at step {victim_step}")
    job = runs.start(*SLOW)
    runs.wait_for_step(victim_step)
    nodes.kill(secrets.randbelow(2))
    reached = max(entry.step for entry in runs.trained()) + 1
    nodes.add()
    assert job.wait() == 0, job.output
    _, resumed = job.resumed()
    assert reached - resumed <= EVERY + 1
    assert_as_undisturbed(runs, undisturbed)
