"""A wrong call of a job ends with one message, before the job calls Ray."""

import argparse
import errno
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
import ray.data
from ray.train import ScalingConfig

import ray_resume
from controllers.job_decision import Cause, Ending, Limits, decide
from ray_resume.watchdog import SIGN
from tests.jobs.support.paths import RAY_JOBS
from tests.support.waiting import PATIENCE_SECONDS

BAD_STORAGE = {
    "a file": ("/etc/passwd", "storage path '/etc/passwd' cannot be read: [Errno 20] Not a directory"),
    "a path that cannot be made": (
        "/proc/runs",
        "storage path '/proc/runs' cannot be written: [Errno 2] No such file or directory",
    ),
    "a file system that is not mounted": (
        "/no-such-mount/ray/runs",
        "storage path '/no-such-mount/ray/runs' is invalid: there is no /no-such-mount here",
    ),
    "a relative path": ("runs", "storage path 'runs' is invalid. Allowed: an absolute path that every node sees"),
    "another scheme": ("gs://bucket/runs", "an absolute path that every node sees"),
    "nothing": (None, "no storage path is given. Allowed: a path that every node sees, or s3://bucket/prefix"),
}
# Errors of a Lustre client that its server has evicted, and of pyarrow when the network is down.
PASSING = {
    "EIO": OSError(errno.EIO, os.strerror(errno.EIO)),
    "ENOTCONN": OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN)),
    "ESHUTDOWN": OSError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN)),
    "network": OSError("AWS Error NETWORK_CONNECTION during HeadObject operation: Could not connect to server"),
}
LASTING = {
    **{
        errno.errorcode[number]: OSError(number, os.strerror(number))
        for number in (errno.EACCES, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS)
    },
    "no right in S3": OSError("AWS Error ACCESS_DENIED during HeadBucket operation: No response body."),
    "no bucket": OSError("AWS Error NO_SUCH_BUCKET during PutObject operation: The specified bucket does not exist"),
}
# The operations with which an attempt first uses its storage, in this order.
FIRST_USES = ("names", "put", "read")
BAD_VARIABLES = {
    "name with a slash": ({"RUN_NAME": "a/b"}, "run name 'a/b' is invalid. Allowed: at most 63"),
    "name that climbs": ({"RUN_NAME": ".."}, "run name '..'"),
    "name that is too long": ({"RUN_NAME": "a" * 64}, "at most 63"),
    "attempt that is no number": ({"RUN_ATTEMPT": "two"}, "RUN_ATTEMPT 'two' is invalid. Allowed: whole numbers"),
    "attempt zero": ({"RUN_ATTEMPT": "0"}, "RUN_ATTEMPT '0' is invalid. Allowed: whole numbers from 1"),
}
BAD_ARGUMENTS = {
    "workers": (["--workers", "0"], "'0' is invalid. Allowed: whole numbers from 1"),
    "missing data": (["--data", "/nowhere.tsv"], "data file /nowhere.tsv: No such file or directory"),
    "data of another form": (["--data", "{tmp}/other.tsv"], "line 2 is invalid. Allowed: label (0, 1, …), tab, text"),
    "missing model": (
        ["--data", "{tmp}/good.tsv", "--model", "/nowhere"],
        "model folder /nowhere: there is no config.json",
    ),
    "model without data": (["--model", "/nowhere"], "--model needs --data"),
    "no storage": ([], "Fix: set --storage or RUN_STORAGE"),
}


@pytest.fixture(autouse=True)
def no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RUN_NAME", "RUN_ATTEMPT", "RUN_STORAGE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("storage", "message"), BAD_STORAGE.values(), ids=BAD_STORAGE)
def test_storage_that_cannot_be_used_is_named(storage: str | None, message: str) -> None:
    with pytest.raises(ray_resume.InvalidInputError) as refused:
        ray_resume.Run.from_environment("job", storage, every=5).begin({})
    assert message in str(refused.value)


