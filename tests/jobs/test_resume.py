"""What workers do with a run's checkpoints, in one process without Ray."""

import json
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray.train
import torch
from ray.train import CheckpointConfig
from torch import nn

import ray_resume
from ray_resume import torch_state
from ray_resume.checkpoint_store import StaleAttemptError
from ray_resume.data_order import FORMULA, SHUFFLED, DataOrder

EARLIER = Path(__file__).with_name("earlier")
"""The run `job` of the first version of the library after 10 steps, and what it did in the steps after that."""
EVERY = 5


@pytest.fixture(autouse=True)
def alone(group_of_one: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process the only worker; all that it needs of Ray is its rank and a place for its reports."""
    monkeypatch.setattr(ray.train, "get_context", lambda: SimpleNamespace(get_world_rank=lambda: 0))
    monkeypatch.setattr(ray.train, "report", lambda _: None)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ray_resume.Run:
    """Return the first attempt of a run."""
    return attempt(tmp_path, monkeypatch)


def attempt(storage: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> ray_resume.Run:
    """Return the run's next attempt, with RUN_… variables."""
    for name in ("NAME", "ATTEMPT", "SERIES", "STORAGE"):
        monkeypatch.delenv(f"RUN_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(f"RUN_{name.upper()}", value)
    run = ray_resume.Run.from_environment("job", str(storage), every=EVERY, keep=CheckpointConfig())
    run.begin({})
    return run


def train(run: ray_resume.Run, steps: int) -> tuple[dict[int, list[int]], list[float]]:
    """Train a small network; return the samples of each step and the final weights."""
    checkpoints = ray_resume.Checkpoints(run)
    torch_state.seed_all(7)
    model = nn.Sequential(nn.Linear(1, 3), nn.Dropout(0.2), nn.Linear(3, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    order = checkpoints.data_order(50, 8, 7) if hasattr(checkpoints, "data_order") else DataOrder(50, 8, 7)
    load = partial(torch_state.load, model=model, optimizer=optimizer, rank=0, reseed=7)
    save = partial(torch_state.save, model=model, optimizer=optimizer, rank=0)
    samples = {}
    for step in range(checkpoints.restore(load), steps):
        samples[step] = order.indices(step)
        optimizer.zero_grad()
        loss = model(torch.tensor(samples[step], dtype=torch.float32).unsqueeze(1) / 50).square().mean()
        loss.backward()
        optimizer.step()
        if checkpoints.due(step + 1):
            checkpoints.save(step + 1, save, {"loss": loss.item()})
    return samples, nn.utils.parameters_to_vector(model.parameters()).tolist()


def test_run_of_the_first_version_continues_in_its_order_of_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EARLIER, tmp_path, dirs_exist_ok=True)
    expected = json.loads((tmp_path / "expected.json").read_text())
    samples, weights = train(attempt(tmp_path, monkeypatch), 20)
    assert samples == {int(step): indices for step, indices in expected["samples"].items()}
    assert weights == pytest.approx(expected["weights"], rel=1e-6)
    again = ray_resume.Checkpoints(attempt(tmp_path, monkeypatch))
    assert again.data_order(50, 8, 7) == DataOrder(50, 8, 7, SHUFFLED)


def test_new_run_takes_the_newest_order_and_keeps_it(
    run: ray_resume.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(run, EVERY)
    manifest = next((tmp_path / "job" / "checkpoints").glob("*/manifest.json"))
    assert json.loads(manifest.read_text())["data_order"] == FORMULA
    again = ray_resume.Checkpoints(attempt(tmp_path, monkeypatch))
    assert again.data_order(50, 8, 7) == DataOrder(50, 8, 7, FORMULA)


def test_order_without_a_version_is_not_taken_for_the_newest(
    run: ray_resume.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that made its own DataOrder so far may take the run's from now on."""
    ray_resume.Checkpoints(run).save(EVERY, lambda _: None, {})
    again = ray_resume.Checkpoints(attempt(tmp_path, monkeypatch))
    assert again.data_order(50, 8, 7) == DataOrder(50, 8, 7)


def test_numbers_of_tensors_and_numpy_are_metrics(run: ray_resume.Run, tmp_path: Path) -> None:
    metrics = {
        "loss": torch.tensor(0.5, requires_grad=True),
        "half": torch.tensor([0.25], dtype=torch.bfloat16),
        "score": np.float32(0.75),
        "seen": np.int64(3),
        "array": np.array([2.0]),
        "note": "text",
        "parts": {"a": [1, None, True]},
    }
    ray_resume.Checkpoints(run).save(EVERY, lambda _: None, metrics)
    manifest = json.loads(next((tmp_path / "job" / "checkpoints").glob("*/manifest.json")).read_text())
    assert manifest["metrics"] == {
        **{"loss": 0.5, "half": 0.25, "score": 0.75, "seen": 3, "array": 2.0},
        **{"note": "text", "parts": {"a": [1, None, True]}},
    }


@pytest.mark.parametrize("value", [torch.ones(2), np.ones(2), object()], ids=["tensor", "array", "object"])
def test_metric_that_is_no_number_is_named_before_anything_is_written(
    run: ray_resume.Run, tmp_path: Path, value: Any
) -> None:
    with pytest.raises(TypeError, match=r"metric 'loss' of .* is invalid. Allowed: values of JSON"):
        ray_resume.Checkpoints(run).save(EVERY, lambda _: None, {"loss": value})
    assert not (tmp_path / "job" / "checkpoints").exists()


def test_attempt_that_loads_nothing_is_warned_once(
    run: ray_resume.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray_resume.Checkpoints(run).save(EVERY, lambda _: None, {})
    again = ray_resume.Checkpoints(attempt(tmp_path, monkeypatch))
    for step in (EVERY, 2 * EVERY):
        again.save(step, lambda _: None, {})
    told = [line for line in capsys.readouterr().out.splitlines() if "warning" in line]
    assert told == [
        "run job attempt 0002.01: warning: nothing was loaded from 000000005@0001.01. "
        "Fix: call `restore` before the first step"
    ]


def test_attempt_that_finds_no_checkpoint_prints_it(
    run: ray_resume.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for one in (run, attempt(tmp_path, monkeypatch, attempt="2")):
        ray_resume.Checkpoints(one).restore(lambda _: None)
    assert capsys.readouterr().out.splitlines() == [
        "run job attempt 0001.01: starts at step 0",
        "run job attempt 0002.01: starts at step 0: there is no checkpoint",
    ]


def test_new_series_of_attempts_resumes_the_run_and_the_old_one_stays_stale(
    run: ray_resume.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A week later the supervisor's Lease is gone: a new supervisor counts from 1 again."""
    for given in ("1", "2", "3"):
        ray_resume.Checkpoints(attempt(tmp_path, monkeypatch, attempt=given, series="first"))
    ray_resume.Checkpoints(attempt(tmp_path, monkeypatch, attempt="3", series="first")).save(EVERY, lambda _: None, {})
    later = attempt(tmp_path, monkeypatch, attempt="1", series="later")
    assert later.attempt == 4
    checkpoints = ray_resume.Checkpoints(later)
    assert checkpoints.restore(lambda _: None) == EVERY
    assert attempt(tmp_path, monkeypatch, attempt="2", series="later").attempt == 5
    stale = attempt(tmp_path, monkeypatch, attempt="3", series="first")
    with pytest.raises(StaleAttemptError):
        ray_resume.Checkpoints(stale)


def test_series_that_continues_the_count_keeps_its_numbers(
    run: ray_resume.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `ops job submit --again`."""
    ray_resume.Checkpoints(attempt(tmp_path, monkeypatch, attempt="1", series="first"))
    assert attempt(tmp_path, monkeypatch, attempt="2", series="again").attempt == 2


def test_attempt_that_never_began_keeps_its_number(
    run: ray_resume.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may still begin on a node that only lost its network, and must then be older than its successor."""
    ray_resume.Checkpoints(attempt(tmp_path, monkeypatch, attempt="7", series="first"))
    never = attempt(tmp_path, monkeypatch, attempt="1", series="later")
    assert attempt(tmp_path, monkeypatch, attempt="2", series="later").attempt == never.attempt + 1
