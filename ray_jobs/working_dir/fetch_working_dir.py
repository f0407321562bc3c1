"""Fetch a job's working directory from the data bucket, check its digest, and become the job's command in it.

    python fetch_working_dir.py s3://BUCKET/KEY.zip SHA256 FOLDER COMMAND...

`ops job submit` starts this program in front of the command of a job whose working directory is too large for a
ConfigMap. The zip file stays in FOLDER. On Ray, all nodes see that folder, and each node unpacks the file from there
for the job's workers: neither the head's memory nor Ray's own client of S3, which the image lacks, is needed.

Exit codes: the command's; 1 if the bucket cannot be reached now; 2 if another attempt would end the same way.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import BinaryIO, Final, NoReturn
from zipfile import ZipFile

import pyarrow.fs

from ray_resume.storage import lasts, reason

_JOB: Final = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""What Ray tells a job's driver of its runtime environment (ray: _private/runtime_env/constants.py)."""
_UNUSED_SECONDS: Final = 30 * 24 * 3600
"""A zip file in FOLDER that no attempt has started with for so long is deleted."""
_SILENCE_SECONDS: Final = 10.0
_BLOCK_BYTES: Final = 1 << 23


class DigestError(Exception):
    """The object in the bucket is not the working directory that was submitted."""


def main() -> None:
    """Replace this process by the command, in the fetched working directory."""
    address, digest, folder, *command = sys.argv[1:]
    try:
        package = fetched(address, digest, Path(folder))
    except DigestError as error:
        _end(str(error), 2)
    except OSError as error:
        if lasts(error):
            fix = "submit the job again, which uploads what the bucket lacks, or correct what the reason names"
            _end(f"{address} cannot be fetched to {folder}: {reason(error)}. Fix: {fix}", 2)
        _end(f"infrastructure failure: {address} cannot be fetched to {folder}: {reason(error)}", 1)
    try:
        work = unpacked(package, Path.cwd() / "working-dirs")
    except OSError as error:
        _end(f"{address} cannot be unpacked: {reason(error)}. Fix: correct what the reason names", 1)
    os.chdir(work)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(work), os.environ.get("PYTHONPATH"))))
    if job := os.environ.get(_JOB):
        os.environ[_JOB] = with_working_dir(job, package)
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606 - the shell that started this program has read the words
    except OSError as error:
        _end(f"{command[0]} cannot be started: {reason(error)}", 127)


def fetched(address: str, digest: str, folder: Path) -> Path:
    """Return the zip file in `folder`, fetched unless it is there; its content has the SHA-256 `digest`.

    Raises DigestError and OSError.
    """
    target = folder / f"{digest}.zip"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError), target.open("rb") as known:
        if _copy(known, None, str(target)) == digest:
            os.utime(target)
            return target
    # Attempts on several heads may fetch the same file.
    draft = folder / f".{digest}.{socket.gethostname()}-{os.getpid()}"
    try:
        files, path = pyarrow.fs.FileSystem.from_uri(address)
        with files.open_input_stream(path) as source, draft.open("wb") as drafted:
            found = _copy(source, drafted, address)
        if found != digest:
            raise DigestError(
                f"{address} is invalid: its SHA-256 is {found}, not that of the submitted working directory. "
                "Fix: delete the object, then submit the job again"
            )
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    _delete_unused(folder)
    return target


def unpacked(package: Path, root: Path) -> Path:
    """Return the folder below `root` with the content of `package`; delete those that no process works in.

    The process, and the command that it becomes, hold a lock on the folder until they end. Raises OSError.
    """
    root.mkdir(exist_ok=True)
    work = root / package.stem
    lock = (root / f"{package.stem}.lock").open("ab")
    os.set_inheritable(lock.fileno(), True)
    for other in root.glob("*.lock"):
        if other.stem != package.stem:
            _delete_unlocked(other)
    # Commands in the folder share the lock as long as they run, so only its absence needs the lock alone.
    fcntl.flock(lock, fcntl.LOCK_SH)
    while not work.exists():
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not work.exists():
            draft = work.with_suffix(".draft")
            shutil.rmtree(draft, ignore_errors=True)
            with ZipFile(package) as archive:
                archive.extractall(draft)
            draft.rename(work)
        # Not atomic: another process may delete the folder between the two locks.
        fcntl.flock(lock, fcntl.LOCK_SH)
    _held.append(lock)
    return work


def with_working_dir(job: str, package: Path) -> str:
    """Return Ray's description of the job with `package` as the working directory of the job's workers."""
    described = json.loads(job)
    described["runtime_env"] = {**described.get("runtime_env", {}), "working_dir": f"file://{package.resolve()}"}
    return json.dumps(described)


_held: Final[list[BinaryIO]] = []
"""Locks that last as long as the process."""


def _copy(source: BinaryIO, target: BinaryIO | None, name: str) -> str:
    """Copy `source` to `target`, if there is one; return the content's SHA-256."""
    found, size, began = hashlib.sha256(), 0, time.monotonic()
    spoke = began
    while block := source.read(_BLOCK_BYTES):
        found.update(block)
        if target:
            target.write(block)
        size += len(block)
        if (now := time.monotonic()) - spoke > _SILENCE_SECONDS:
            spoke = now
            print(f"{name}: {size / 1e6:.0f} MB after {now - began:.0f} s", flush=True)
    return found.hexdigest()


def _delete_unused(folder: Path) -> None:
    for path in (*folder.glob("*.zip"), *folder.glob(".*")):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _UNUSED_SECONDS:
                path.unlink()


def _delete_unlocked(lock: Path) -> None:
    with contextlib.suppress(BlockingIOError), lock.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(lock.with_suffix(""), ignore_errors=True)


def _end(message: str, code: int) -> NoReturn:
    print(f"fetch_working_dir: {message}", file=sys.stderr, flush=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