def fails(monkeypatch: pytest.MonkeyPatch, use: str, error: OSError) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(f"ray_resume.storage._Directory.{use}", fail)


def started(storage: Path) -> int:
    """Return the result of a job that only starts."""
    import arguments

    parser = argparse.ArgumentParser("job.py")
    options = argparse.Namespace(name=None, storage=str(storage), every=5, keep=2, keep_best=False, warm_from=None)
    with pytest.raises(SystemExit) as ended:
        ray_resume.main(arguments.run_of(parser, options, "job"), lambda _: None, {}, ray_resume.workers(1))
    return int(ended.value.code or 0)


@pytest.mark.parametrize("use", FIRST_USES)
@pytest.mark.parametrize("error", PASSING.values(), ids=PASSING)
def test_storage_with_a_transient_error_is_worth_another_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError, use: str
) -> None:
    fails(monkeypatch, use, error)
    code, told = started(tmp_path), capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert f"storage path '{tmp_path}' cannot be" in told[0]
    verdict = decide(Ending("FAILED", code, output=told), attempts=1, stalled=0, seconds=0, limits=Limits(100, 5, 0))
    assert (code, verdict.cause, verdict.again) == (1, Cause.INFRASTRUCTURE, True)


def test_data_with_a_transient_read_error_is_worth_another_attempt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import fsdp_finetune

    def fail(*_: object, **__: object) -> None:
        raise PASSING["ESHUTDOWN"]

    monkeypatch.setattr(Path, "read_text", fail)
    monkeypatch.setattr(sys, "argv", ["fsdp_finetune.py", "--storage", "/runs", "--data", "/fsx/ray/data/cola.tsv"])
    with pytest.raises(SystemExit) as ended:
        fsdp_finetune.main()
    assert ended.value.code == 1
    [told] = capsys.readouterr().err.strip().splitlines()
    assert told.startswith(
        "fsdp_finetune.py: storage path '/fsx/ray/data/cola.tsv' cannot be read: [Errno 108] Cannot send"
    )
    assert SIGN in told


@pytest.mark.parametrize("use", FIRST_USES)
@pytest.mark.parametrize("error", LASTING.values(), ids=LASTING)
def test_storage_with_a_permanent_error_is_not_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError, use: str
) -> None:
    fails(monkeypatch, use, error)
    assert started(tmp_path) == 2
    assert f"storage path '{tmp_path}' cannot be" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(("variables", "message"), BAD_VARIABLES.values(), ids=BAD_VARIABLES)
def test_impossible_variable_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ray_resume.InvalidInputError) as refused:
        ray_resume.Run.from_environment("job", str(tmp_path), every=5)
    assert message in str(refused.value)


def test_run_name_in_use_is_refused(tmp_path: Path) -> None:
    run = ray_resume.Run.from_environment("job", str(tmp_path), every=5)
    run.begin({"steps": 7})
    with pytest.raises(ray_resume.InvalidInputError, match="steps 7 then, 60 now"):
        run.begin({"steps": 60})


def test_variables_override_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUN_NAME", "supervised")
    monkeypatch.setenv("RUN_ATTEMPT", "3")
    monkeypatch.setenv("RUN_STORAGE", str(tmp_path))
    run = ray_resume.Run.from_environment("job", "/elsewhere", every=5)
    assert (run.name, run.attempt, run.storage) == ("supervised", 3, str(tmp_path))


def test_attempt_without_a_number_is_the_next(tmp_path: Path) -> None:
    run = ray_resume.Run.from_environment("job", str(tmp_path), every=5)
    assert run.attempt == 1
    storage = run.begin({})
    storage.put("attempts/0004.02.json", json.dumps({"resumed_from": None}).encode())
    assert ray_resume.Run.from_environment("job", str(tmp_path), every=5).attempt == 5


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_bad_argument_of_an_example_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    import fsdp_finetune

    (tmp_path / "good.tsv").write_text("1\tgood\n0\tbad\n")
    (tmp_path / "other.tsv").write_text("1\tgood\nbad\n")
    monkeypatch.setattr(sys, "argv", ["fsdp_finetune.py", *(one.format(tmp=tmp_path) for one in arguments)])
    with pytest.raises(SystemExit) as ended:
        fsdp_finetune.main()
    assert ended.value.code == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert message in told[-1]
    assert len([line for line in told if "error:" in line]) == 1


