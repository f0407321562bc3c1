"""What workers do with a run's checkpoints, in one process without Ray."""

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray.train
import torch
from ray.train import CheckpointConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn

import ray_resume
from ray_resume import torch_state, training
from ray_resume.checkpoint_store import StaleAttemptError
from ray_resume.data_order import FORMULA, SHUFFLED, DataOrder
from ray_resume.storage import RunStorage

EARLIER = Path(__file__).with_name("earlier") / "alone"
"""The run `job` of the first version of the library after 10 steps, and what it did in the steps after that."""
EVERY = 5


@pytest.fixture(autouse=True)
def alone(group_of_one: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process the only worker; all that it needs of Ray is its rank and a place for its reports."""
    monkeypatch.setattr(ray.train, "get_context", lambda: SimpleNamespace(get_world_rank=lambda: 0))
    monkeypatch.setattr(ray.train, "report", lambda _: None)
    # Before it handles SIGTERM, `fit` would connect this process to Ray.
    monkeypatch.setattr(ray, "init", lambda: None)


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
    # Newer dropout on CPUs draws other numbers from the same generator.
    if torch.__version__.startswith("2.6."):
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


def begun(
    storage: Path, name: str = "job", warm_from: str | None = None, **settings: int
) -> tuple[ray_resume.Run, RunStorage]:
    """Return the next attempt of a run whose steps may grow, and the run's folder."""
    run = ray_resume.Run.from_environment(name, str(storage), every=EVERY, warm_from=warm_from)
    return run, run.begin(settings, may_grow=("steps",))


def test_extended_run_ends_like_one_that_was_long_from_the_start(tmp_path: Path) -> None:
    run, folder = begun(tmp_path, steps=10)
    samples, _ = train(run, 10)
    run.finish(folder, {})
    run, folder = begun(tmp_path, steps=20)
    assert not run.is_done(folder)
    more, weights = train(run, 20)
    assert min(more) == 10
    undisturbed, _ = begun(tmp_path, "other", steps=20)
    assert train(undisturbed, 20) == ({**samples, **more}, weights)


@pytest.mark.parametrize("change", range(1, 7))
def test_extension_that_is_killed_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: int) -> None:
    """The number of a change of the folder before which the program is killed."""
    run, folder = begun(tmp_path, steps=10)
    folder.put("trainer.pkl", b"Ray's")
    folder.put("experiment_state-2026.json", b"Ray's")
    run.finish(folder, {})
    changes = count(1)
    with monkeypatch.context() as kill:
        for name in ("put", "delete"):
            kill.setattr(
                f"ray_resume.storage._Directory.{name}", killed_at(change, changes, getattr(type(folder), name))
            )
        with suppress(KeyboardInterrupt):
            begun(tmp_path, steps=20)
    assert next(changes) > change, "the program was killed"
    run, folder = begun(tmp_path, steps=20)
    assert not run.is_done(folder)
    assert json.loads((tmp_path / "job" / "run.json").read_text()) == {"steps": 20}
    assert len(json.loads((tmp_path / "job" / "earlier_ends.json").read_text())) == 1
    assert not [*(tmp_path / "job").glob("*.pkl"), *(tmp_path / "job").glob("experiment_state-*")]


CODE_OF_ANOTHER_PYTHON = b"cray.cloudpickle.cloudpickle\n_builtin_type\n(S'CodeType'\ntR(I1\ntR."
"""A pickle that makes code of fewer parts than it has here."""


def test_a_record_of_another_python_gives_way_to_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An upgrade of the image brings another Python, and Ray Train's record holds the code of the train function."""
    run, folder = begun(tmp_path, steps=10)
    folder.put("trainer.pkl", CODE_OF_ANOTHER_PYTHON)
    assert TorchTrainer.can_restore(str(tmp_path / "job"))
    fitted = []
    monkeypatch.setattr(TorchTrainer, "fit", lambda trainer: fitted.append(trainer.run_config.name))
    ours = RunConfig(name="job", storage_path=str(tmp_path))
    training._fit(run, lambda: None, ours, scaling_config=ScalingConfig(num_workers=1))
    assert fitted == ["job"]
    assert "a new one begins (TypeError" in capsys.readouterr().out


def killed_at(change: int, changes: Iterator[int], call: Any) -> Any:
    def killed(*arguments: Any) -> Any:
        if next(changes) == change:
            raise KeyboardInterrupt
        return call(*arguments)

    return killed


def test_only_numbers_that_may_grow_can_change(tmp_path: Path) -> None:
    run, _ = begun(tmp_path, steps=10, batch=8)
    for settings in ({"steps": 9, "batch": 8}, {"steps": 20, "batch": 9}, {"steps": "20", "batch": 8}, {"steps": 20}):
        with pytest.raises(ray_resume.InvalidInputError, match="the run began with other settings"):
            run.begin(settings, may_grow=("steps",))


