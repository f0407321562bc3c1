"""The output of a job in its run's storage: all of it however the job ends, in parts of a bounded number."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ray_resume.output import kept
from ray_resume.output.kept import OutputJob, OutputWriter, jobs, lines, pieces
from ray_resume.storage import RunStorage, open_storage
from tests.jobs.support.paths import MODULES
from tests.support.kept_lines import LINES, PIECES
from tests.support.waiting import PATIENCE_SECONDS, wait_until

CONFIG = json.dumps({"metadata": {"job_submission_id": "train-1"}})
# Keeps its output twice, as a script and `main` may, prints, and ends as told.
PROGRAM = """
import os, signal, sys, ray_resume
assert "torch" not in sys.modules and "ray" not in sys.modules
print("keeps", ray_resume.keep_output(), ray_resume.keep_output(), flush=True)
for number in range(2000):
    print(f"line {number} \\u00fc", flush=number % 100 == 0)
sys.stdout.flush()
os.write(2, b"no UTF-8: \\xff\\r\\n")
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "fail":
    raise ValueError("a bug")
"""


@pytest.fixture
def storage(tmp_path: Path) -> RunStorage:
    return open_storage(str(tmp_path / "runs"), "train")


def start(tmp_path: Path, end: str, **variables: str) -> tuple[Path, "subprocess.Popen[bytes]"]:
    """Start a job as Ray does: a shell in a session of its own, whose output is a file with lines already."""
    output = tmp_path / "job-driver-train-1.log"
    output.write_text("Runtime env is setting up.\n")
    environment = {
        **os.environ,
        "PYTHONPATH": MODULES,
        "RAY_JOB_CONFIG_JSON_ENV_VAR": CONFIG,
        "RUN_NAME": "train",
        "RUN_STORAGE": str(tmp_path / "runs"),
        "RUN_SERIES": "u-1",
        **variables,
    }
    (tmp_path / "job.py").write_text(PROGRAM)
    command = f"{sys.executable} {tmp_path / 'job.py'} {end}; code=$?; echo the shell prints, too; exit $code"
    with output.open("ab") as file:
        job = subprocess.Popen(
            ["/bin/sh", "-c", command], env=environment, stdout=file, stderr=file, cwd="/", start_new_session=True
        )
    return output, job


def wait_for_all_of(storage: RunStorage) -> OutputJob:
    wait_until(lambda: any(job.size is not None for job in jobs(storage)), "the end of the output")
    [job] = jobs(storage)
    return job


@pytest.mark.parametrize(("end", "code"), [("end", 0), ("fail", 1), ("kill", 128 + signal.SIGKILL)])
def test_output_is_kept_to_the_byte_however_the_job_ends(
    storage: RunStorage, tmp_path: Path, end: str, code: int
) -> None:
    output, job = start(tmp_path, end)
    assert job.wait(PATIENCE_SECONDS) == code
    found = wait_for_all_of(storage)
    assert (found.job, found.series, found.size) == ("train-1", "u-1", output.stat().st_size)
    assert list(pieces(storage, found)) == [(0, output.read_bytes())]
    text = output.read_bytes().decode(errors="replace")
    assert text.startswith("Runtime env is setting up.\nkeeps True False\nline 0 ü\n")
    assert text.endswith("the shell prints, too\n")


def test_storage_that_fails_delays_no_job_and_gets_all_output_later(storage: RunStorage, tmp_path: Path) -> None:
    blocked = tmp_path / "runs"
    blocked.touch()
    output, job = start(tmp_path, "end")
    assert job.wait(PATIENCE_SECONDS) == 0
    wait_until(lambda: b"warning: output is not kept: " in output.read_bytes(), "the warning")
    blocked.unlink()
    found = wait_for_all_of(storage)
    assert list(pieces(storage, found)) == [(0, output.read_bytes())]


@pytest.mark.parametrize("lacks", ["RAY_JOB_CONFIG_JSON_ENV_VAR", "RUN_NAME", "RUN_STORAGE"])
def test_only_a_job_of_ray_with_a_run_is_kept(tmp_path: Path, lacks: str) -> None:
    output, job = start(tmp_path, "end", **{lacks: ""})
    assert job.wait(PATIENCE_SECONDS) == 0
    assert b"keeps False False" in output.read_bytes()
    assert not (tmp_path / "runs").exists()


class Growing(io.FileIO):
    """A file that a job appends to, and its reader."""

    def __init__(self, path: Path) -> None:
        path.touch()
        super().__init__(path)
        self._path = path

    def grow(self, content: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(content)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PART_BYTES": 10, "PARTS": 3, "JOBS": 2, "_PIECE_BYTES": 4}.items():
        monkeypatch.setattr(kept, name, value)


def test_parts_are_as_large_as_they_may_be_and_the_first_and_the_newest_stay(
    small: None, storage: RunStorage, tmp_path: Path
) -> None:
    writer, output = OutputWriter(storage, "train-1", ""), Growing(tmp_path / "output")
    whole = bytes(range(ord("a"), ord("z") + 1)) * 2
    for begin in range(0, len(whole), 3):
        output.grow(whole[begin : begin + 3])
        assert writer.take(output)
        [job] = jobs(storage)
        assert len(list(pieces(storage, job))) <= 3
    assert not writer.take(output)
    writer.finish()
    [job] = jobs(storage)
    assert job.size == 52
    assert list(pieces(storage, job)) == [(0, whole[:10]), (40, whole[40:50]), (50, whole[50:])]


def test_newest_jobs_stay(small: None, storage: RunStorage, tmp_path: Path) -> None:
    for number in range(4):
        output = Growing(tmp_path / f"output-{number}")
        OutputWriter(storage, f"train-{number}", "").take(output)
    assert [job.job for job in jobs(storage)] == ["train-2", "train-3"]


def test_write_that_fails_is_repeated(
    small: None, storage: RunStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever write fails, and as often as it does."""
    put, failures = storage.put, iter([True, True, False] * 100)

    def sometimes(name: str, content: bytes) -> None:
        if next(failures):
            raise OSError("Stale file handle")
        put(name, content)

    monkeypatch.setattr(storage, "put", sometimes)
    writer, output = OutputWriter(storage, "train-1", ""), Growing(tmp_path / "output")
    output.grow(b"0123456789abc")

    def done() -> bool:
        try:
            writer.take(output)
            writer.finish()
        except OSError:
            return False
        return True

    wait_until(done, "all writes")
    [job] = jobs(storage)
    assert list(pieces(storage, job)) == [(0, b"0123456789"), (10, b"abc")]
    assert job.size == 13


def test_lines_are_those_that_ops_reads(storage: RunStorage, tmp_path: Path) -> None:
    for line in LINES[:-1]:
        if line.startswith("{"):
            about = json.loads(line)
            storage.put(f"{about['folder']}/about.json", line.encode())
            for position, content in PIECES[about["job"]].items():
                storage.put(f"{about['folder']}/{position:012}", content)
    assert list(lines(storage, None)) == LINES
    assert list(lines(storage, "train-1")) == [*LINES[:2], LINES[-1]]
    words = [sys.executable, "-m", "ray_resume", "output", str(tmp_path / "runs" / "train")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": MODULES})
    assert done.stdout.splitlines() == LINES


def test_time_of_a_job_orders_the_jobs(storage: RunStorage, tmp_path: Path) -> None:
    for name in ("b-1", "a-1"):
        OutputWriter(storage, name, "").take(Growing(tmp_path / name))
        time.sleep(0.001)
    assert [job.job for job in jobs(storage)] == ["b-1", "a-1"]