@pytest.mark.parametrize("job", ["pytorch_ddp", "fsdp_finetune"])
def test_elastic_job_refuses_a_full_number_of_workers_that_does_not_divide_the_batch(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--workers=5", "--min-workers=2", "--batch=32", f"--storage={tmp_path}")
    monkeypatch.setattr(sys, "argv", [f"{job}.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(job).main()
    assert ended.value.code == 2
    assert "5 workers of an elastic run are invalid" in capsys.readouterr().err.splitlines()[-1]


def test_a_job_that_cannot_work_ends_with_2(tmp_path: Path) -> None:
    argv = [sys.executable, str(RAY_JOBS / "pytorch_ddp.py"), "--storage", "/etc/passwd"]
    env = {**os.environ, "RAY_ADDRESS": "127.0.0.1:1"}
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == (
        "pytorch_ddp.py: error: storage path '/etc/passwd' cannot be read: [Errno 20] Not a directory: "
        "/etc/passwd/pytorch-ddp/attempts. Fix: mend the path, its rights or its space; or set RUN_STORAGE"
    )


def test_workers_get_the_cpus_and_the_gpu_that_they_ask_for() -> None:
    scaling = ray_resume.workers(3, cpus=4, gpu=True)
    assert (scaling.num_workers, scaling.use_gpu, scaling.resources_per_worker) == (3, True, {"CPU": 4, "GPU": 1})
    assert scaling.total_resources == {"CPU": 12, "GPU": 3}, "the coordinator needs no CPU"
    scaling = ray_resume.workers(3)
    assert (scaling.use_gpu, scaling.total_resources) == (False, {"CPU": 3})


@pytest.mark.parametrize("gpus", [True, False], ids=["gpus", "no gpus"])
@pytest.mark.parametrize("job", ["pytorch_ddp", "fsdp_finetune", "llm_finetune", "sweep"])
def test_training_example_asks_for_the_gpus_of_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, gpus: bool
) -> None:
    asked: list[ScalingConfig] = []

    def end(*arguments: object, **_: object) -> NoReturn:
        asked.extend(one for one in arguments if isinstance(one, ScalingConfig))
        sys.exit(0)

    monkeypatch.setattr(ray_resume, "main", end)
    monkeypatch.setattr("sweep.Sweep.fit", end)
    monkeypatch.setattr("llm_finetune.check", lambda *_: None)
    argv = [f"{job}.py", f"--storage={tmp_path}", "--workers=4", *(["--gpus"] if gpus else [])]
    argv += ["--model=model", "--data=data"] if job == "llm_finetune" else []
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit):
        importlib.import_module(job).main()
    assert [(scaling.num_workers, scaling.use_gpu) for scaling in asked] == [(4, gpus)]


@pytest.mark.parametrize("gpus", [True, False], ids=["gpus", "no gpus"])
def test_batch_inference_asks_for_the_gpus_of_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: bool
) -> None:
    asked: dict[str, Any] = {}

    class Rows:
        def map_batches(self, *_: object, **words: object) -> "Rows":
            asked.update(words)
            return self

        def write_parquet(self, _: str) -> None: ...

    monkeypatch.setattr(ray.data, "range", lambda _: Rows())
    argv = ["batch_inference.py", f"--storage={tmp_path}", "--workers=4", "--parts=1", *(["--gpus"] if gpus else [])]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit):
        importlib.import_module("batch_inference").main()
    assert (asked["concurrency"], asked["num_gpus"]) == (4, int(gpus))
    assert asked["fn_constructor_args"][-1] is gpus
