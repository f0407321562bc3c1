"""Trainings without Ray Train: who a worker belongs to, how attempts are counted, and how a process ends."""

from pathlib import Path

import pytest
import ray.train  # noqa: F401 - Ray Train must be importable, and not chosen, in a worker of torchrun

import ray_resume
from ray_resume import Run
from ray_resume.checkpoint_store import CheckpointStore
from ray_resume.integrations import torchrun
from ray_resume.launchers import launcher
from ray_resume.runs import InvalidInputError
from ray_resume.storage import open_storage


@pytest.fixture
def under_torchrun(monkeypatch: pytest.MonkeyPatch, group_of_one: None) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")


def test_worker_of_torchrun_reports_to_nobody_although_ray_is_installed(under_torchrun: None) -> None:
    found = launcher.current("job")
    assert isinstance(found, launcher.Torchrun)
    assert (found.rank, found.exports) == (0, False)


def test_several_workers_without_a_process_group_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match=r"WORLD_SIZE=2 without a process group is invalid: .* Fix: "):
        launcher.Torchrun()


def test_starts_of_a_slurm_job_are_attempts_and_a_new_job_continues_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempt(job: str, restarts: str | None) -> int:
        monkeypatch.setenv("SLURM_JOB_ID", job)
        if restarts is None:
            monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
        else:
            monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
        run = Run.from_environment("job", str(tmp_path), every=1)
        CheckpointStore(open_storage(str(tmp_path), "job")).begin(run.attempt)
        return run.attempt

    assert [attempt("7", None), attempt("7", "1"), attempt("7", "3")] == [1, 2, 4]
    assert [attempt("8", None), attempt("8", "1")] == [5, 6]
    assert attempt("8", "1") == 6, "a step that is run again belongs to the same start"


def test_run_ends_once_and_trains_on_when_it_may_grow(tmp_path: Path, under_torchrun: None) -> None:
    trained: list[int] = []

    def train(config: dict[str, object]) -> None:
        checkpoints = ray_resume.Checkpoints(config["run"])  # type: ignore[arg-type]
        done = checkpoints.restore(lambda _: None)
        trained.append(done)
        steps = int(str(config["steps"]))
        for step in range(done, steps):
            if checkpoints.due(step + 1, last=step + 1 == steps):
                checkpoints.save(step + 1, lambda _: None, {"loss": 1.0})

    for steps in (2, 2, 3):
        run = Run.from_environment("job", str(tmp_path), every=5)
        torchrun.fit(run, train, {"steps": steps}, may_grow=["steps"])
    assert trained == [0, 2]
    assert "000000003@0002.01" in (tmp_path / "job" / "DONE.json").read_text()
    with pytest.raises(InvalidInputError, match="began with other settings"):
        torchrun.fit(run, train, {"steps": 1}, may_grow=["steps"])


@pytest.mark.parametrize(
    ("error", "code"),
    [(None, 0), (InvalidInputError("x"), 2), (ray_resume.RunFailedError("x"), 1), (ValueError("a bug"), 1)],
)
def test_exit_code_says_how_a_training_ended(
    error: Exception | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(*_: object, **__: object) -> None:
        if error:
            raise error

    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(torchrun, "fit", fit)
    monkeypatch.setattr("os._exit", end)
    with pytest.raises(SystemExit) as ended:
        torchrun.main(Run.from_environment("job", str(tmp_path), every=5), lambda _: None, {})
    assert ended.value.code == code
