"""An attempt that waits for resources is not a stalled one, however long it waits; one that hangs with them is."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.support.ray_nodes import Nodes
from tests.jobs.support.runs import Runs
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

PATIENCE = 2.0
# It also wants what no cluster here has: what another job waits for is not what this one waits for.
OTHER_JOB = """
import pathlib, sys, time
from ray.util.placement_group import placement_group, remove_placement_group
import ray
ray.init()
held, never = placement_group([{"CPU": 1}]), placement_group([{"CPU": 50}])
assert held.wait(3600)
print("holds", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.1)
remove_placement_group(held)
time.sleep(3600)
"""


@pytest.fixture
def released(nodes: Nodes, tmp_path: Path) -> Iterator[Path]:
    """Hold one of two CPUs for another job until the returned file exists."""
    path, log = tmp_path / "released", tmp_path / "other.log"
    env = {**os.environ, "RAY_ADDRESS": nodes.address}
    with log.open("wb") as output:
        job = subprocess.Popen([sys.executable, "-c", OTHER_JOB, str(path)], env=env, stdout=output, stderr=output)
    wait_until(lambda: b"holds" in log.read_bytes(), "another job with a CPU", REHEARSAL_PATIENCE_SECONDS)
    yield path
    job.kill()
    job.wait()


def test_attempt_that_waits_behind_another_job_is_kept_and_one_that_hangs_is_ended(runs: Runs, released: Path) -> None:
    hung = runs.trace / "hung"
    job = runs.start("--steps=20", "--every=10", "--hang-at=12", f"--patience={PATIENCE}", attempt=1)
    waits = "job: attempt 1 waits for resources: 2 x {CPU: 1} (nodes large enough for one: 2)\n"
    wait_until(
        lambda: waits in job.output or job.job.poll() is not None, "an attempt that waits", REHEARSAL_PATIENCE_SECONDS
    )
    # From here on small_training.py shows its watchdog no progress.
    hung.touch()
    since = time.monotonic()
    wait_until(lambda: time.monotonic() - since > 3 * PATIENCE or job.job.poll() is not None, "more than its patience")
    assert job.job.poll() is None, job.output
    hung.unlink()
    released.touch()
    assert job.wait() == 1
    assert "job: attempt 1 has its resources after " in job.output
    assert "checkpoint of step 10 written" in job.output
    assert "job: attempt 1 stalled: no workers began, took a step or wrote a part of a checkpoint for 2 s" in job.output
