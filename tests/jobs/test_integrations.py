"""Trainings in other frameworks are killed, and end with exactly the same weights as undisturbed ones.

With the same number of workers on CPUs all four do. A kill is a SIGKILL of a worker's process, within an epoch.
"""

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import ray.train
import torch
from ray.train import CheckpointConfig
from torch.multiprocessing.spawn import ProcessExitedException

from ray_resume import Run
from ray_resume.integrations.packages import needing
from ray_resume.worker import completing
from tests.jobs.support import framework_trainings
from tests.jobs.support.framework_trainings import EVERY, KILLS, TRAININGS
from tests.jobs.support.ray_nodes import Nodes
from tests.jobs.support.runs import JOB, Runs
from tests.jobs.support.together import together

SCRIPT = JOB.with_name("framework_trainings.py")


def assert_equal(found: Path, expected: Path) -> None:
    weights, others = torch.load(found / "result"), torch.load(expected / "result")
    assert weights.keys() == others.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, others[name]), name


@pytest.mark.long
@pytest.mark.parametrize("framework", TRAININGS)
def test_killed_workers_of_a_framework_end_like_undisturbed_ones(nodes: Nodes, tmp_path: Path, framework: str) -> None:
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()
    with Runs(tmp_path / "undisturbed", nodes) as undisturbed, Runs(tmp_path / "killed", nodes) as killed:
        job = undisturbed.start(f"--framework={framework}", script=SCRIPT)
        assert job.wait() == 0, job.output
        job = killed.start(f"--framework={framework}", *(f"--kill={step}" for step in KILLS), script=SCRIPT)
        assert job.wait() == 0, job.output
        assert job.resumed() == [0, *KILLS.values()]
        assert_equal(killed.storage, undisturbed.storage)


def alone(rank: int, framework: str, storage: Path, attempt: int, kills: tuple[int, ...]) -> None:
    """Train as the only worker, without Ray."""
    if framework == "deepspeed":
        # As Ray Train sets it, and DeepSpeed demands.
        os.environ["LOCAL_RANK"] = "0"
    run = Run("job", str(storage), attempt, EVERY, CheckpointConfig(num_to_keep=2))
    context = SimpleNamespace(get_world_rank=lambda: rank)
    with (
        mock.patch.object(ray.train, "get_context", return_value=context),
        mock.patch.object(ray.train, "report"),
        completing(),
    ):
        framework_trainings.train({"run": run, "framework": framework, "kills": kills})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("framework", TRAININGS)
def test_killed_worker_of_a_framework_resumes_bit_by_bit(tmp_path: Path, framework: str) -> None:
    """One worker without Ray, because the workers of a framework take long to start."""
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    for storage in (killed, undisturbed):
        (storage / "job").mkdir(parents=True)
        (storage / "job" / "run.json").write_text("{}")
    for attempt, step in enumerate(KILLS, start=1):
        with pytest.raises(ProcessExitedException) as ended:
            together(1, alone, tmp_path / f"killed before {step}", framework, killed, attempt, (step,))
        assert ended.value.signal_name == signal.SIGKILL.name
    last = 1 + len(KILLS)
    together(1, alone, tmp_path / "last", framework, killed, last, ())
    for attempt, origin in enumerate(KILLS.values(), start=2):
        began = (killed / "job" / "attempts" / f"{attempt:04}.01.json").read_text()
        assert f'"{origin:09}@{attempt - 1:04}.01"' in began
    together(1, alone, tmp_path / "undisturbed alone", framework, undisturbed, 1, ())
    assert_equal(killed, undisturbed)


def test_missing_framework_is_named_with_the_extra_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    with (
        pytest.raises(ModuleNotFoundError, match=r"Fix: pip install 'ray-resume\[deepspeed\]'"),
        needing("DeepSpeed", "deepspeed"),
    ):
        __import__("deepspeed")
