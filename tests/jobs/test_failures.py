"""A run that cannot work ends after bounded attempts, with one message, and keeps its last checkpoint."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.jobs.support.ray_nodes import Nodes
from tests.jobs.support.runs import JOB, Runs, Undisturbed
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

ARGUMENTS = ("--steps=20", "--every=5")


@pytest.mark.sampled(2, of="runs on real Ray")
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)], ids=["fewer", "more"])
def test_other_number_of_workers_takes_the_same_global_batches(
    nodes: Nodes, runs: Runs, undisturbed: Callable[..., Undisturbed], before: int, after: int
) -> None:
    """Without dropout, because one worker draws other random numbers than two; sums in another order differ by 1e-5."""
    arguments = (*ARGUMENTS, "--dropout=0")
    expected = undisturbed(*arguments)
    runs.allow(12)
    first = runs.start(*arguments, f"--workers={before}", attempt=1)
    runs.wait_for_step(11)
    first.job.kill()
    first.wait()
    # Workers that briefly outlive the attempt would continue to train and save once the limit is lifted.
    wait_until(lambda: not runs.workers(), "the end of the attempt's workers", REHEARSAL_PATIENCE_SECONDS)
    nodes.be(workers=after)
    runs.allow(20)
    second = runs.start(*arguments, f"--workers={after}", attempt=2)
    assert second.wait() == 0, second.output
    assert second.resumed() == [10]
    assert {entry.world for entry in runs.trained()} == {before, after}
    assert runs.samples() == expected.samples
    for name, weight in runs.weights().items():
        torch.testing.assert_close(weight, expected.weights[name], rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(2, of="runs on real Ray")
@pytest.mark.parametrize("saving", [(), ("--asynchronous",)], ids=["blocking", "asynchronous"])
def test_bug_of_the_train_function_is_retried_a_limited_number_of_times_and_named(
    nodes: Nodes, runs: Runs, saving: tuple[str, ...]
) -> None:
    job = runs.start(*ARGUMENTS, "--bug-at=12", "--worker-failures=1", "--workers=1", *saving)
    assert job.wait() == 1
    assert job.resumed() == [0, 10]
    *_, last_line = (line for line in job.output.splitlines() if line.startswith("job: "))
    assert last_line == (
        "job: attempt 1 failed; the last checkpoint is 000000010@0001.01. ValueError: a bug of the train function"
    )
    assert runs.weights(), "the last checkpoint can be loaded"


def recorded(runs: Runs) -> bool:
    """Return whether Ray Train's own record of the run names a checkpoint."""
    records = (runs.storage / "job").glob("experiment_state-*.json")
    return any("checkpoint_00000" in record.read_text() for record in records)


@pytest.mark.sampled(2, of="runs on real Ray")
def test_ordinary_script_with_the_restore_recipe_resumes_in_its_next_attempt(
    nodes: Nodes, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN_NAME", "job")
    monkeypatch.setenv("RUN_STORAGE", str(runs.storage))
    script = JOB.with_name("ordinary_training.py")
    first = runs.start(attempt=1, script=script)
    held = "checkpoint of step 3 written"
    wait_until(lambda: held in first.output or first.job.poll() is not None, "checkpoint 3", REHEARSAL_PATIENCE_SECONDS)
    # The worker prints, the driver records: on a busy machine the record lags behind.
    wait_until(lambda: recorded(runs) or first.job.poll() is not None, "Ray Train's record of a checkpoint")
    first.job.kill()
    first.wait()
    (runs.storage / "go").touch()
    second = runs.start(attempt=2, script=script)
    assert second.wait() == 0, second.output
    [resumed] = re.findall(r"resumes from step (\d)", second.output)
    assert int(resumed) > 0, "Ray Train's record lags behind its checkpoints, but not by all of them"
    assert "checkpoint of step 6 written" in second.output


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 2 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    directory = tmp_path / "small"
    directory.mkdir()
    subprocess.run(["/usr/bin/mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", directory], check=True)
    yield directory
    subprocess.run(["/usr/bin/umount", "--lazy", directory], check=True)


@pytest.mark.sampled(2, of="runs on real Ray")
@pytest.mark.parametrize("saving", [(), ("--asynchronous",)], ids=["blocking", "asynchronous"])
def test_full_file_system_is_named_and_leaves_the_last_checkpoint_whole(
    nodes: Nodes, runs: Runs, small_disk: Path, saving: tuple[str, ...]
) -> None:
    runs.storage = small_disk
    job = runs.start(*ARGUMENTS, "--keep=100", "--fill=800000", "--worker-failures=0", "--workers=1", *saving)
    assert job.wait() == 1
    assert "No space left on device" in job.output
    assert any(line.startswith("job: attempt 1 failed; the last checkpoint is ") for line in job.output.splitlines())
    saved = runs.store.committed()
    assert saved
    assert all(runs.store.is_whole(one) for one in saved)
    assert runs.weights(), "the last checkpoint can be loaded"
