"""A run whose number of workers changes takes the same global batches, and loses no step when it grows."""

from collections.abc import Callable, Iterator

import pytest
import ray
import torch
from ray.util.placement_group import placement_group, remove_placement_group

from ray_resume.elastic.resizing import FOLDER
from tests.jobs.support.paths import RAY_JOBS
from tests.jobs.support.ray_nodes import Nodes
from tests.jobs.support.runs import Attempt, Runs, Undisturbed
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

ARGUMENTS = ("--steps=20", "--every=5", "--dropout=0")
SMALLER = "job: attempt 1 continues with 1 of 2 workers: 2 had no resources for "
LARGER = "job: attempt 1 has room for 2 workers: it grows from 1 at its next checkpoint"
RUNS_WITH_ONE = "job: attempt 1 runs with 1 of 2 workers"
RUNS_WITH_TWO = "job: attempt 1 runs with 2 of 2 workers"


@pytest.fixture
def expected(undisturbed: Callable[..., Undisturbed]) -> Undisturbed:
    """Return what a run without failures ends with.

    Without dropout, because one worker draws other random numbers than two; sums in another order differ by 1e-5.
    """
    return undisturbed(*ARGUMENTS)


@pytest.fixture
def elastic(expected: Undisturbed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the run continue with one worker after a second."""
    monkeypatch.setenv("RUN_MIN_WORKERS", "1")
    monkeypatch.setenv("RUN_WAIT_FOR_WORKERS", "1")


def wait_for(job: Attempt, text: str, times: int = 1) -> None:
    """Wait until a job has printed a text so many times."""
    wait_until(
        lambda: job.output.count(text) >= times or job.job.poll() is not None, repr(text), REHEARSAL_PATIENCE_SECONDS
    )
    assert job.output.count(text) >= times, job.output


def assert_same(runs: Runs, expected: Undisturbed) -> None:
    """Check that each global batch was the expected one, and that loss and weights differ by rounding only."""
    assert runs.samples() == expected.samples
    assert runs.final_loss() == pytest.approx(expected.loss, rel=1e-5)
    for name, weight in runs.weights().items():
        torch.testing.assert_close(weight, expected.weights[name], rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(2, of="runs on real Ray")
@pytest.mark.parametrize("saving", [(), ("--asynchronous",)], ids=["blocking", "asynchronous"])
@pytest.mark.usefixtures("elastic")
def test_run_continues_without_a_lost_node_and_grows_once_another_is_there(
    nodes: Nodes, runs: Runs, expected: Undisturbed, saving: tuple[str, ...]
) -> None:
    runs.allow(12)
    job = runs.start(*ARGUMENTS, *saving)
    runs.wait_for_step(11)
    wait_for(job, RUNS_WITH_TWO)
    wait_for(job, "checkpoint of step 10 written")
    nodes.kill(0)
    wait_for(job, SMALLER)
    wait_for(job, RUNS_WITH_ONE)
    nodes.add()
    wait_for(job, LARGER)
    runs.allow(20)
    assert job.wait() == 0, job.output
    assert job.resumed() == [0, 10, 15]
    steps = {(entry.world, entry.step) for entry in runs.trained()}
    assert {step for world, step in steps if world == 1} == set(range(10, 15)), "it ends at its next checkpoint"
    assert {step for world, step in steps if world == 2} == {*range(12), *range(15, 20)}, "growing repeats no step"
    assert_same(runs, expected)
    assert (runs.storage / "job" / FOLDER).is_dir()


@pytest.mark.sampled(2, of="runs on real Ray")
@pytest.mark.usefixtures("elastic")
def test_run_waits_as_long_as_there_is_room_for_fewer_than_its_minimum(
    nodes: Nodes, runs: Runs, expected: Undisturbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than Ray takes to notice a lost node: after a second, the run could continue on one that is lost, too.
    monkeypatch.setenv("RUN_WAIT_FOR_WORKERS", "10")
    runs.allow(12)
    job = runs.start(*ARGUMENTS, "--patience=20")
    runs.wait_for_step(11)
    nodes.be(workers=0)
    wait_for(job, "job: attempt 1 waits for resources: 2 x {CPU: 1}")
    nodes.add()
    wait_for(job, RUNS_WITH_ONE)
    runs.allow(20)
    assert job.wait() == 0, job.output
    assert job.resumed() == [0, 10]
    assert_same(runs, expected)


@pytest.mark.sampled(2, of="runs on real Ray")
@pytest.mark.usefixtures("elastic")
def test_run_begins_with_the_workers_that_there_is_room_for(nodes: Nodes, runs: Runs, expected: Undisturbed) -> None:
    nodes.be(workers=1)
    job = runs.start(*ARGUMENTS)
    assert job.wait() == 0, job.output
    assert RUNS_WITH_TWO not in job.output
    assert job.resumed() == [0]
    assert_same(runs, expected)


@pytest.mark.sampled(2, of="runs on real Ray")
@pytest.mark.usefixtures("elastic")
def test_next_attempt_continues_after_the_driver_was_killed_while_the_run_was_smaller(
    nodes: Nodes, runs: Runs, expected: Undisturbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray Train's record of the smaller group must not be taken for that of a finished run."""
    nodes.be(workers=1)
    runs.allow(12)
    first = runs.start(*ARGUMENTS, attempt=1)
    wait_for(first, "checkpoint of step 10 written")
    first.job.kill()
    first.wait()
    wait_until(lambda: not runs.workers(), "the end of the attempt's workers", REHEARSAL_PATIENCE_SECONDS)
    monkeypatch.delenv("RUN_MIN_WORKERS")
    nodes.be(workers=2)
    runs.allow(20)
    second = runs.start(*ARGUMENTS, attempt=2)
    assert second.wait() == 0, second.output
    assert second.resumed() == [10]
    assert_same(runs, expected)


@pytest.fixture
def other_job(nodes: Nodes) -> Iterator[Callable[[int], None]]:
    """Return a function that lets another job ask for so many CPUs; called again, it asks for those instead."""
    ray.init(nodes.address, logging_level="ERROR")
    asked: list[object] = []

    def ask(cpus: int) -> None:
        for one in asked:
            remove_placement_group(one)
        asked[:] = [placement_group([{"CPU": 1}] * cpus)] if cpus else []

    yield ask
    ask(0)
    ray.shutdown()


@pytest.mark.sampled(2, of="runs on real Ray")
@pytest.mark.usefixtures("elastic")
def test_run_does_not_grow_into_what_another_job_waits_for(
    nodes: Nodes, runs: Runs, expected: Undisturbed, other_job: Callable[[int], None]
) -> None:
    nodes.be(workers=1)
    # As long as Ray has not noticed that an earlier test's node is lost, its CPU counts as free.
    wait_until(
        lambda: sum(node["Alive"] for node in ray.nodes()) == 2, "head and worker alone", REHEARSAL_PATIENCE_SECONDS
    )
    runs.allow(3)
    job = runs.start(*ARGUMENTS)
    wait_for(job, RUNS_WITH_ONE)
    other_job(3)
    nodes.add()
    # At this checkpoint it would grow.
    runs.allow(7)
    wait_for(job, "checkpoint of step 5 written")
    runs.wait_for_step(6)
    assert LARGER not in job.output
    other_job(0)
    wait_for(job, LARGER)
    runs.allow(20)
    assert job.wait() == 0, job.output
    assert job.resumed() == [0, 10]
    assert_same(runs, expected)


@pytest.mark.sampled(2, of="runs on real Ray")
@pytest.mark.usefixtures("elastic")
def test_bug_ends_an_elastic_run_after_a_limited_number_of_failures(nodes: Nodes, runs: Runs) -> None:
    nodes.be(workers=1)
    job = runs.start(*ARGUMENTS, "--bug-at=12", "--worker-failures=1")
    assert job.wait() == 1, job.output
    assert job.resumed() == [0, 10]
    assert "ValueError: a bug of the train function" in job.output


@pytest.mark.sampled(2, of="runs on real Ray")
def test_sharded_training_continues_on_one_node_and_on_two_again(nodes: Nodes, runs: Runs) -> None:
    arguments = ("--min-workers=1", "--wait-for-workers=1", "--epochs=4", "--every=4", "--batch=4")
    job = runs.start(*arguments, script=RAY_JOBS / "fsdp_finetune.py")
    wait_for(job, "checkpoint of step 8 written")
    nodes.kill(0)
    wait_for(job, "fsdp-finetune: attempt 1 runs with 1 of 2 workers")
    nodes.add()
    wait_for(job, "fsdp-finetune: attempt 1 runs with 2 of 2 workers", times=2)
    assert job.wait() == 0, job.output
    assert len(job.resumed()) == 3
    last = runs.storage / "fsdp-finetune" / "DONE.json"
    assert '"loss": 0.' in last.read_text()
