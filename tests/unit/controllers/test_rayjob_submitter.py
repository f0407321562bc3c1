"""The submitter of a RayJob against a fake of Ray's Jobs API: one job, whatever happens to head and submitter."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controllers import rayjob_submitter
from controllers.ray_jobs_api import PORT, RayJobs, submission
from controllers.rayjob_submitter import REFUSED, TERMINATED, Submitter
from tests.support.fake_ray import FakeRay
from tests.support.waiting import PATIENCE_SECONDS, wait_until

ID = "train-x2k9p"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the submitter look twenty times as often as in a cluster."""
    monkeypatch.setattr(rayjob_submitter, "_POLL_SECONDS", 0.1)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    made = tmp_path / "_ray_pkg_0123456789abcdef.zip"
    made.write_bytes(b"a zip file")
    return made


class Running:
    """A submitter in a thread, and the code that it ends with."""

    def __init__(self, ray: FakeRay, package: Path | None = None) -> None:
        env = {"RUN_NAME": "train", "RUN_STORAGE": "/fsx/runs"}
        name = package.name if package else None
        request = submission(ID, "python train.py", env=env, metadata={}, package=name)
        self.submitter = Submitter(RayJobs(ray.host), request, package)
        self.code: int | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.code = self.submitter.run()

    def wait(self) -> int | None:
        self._thread.join(PATIENCE_SECONDS)
        return self.code


@contextmanager
def running(ray: FakeRay, package: Path | None = None) -> Iterator[Running]:
    made = Running(ray, package)
    try:
        yield made
    finally:
        made.submitter.ending.set()
        made.wait()


def submitted(ray: FakeRay, times: int = 1) -> None:
    wait_until(lambda: ray.submissions == [ID] * times, "the submission")


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED", "STOPPED"])
def test_it_shows_the_output_and_ends_with_0_however_the_job_ended(
    ray: FakeRay, package: Path, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    """KubeRay reads the job's state from Ray; another code would make it start the job again beside itself."""
    with running(ray, package) as run:
        submitted(ray)
        assert ray.packages == {package.name: b"a zip file"}
        job = ray.jobs[ID]
        assert job.request["runtime_env"]["env_vars"] == {
            "RUN_NAME": "train",
            "RUN_STORAGE": "/fsx/runs",
            "RAY_CHDIR_TO_TRIAL_DIR": "0",
        }
        job.output = "epoch 1\nepoch 2\n"
        job.end(status, 0 if status == "SUCCEEDED" else 3)
        assert run.wait() == 0
    assert "epoch 1\nepoch 2\n" in capsys.readouterr().out
    assert ray.stops == []


def test_what_a_job_prints_in_its_last_second_is_shown(ray: FakeRay, capsys: pytest.CaptureFixture[str]) -> None:
    with running(ray) as run:
        submitted(ray)
        job = ray.jobs[ID]
        job.output = "epoch 1\n"
        wait_until(lambda: "epoch 1" in capsys.readouterr().out, "the output")
        job.output += "got 14\n"
        job.end("SUCCEEDED", 0)
        assert run.wait() == 0
    assert "got 14\n" in capsys.readouterr().out


def test_job_is_submitted_again_to_a_new_head(ray: FakeRay, package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(ray, package) as run:
        submitted(ray)
        ray.jobs[ID].output = "epoch 1\n"
        wait_until(lambda: "epoch 1" in capsys.readouterr().out, "the output")
        ray.away = True
        wait_until(lambda: "waiting for the head" in capsys.readouterr().out, "the loss")
        ray.lose()
        ray.away = False
        submitted(ray, times=2)
        assert ray.packages, "a new head has lost its packages, too"
        ray.jobs[ID].output = "resumes from step 1\n"
        ray.jobs[ID].end("SUCCEEDED", 0)
        assert run.wait() == 0
    assert "resumes from step 1\n" in capsys.readouterr().out


def test_second_submitter_attaches_and_submits_nothing(ray: FakeRay, capsys: pytest.CaptureFixture[str]) -> None:
    with running(ray):
        submitted(ray)
    ray.jobs[ID].output = "epoch 1\n"
    with running(ray) as second:
        wait_until(lambda: "epoch 1" in capsys.readouterr().out, "the output")
        ray.jobs[ID].end("FAILED", 3)
        assert second.wait() == 0
    assert ray.submissions == [ID]


def test_head_without_an_agent_is_waited_for_and_a_refusal_is_not(ray: FakeRay) -> None:
    ray.refuse = 500, "No available agent to submit job"
    with running(ray) as run:
        wait_until(lambda: ray.refusals > 3, "several refusals")
        assert run.submitter.waits_for == "waiting for Ray"
        ray.refuse = None
        submitted(ray)
        ray.lose()
        ray.refuse = 400, "ValueError: bad entry point"
        assert run.wait() == REFUSED


def test_program_takes_the_job_from_kuberays_variables_and_ends_at_sigterm(ray: FakeRay) -> None:
    words = ["--run=train", "--entrypoint=python train.py", "--storage=/fsx/runs", "--listen=127.0.0.1:0"]
    words += ["--variable=TEXT=a = b", "--pip=einops==0.8.1 --hash=sha256:0"]
    env = {**os.environ, "RAY_DASHBOARD_ADDRESS": f"{ray.host}:{PORT}", "RAY_JOB_SUBMISSION_ID": ID}
    argv = [sys.executable, "-m", "controllers.rayjob_submitter", *words]
    with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL) as program:
        try:
            submitted(ray)
            request = ray.jobs[ID].request
            assert request["entrypoint"] == "python train.py"
            assert request["runtime_env"]["env_vars"]["TEXT"] == "a = b"
            assert request["runtime_env"]["pip"] == {"packages": ["einops==0.8.1 --hash=sha256:0"]}
            program.send_signal(signal.SIGTERM)
            assert program.wait(PATIENCE_SECONDS) == TERMINATED
        finally:
            program.kill()
