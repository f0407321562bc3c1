"""A large working directory on its way to a job: fetched once, checked, unpacked, and each failure one message.

The whole way, on real Ray, is in test_supervisor.py.
"""

import fcntl
import hashlib
import io
import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.fs
import pytest

from tests.jobs.support.embedded_s3 import VARIABLES, serving, store
from tests.jobs.support.paths import REPOSITORY
from working_dir import fetch_working_dir
from working_dir.fetch_working_dir import DigestError, fetched, unpacked, with_working_dir

KEY = "bucket/ray/packages/x.zip"


def zipped(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.py", content)
    return buffer.getvalue()


CONTENT = zipped(train="print('trains')", helper="")
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("s3")) as address:
        yield address


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> pyarrow.fs.S3FileSystem:
    for name, value in {**VARIABLES, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    made = store(endpoint)
    made.create_dir("bucket")
    put(made, CONTENT)
    return made


def put(bucket: pyarrow.fs.S3FileSystem, content: bytes) -> None:
    with bucket.open_output_stream(KEY) as stream:
        stream.write(content)


def start(directory: Path, *command: str, digest: str = DIGEST, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the program as a job's entry point; the zip file's folder is `shared`."""
    words = [fetch_working_dir.__file__, f"s3://{KEY}", digest, str(directory / "shared"), *command]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "packages" / "ray-resume"), **variables}
    (directory / "work").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, *words], cwd=directory / "work", env=environment, capture_output=True, text=True, check=False
    )


def test_command_runs_in_the_folder_with_its_own_exit_code(bucket: pyarrow.fs.S3FileSystem, tmp_path: Path) -> None:
    shown = "print(sorted({*os.listdir()} - {'__pycache__'})); print(os.environ['PYTHONPATH'].split(':')[0])"
    code = f"import helper, os, sys; {shown}; sys.exit(7)"
    done = start(tmp_path, sys.executable, "-c", code)
    assert done.returncode == 7, done.stderr
    work = tmp_path / "work" / "working-dirs" / DIGEST
    assert done.stdout.splitlines()[:2] == ["['helper.py', 'train.py']", str(work)]


def test_object_is_fetched_once(bucket: pyarrow.fs.S3FileSystem, tmp_path: Path) -> None:
    first = fetched(f"s3://{KEY}", DIGEST, tmp_path)
    bucket.delete_file(KEY)
    os.utime(first, (0, 0))
    assert fetched(f"s3://{KEY}", DIGEST, tmp_path) == first
    assert time.time() - first.stat().st_mtime < 1000, "what a run starts with is not unused"


def test_damaged_copy_is_fetched_again(bucket: pyarrow.fs.S3FileSystem, tmp_path: Path) -> None:
    fetched(f"s3://{KEY}", DIGEST, tmp_path).write_bytes(b"torn")
    assert fetched(f"s3://{KEY}", DIGEST, tmp_path).read_bytes() == CONTENT


def test_another_object_under_the_key_is_not_unpacked(bucket: pyarrow.fs.S3FileSystem, tmp_path: Path) -> None:
    put(bucket, zipped(train="evil"))
    with pytest.raises(DigestError):
        fetched(f"s3://{KEY}", DIGEST, tmp_path)
    done = start(tmp_path, "true")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert f"s3://{KEY} is invalid: its SHA-256 is" in line
    assert "Fix: delete the object, then submit the job again" in line
    assert list((tmp_path / "shared").iterdir()) == list((tmp_path / "work").iterdir()) == []


def test_object_that_the_bucket_has_deleted_is_named(bucket: pyarrow.fs.S3FileSystem, tmp_path: Path) -> None:
    bucket.delete_file(KEY)
    done = start(tmp_path, "true")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert f"s3://{KEY} cannot be fetched" in line
    assert "Fix: submit the job again" in line


def test_denied_access_ends_the_run_and_an_unreachable_bucket_does_not(
    bucket: pyarrow.fs.S3FileSystem, tmp_path: Path
) -> None:
    with denying() as address:
        denied = start(tmp_path, "true", AWS_ENDPOINT_URL=address)
    assert denied.returncode == 2, denied.stderr
    assert "ACCESS_DENIED" in denied.stderr
    assert "Traceback" not in denied.stderr
    unreachable = start(tmp_path, "true", AWS_ENDPOINT_URL=address)
    assert unreachable.returncode == 1, unreachable.stderr
    assert "infrastructure failure: " in unreachable.stderr
    assert "Traceback" not in unreachable.stderr


def test_full_file_system_and_unknown_command_are_one_message(bucket: pyarrow.fs.S3FileSystem, tmp_path: Path) -> None:
    (tmp_path / "shared").write_text("is a file")
    assert "cannot be fetched to" in (done := start(tmp_path, "true")).stderr
    assert done.returncode in (1, 2)
    (tmp_path / "shared").unlink()
    unknown = start(tmp_path, "no-such-command")
    assert (unknown.returncode, len(unknown.stderr.splitlines())) == (127, 1)
    assert "no-such-command cannot be started" in unknown.stderr


def test_unused_zip_files_are_deleted(bucket: pyarrow.fs.S3FileSystem, tmp_path: Path) -> None:
    for name, days in (("old.zip", 31), (".old.node-1", 31), ("used.zip", 29)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (time.time() - days * 86400,) * 2)
    fetched(f"s3://{KEY}", DIGEST, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"used.zip", f"{DIGEST}.zip"}


def test_folder_goes_once_no_process_works_in_it(tmp_path: Path) -> None:
    package = tmp_path / f"{DIGEST}.zip"
    package.write_bytes(CONTENT)
    other = tmp_path / "other.zip"
    other.write_bytes(zipped(other=""))
    used = unpacked(package, tmp_path / "dirs")
    assert unpacked(other, tmp_path / "dirs").exists()
    assert used.exists(), "this process holds both"
    (tmp_path / "dirs" / "gone").mkdir()
    with (tmp_path / "dirs" / "gone.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        unpacked(package, tmp_path / "dirs")
        assert (tmp_path / "dirs" / "gone").exists()
    unpacked(package, tmp_path / "dirs")
    assert not (tmp_path / "dirs" / "gone").exists()


def test_workers_get_the_zip_file_and_the_rest_of_the_description_stays(tmp_path: Path) -> None:
    described = {"runtime_env": {"env_vars": {"A": "1"}, "working_dir": "gcs://x.zip"}, "metadata": {"run": "train"}}
    changed = json.loads(with_working_dir(json.dumps(described), tmp_path / "x.zip"))
    assert changed == {
        "runtime_env": {"env_vars": {"A": "1"}, "working_dir": f"file://{tmp_path / 'x.zip'}"},
        "metadata": {"run": "train"},
    }


@contextmanager
def denying() -> Iterator[str]:
    """Serve an S3 that denies everything; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
            self.send_response(403)
            self.send_header("content-type", "application/xml")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
