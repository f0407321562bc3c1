"""The sweep, called as a user calls it, on nodes that fail."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ray_resume.checkpoint_store import CheckpointStore
from ray_resume.storage import open_storage
from tests.jobs.support.paths import RAY_JOBS
from tests.jobs.support.ray_nodes import Nodes
from tests.jobs.support.runs import Runs
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

GOOD, BAD = "lr-0.02", "lr-1e-05"
SWEEP = ("--learning-rate", "0.02", "0.00001", "--epochs=20", "--every=8", "--workers=1")


@pytest.fixture(scope="module")
def runs(cluster: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Yield one starter for all tests, because they use what the sweep trained."""
    cluster.be(workers=2)
    with Runs(tmp_path_factory.mktemp("tuning"), cluster) as runs:
        yield runs


def origins(runs: Runs, trial: str) -> dict[str, str | None]:
    """Return from which checkpoint each group of a trial's workers resumed."""
    records = (runs.storage / "sweep" / "trials" / trial / "attempts").glob("0*.json")
    return {record.stem: json.loads(record.read_text())["resumed_from"] for record in records}


def steps(runs: Runs, trial: str) -> int:
    """Return how many steps of a trial are in its newest checkpoint."""
    store = CheckpointStore(open_storage(str(runs.storage / "sweep" / "trials"), trial))
    return max((saved.step for saved in store.committed()), default=0)


def restarted(runs: Runs) -> bool:
    """Return whether workers of some trial began a second time within attempt 1."""
    return any("0001.02" in origins(runs, trial) for trial in (GOOD, BAD))


def runs_process(nodes: Nodes, node: Any, name: bytes) -> bool:
    """Return whether a node runs a process of Ray with this text in its name; an actor's ends with the actor."""
    for pid in nodes.processes_of(node):
        with suppress(FileNotFoundError, ProcessLookupError):
            if name in Path("/proc", str(pid), "cmdline").read_bytes():
                return True
    return False


@pytest.mark.sampled(1, of="examples")
def test_sweep_resumes_each_trial_after_a_lost_node_and_after_a_lost_driver(cluster: Nodes, runs: Runs) -> None:
    script = RAY_JOBS / "sweep.py"
    first = runs.start(*SWEEP, attempt=1, script=script)
    wait_until(
        lambda: min(steps(runs, GOOD), steps(runs, BAD)) >= 8, "a checkpoint of each trial", REHEARSAL_PATIENCE_SECONDS
    )
    cluster.kill(
        next(index for index, node in enumerate(cluster.workers) if runs_process(cluster, node, b"RayTrainWorker"))
    )
    cluster.add()
    wait_until(lambda: restarted(runs) or first.job.poll() is not None, "other workers", REHEARSAL_PATIENCE_SECONDS)
    assert first.job.poll() is None, first.output
    # A lost head ends the driver, too; Ray ends the workers of a driver that is gone.
    first.job.kill()
    first.wait()

    second = runs.start(*SWEEP, attempt=2, script=script)
    assert second.wait() == 0, second.output
    began = {(trial, group): origin for trial in (GOOD, BAD) for group, origin in origins(runs, trial).items()}
    later = {name: origin for name, origin in began.items() if name[1] != "0001.01"}
    assert {group for _, group in later} == {"0001.02", "0002.01"}, began
    assert all(later.values()), began
    for trial in (GOOD, BAD):
        assert steps(runs, trial) == 320
    assert re.search(r"checkpoint of step \d+ written, of all 2 trials", second.output), "the supervisor's progress"
    done = json.loads((runs.storage / "sweep" / "DONE.json").read_text())
    assert done["best"] == GOOD