def load_into(loaded: list[str]) -> Any:
    """Return a function that notes the checkpoint from which it loads."""
    return lambda directory: loaded.append(directory.name)


def test_run_starts_once_with_the_newest_weights_of_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(begun(tmp_path, "base", steps=10)[0], 10)
    loaded: list[str] = []
    nothing = load_into([])
    for warm_from in ("base", f"{tmp_path}/base/"):
        run, _ = begun(tmp_path, warm_from=warm_from, steps=5)
        assert ray_resume.Checkpoints(run).restore(nothing, load_into(loaded)) == 0
    assert loaded == ["000000010@0001.01"] * 2, "without a checkpoint of its own, the run starts again"
    assert f"starts at step 0 with the weights of {tmp_path}/base/checkpoints/" in capsys.readouterr().out
    recorded = json.loads((tmp_path / "job" / "run.json").read_text())
    assert recorded == {"steps": 5, "warm_from": {"run": f"{tmp_path}/base", "checkpoint": "000000010@0001.01"}}

    checkpoints = ray_resume.Checkpoints(run)
    checkpoints.save(EVERY, lambda _: None, {})
    shutil.rmtree(tmp_path / "base")
    run, _ = begun(tmp_path, warm_from="base", steps=20)
    resumed: list[str] = []
    assert ray_resume.Checkpoints(run).restore(load_into(resumed), load_into(loaded)) == EVERY
    assert (resumed, len(loaded)) == (["000000005@0002.02"], 2)
    assert json.loads((tmp_path / "job" / "run.json").read_text())["warm_from"] == recorded["warm_from"]


def test_start_is_warm_from_the_newest_weights_if_the_recorded_ones_are_gone(tmp_path: Path) -> None:
    train(begun(tmp_path, "base", steps=5)[0], 5)
    begun(tmp_path, warm_from="base", steps=5)
    train(begun(tmp_path, "base", steps=20)[0], 20)
    # The start after that keeps what it resumed from, and no longer step 5, from which the one before did.
    train(begun(tmp_path, "base", steps=40)[0], 40)
    loaded: list[str] = []
    run, _ = begun(tmp_path, warm_from="base", steps=5)
    ray_resume.Checkpoints(run).restore(load_into([]), load_into(loaded))
    assert loaded == ["000000040@0003.01"]


def test_warm_start_that_cannot_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(ray_resume.InvalidInputError, match="base has no checkpoint to start from"):
        begun(tmp_path, warm_from="base", steps=5)
    train(begun(tmp_path, "base", steps=5)[0], 5)
    run, _ = begun(tmp_path, warm_from="base", steps=5)
    with pytest.raises(TypeError, match=r"nothing loads them. Fix: restore\(…, weights=…\)"):
        ray_resume.Checkpoints(run).restore(lambda _: None)
    for other in (None, "other"):
        with pytest.raises(ray_resume.InvalidInputError, match=r"warm_from .* then, "):
            begun(tmp_path, warm_from=other, steps=5)


def test_run_is_done_only_after_its_last_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray_resume.training._fit", lambda run, *_, **__: train(run, EVERY))
    called: list[Any] = []

    def fail_once(outcome: Any) -> None:
        called.append((outcome["checkpoint"], outcome["metrics"].keys(), (tmp_path / "job" / "DONE.json").exists()))
        if len(called) == 1:
            raise ConnectionError("the model registry does not answer")

    with pytest.raises(ray_resume.RunFailedError, match="all steps are trained, but on_done failed: ConnectionError"):
        ray_resume.fit(
            begun(tmp_path, steps=5)[0], lambda _: None, {"steps": 5}, ray_resume.workers(1), on_done=fail_once
        )
    for _ in range(2):
        ray_resume.fit(
            begun(tmp_path, steps=5)[0], lambda _: None, {"steps": 5}, ray_resume.workers(1), on_done=fail_once
        )
    assert called == [("000000005@0001.01", {"loss": 0}.keys(), False)] * 2, "a run that is done calls nothing"


def test_failing_workers_are_restarted_three_times_unless_the_script_asks_for_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray Train would restart them without end, also after a bug."""
    limits = []
    monkeypatch.setattr(
        "ray_resume.training._fit", lambda _, __, config, **___: limits.append(config.failure_config.max_failures)
    )
    ray_resume.fit(begun(tmp_path, "one")[0], lambda _: None, {}, ray_resume.workers(1))
    ray_resume.fit(begun(tmp_path, "other")[0], lambda _: None, {}, ray_resume.workers(1), worker_failures=7)
    assert limits == [3, 7]
