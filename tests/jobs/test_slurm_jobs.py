"""Trainings of ray_jobs/slurm/ on real Slurm, without Ray: killed ones end with the weights of undisturbed ones."""

import random
from pathlib import Path

import pytest

from rehearsal.slurm.cluster import SlurmCluster
from tests.jobs.support.slurm_jobs import KINDS, STEPS, Job, assert_equal, slurm, submit, undisturbed
from tests.support.slurm import ALL_LOST, command_of_page, kill_like_a_late_end, lose_all_nodes, wait_until_saved
from tests.support.waiting import wait_until

KILLS = ("first node", "second node", "controller", "worker", "node and controller")


@pytest.mark.sampled(1, of="jobs on real Slurm")
@pytest.mark.parametrize("kind", KINDS)
def test_job_of_a_lost_node_ends_like_an_undisturbed_one(tmp_path: Path, kind: str) -> None:
    """The node of the batch script is lost between two checkpoints; Slurm requeues the job on its replacement."""
    job = Job(tmp_path / "jobs", kind)
    job.hold(12)
    with slurm(job) as cluster, undisturbed(tmp_path / "undisturbed", kind) as (expected, process):
        number = submit(cluster, job)
        job.wait_until_held(12)
        lost = cluster.compute[0]
        cluster.kill(lost)
        cluster.wait_for(number, "PENDING")
        cluster.start(lost)
        job.release()
        assert cluster.wait_for(number, "COMPLETED", "FAILED") == "COMPLETED", job.output
        assert process.wait() == 0, expected.output
    assert "attempt 0002.01: resumes from step 10 (000000010@0001.01" in job.output
    assert_equal(job.weights, expected.weights)


@pytest.mark.sampled(1, of="jobs on real Slurm")
@pytest.mark.parametrize("way", ["scontrol", "sbatch"])
def test_job_that_failed_after_the_loss_of_all_nodes_resumes_as_the_page_says(tmp_path: Path, way: str) -> None:
    """Slurm before 24.11.1 may end the start after such a loss; the batch script is killed where it does not."""
    job = Job(tmp_path / "jobs", "train_ddp")
    job.hold(12)
    with slurm(job) as cluster, undisturbed(tmp_path / "undisturbed", job.kind) as (expected, process):
        number = submit(cluster, job)
        job.wait_until_held(12)
        lose_all_nodes(cluster, seconds=0)
        wait_until(
            lambda: cluster.state_of(number) != "RUNNING" or "start 1: node" in job.output, "Slurm sees the loss"
        )
        kill_like_a_late_end(cluster, number)
        job.release()
        if way == "scontrol":
            cluster.run(*command_of_page(ALL_LOST, number))
        else:
            number = submit(cluster, job)
        assert cluster.wait_for(number, "COMPLETED", "FAILED") == "COMPLETED", job.output
        assert process.wait() == 0, expected.output
    assert "resumes from step 10 (000000010@0001.01" in job.output
    assert_equal(job.weights, expected.weights)


@pytest.mark.long
def test_five_random_kills_leave_the_result_of_an_undisturbed_training(tmp_path: Path, draw: random.Random) -> None:
    kind = draw.choice(KINDS)
    steps = sorted(draw.sample(range(1, STEPS), len(KILLS)))
    kills = draw.sample(KILLS, len(KILLS))
    print(kind, dict(zip(steps, kills, strict=True)))
    job = Job(tmp_path / "jobs", kind)
    job.hold(steps[0])
    with slurm(job) as cluster, undisturbed(tmp_path / "undisturbed", kind) as (expected, process):
        number = submit(cluster, job)
        for step, following, kill in zip(steps, [*steps[1:], None], kills, strict=True):
            job.wait_until_held(step)
            wait_until_saved(cluster, number)
            strike(cluster, kill)
            if following is None:
                job.release()
            else:
                job.hold(following)
        assert cluster.wait_for(number, "COMPLETED", "FAILED") == "COMPLETED", job.output
        assert process.wait() == 0, expected.output
    assert "attempt 0005.01: resumes from step" in job.output
    failures = (job.directory / f"failures-{number}").read_text().splitlines()
    assert len(failures) == 1, "only the killed worker counts as a failure, not the lost nodes"
    assert_equal(job.weights, expected.weights)


def strike(cluster: SlurmCluster, kill: str) -> None:
    """Kill a part of the cluster, and start it again once Slurm knows that it is lost."""
    first, second = cluster.compute
    if kill == "worker":
        cluster.run("pkill", "-KILL", "-f", "python[0-9.]* -u train_", on=first)
        return
    lost = {"first node": first, "second node": second, "node and controller": second}.get(kill)
    if lost:
        cluster.kill(lost)
    if "controller" in kill:
        cluster.kill(cluster.controller)
        cluster.start(cluster.controller)
    if lost:
        cluster.wait_for_node(lost, "down*")
        cluster.start(lost)
