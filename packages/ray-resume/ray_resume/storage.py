"""A run's storage: a shared file system (/fsx) or a bucket (s3://), with the same few operations.

Only `put` must be atomic: it writes the manifest with which a checkpoint begins to exist (checkpoints.py).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import pyarrow.fs

_NO_FILE: Final = {errno.EINVAL, errno.EISDIR, errno.ELOOP}
_LASTING: Final = {errno.EACCES, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS}
# pyarrow's errors of S3 have no errno.
_LASTING_IN_S3: Final = re.compile(r"AWS Error (ACCESS_DENIED|NO_SUCH_BUCKET)\b|^Bucket '.*' not found")


class StorageError(Exception):
    """The storage path cannot be used; the message says which path and why."""


class DamagedError(StorageError):
    """A file of the run is damaged; the message says which, and the fix. Another attempt would meet it again."""


class RunStorage(Protocol):
    """The folder of one run. Names are relative to it, with "/" between their parts."""

    @property
    def address(self) -> str:
        """Return the folder's path or address, for messages."""

    def put(self, name: str, content: bytes) -> None:
        """Write a small file atomically; it is on the medium when this returns."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file; None if there is no such file."""

    def sha256(self, name: str) -> str:
        """Return the SHA-256 of a file's content."""

    def delete(self, name: str) -> None:
        """Delete a small file, if it exists."""

    def names(self, folder: str) -> list[str]:
        """Return the names directly in a folder, sorted; empty if there is no such folder."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the size in bytes of each file below a folder, by its name relative to the folder."""

    def remove(self, folder: str) -> None:
        """Remove a folder and its content, if it exists."""

    def writing(self, folder: str) -> contextlib.AbstractContextManager[Path]:
        """Yield an empty local directory; if the block ends without an error, its files are in `folder`, on the medium.

        Several workers may write into one folder at a time, files of different names.
        """

    def reading(self, folder: str) -> contextlib.AbstractContextManager[Path]:
        """Yield a local directory with the files of `folder`."""


def open_storage(storage: str, run: str) -> RunStorage:
    """Return the folder of `run` below `storage`: an absolute path that all nodes see, or s3://bucket/prefix.

    Folders below the first one of a path are made as needed. The first one must exist: without its file system, the
    checkpoints would be files of one node.

    Raises:
        StorageError: the address is neither of the two, or there is no such bucket or first folder.
        OSError: the bucket cannot be reached now.
    """
    if storage.startswith("s3://") and storage.strip("/") != "s3:":
        return _Bucket(storage, run)
    if storage.startswith("/"):
        first = Path(*Path(storage).parts[:2])
        if not first.exists():
            raise StorageError(
                f"storage path {storage!r} is invalid: there is no {first} here, so its file system is not mounted. "
                "Allowed: a path whose first folder every node has. Fix: mount it, or set --storage or RUN_STORAGE"
            )
        return _Directory(Path(storage) / run)
    raise StorageError(
        f"storage path {storage!r} is invalid. Allowed: an absolute path that every node sees (/fsx/ray/runs), or "
        "s3://bucket/prefix"
    )


def lasts(error: OSError) -> bool:
    """Return whether another attempt would meet the same error: a wrong path, a missing right, a full disk.

    Other errors may be temporary: EIO, ENOTCONN and ESHUTDOWN of a Lustre client that its server has evicted, a network
    that is down.
    """
    return error.errno in _LASTING or _LASTING_IN_S3.search(str(error)) is not None


def reason(error: OSError) -> str:
    """Return what failed: the error's number and text, its file, and on a full disk how many bytes are free there."""
    if error.errno is None:
        return str(error)
    file = f": {error.filename}" if error.filename else ""
    room = _free(Path(error.filename)) if error.errno == errno.ENOSPC and error.filename else ""
    return f"[Errno {error.errno}] {error.strerror}{file}{room}"


def full_disk(error: Exception, directory: Path) -> OSError | None:
    """Return ENOSPC if the directory's disk is full: PyTorch's own error after a short write tells positions only."""
    if isinstance(error, OSError) and error.errno is not None:
        return (
            OSError(error.errno, error.strerror, error.filename or str(directory))
            if error.errno == errno.ENOSPC
            else None
        )
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(1 << 16))
            file.flush()
            os.fsync(file.fileno())
    except OSError as found:
        if found.errno == errno.ENOSPC:
            return OSError(found.errno, found.strerror, str(directory))
    return None


def _free(path: Path) -> str:
    with contextlib.suppress(OSError):
        folder = next(one for one in (path, *path.parents) if one.exists())
        return f" ({shutil.disk_usage(folder).free} bytes are free)"
    return ""


def sha256(content: BinaryIO) -> str:
    """Return the SHA-256 of what is left to read."""
    found = hashlib.sha256()
    while block := content.read(1 << 20):
        found.update(block)
    return found.hexdigest()


def record(storage: RunStorage, name: str) -> dict[str, Any] | None:
    """Return the content of a small JSON file; None if there is no such file.

    Raises:
        DamagedError: the file does not hold a JSON object, or is no file.
    """
    try:
        content = storage.read(name)
        found = None if content is None else json.loads(content)
    except (RecursionError, ValueError) as error:
        what = f"holds no JSON ({error})" if content else "is empty"
        raise damaged(storage, name, what) from error
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        raise damaged(storage, name, f"cannot be read ({error.strerror})") from error
    if content is not None and not isinstance(found, dict):
        raise damaged(storage, name, f"holds {type(found).__name__}, not a JSON object")
    return found


def damaged(storage: RunStorage, name: str, what: str) -> DamagedError:
    """Return the error for a damaged small file."""
    return DamagedError(f"{storage.address}/{name} is damaged: it {what}. Fix: restore it from a copy, or remove it")


def check_writable(storage: RunStorage, address: str) -> None:
    """Write a test file to the storage.

    Raises:
        StorageError: the storage cannot be written, now or later.
        OSError: the write failed now.
    """
    try:
        storage.put("attempts/.writable", b"")
    except OSError as error:
        if not lasts(error):
            raise
        raise StorageError(f"storage path {address!r} cannot be written: {reason(error)}") from error


class _Directory:
    """A folder of a POSIX file system that all nodes mount."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def address(self) -> str:
        return str(self._root)

    def put(self, name: str, content: bytes) -> None:
        path = self._root / name
        _make(path.parent)
        # Nodes may give their processes the same number.
        draft = path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}")
        try:
            with draft.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError as error:
            # Writing into an open file names none; with its name, `reason` says how many bytes are free there.
            error.filename = error.filename or str(draft)
            draft.unlink(missing_ok=True)
            raise
        _fsync(path.parent)

    def read(self, name: str) -> bytes | None:
        path = self._root / name
        try:
            # A named pipe would never end.
            if not stat.S_ISREG(path.stat().st_mode):
                raise OSError(errno.EINVAL, "is not a regular file", str(path))
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def sha256(self, name: str) -> str:
        with (self._root / name).open("rb") as content:
            return sha256(content)

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self._root / folder).iterdir() if not path.name.startswith("."))
        except FileNotFoundError:
            return []

    def sizes(self, folder: str) -> dict[str, int]:
        root = self._root / folder
        return {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}

    def remove(self, folder: str) -> None:
        shutil.rmtree(self._root / folder, ignore_errors=True)

    @contextlib.contextmanager
    def writing(self, folder: str) -> Iterator[Path]:
        # A directory of its own, because a worker must sync its files only: of 128 workers, each would sync all.
        directory = self._root / folder
        own = directory / f".of-{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
        _make(own)
        yield own
        changed = {directory}
        for path in [path for path in own.rglob("*") if path.is_file()]:
            _fsync(path)
            target = directory / path.relative_to(own)
            _make(target.parent)
            changed.add(target.parent)
            path.replace(target)
        shutil.rmtree(own)
        for parent in changed:
            _fsync(parent)

    @contextlib.contextmanager
    def reading(self, folder: str) -> Iterator[Path]:
        yield self._root / folder


class _Bucket:
    """A prefix of an S3 bucket. `put` is atomic, because an object appears only when its upload is complete."""

    def __init__(self, storage: str, run: str) -> None:
        try:
            # AWS_ENDPOINT_URL, AWS_REGION and the pod's IRSA role are read from the environment.
            self._fs, base = pyarrow.fs.FileSystem.from_uri(storage.rstrip("/"))
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and not lasts(error):
                raise
            raise StorageError(f"storage path {storage!r}: {error}") from error
        self._root = f"{base}/{run}"

    @property
    def address(self) -> str:
        return f"s3://{self._root}"

    def put(self, name: str, content: bytes) -> None:
        with self._fs.open_output_stream(f"{self._root}/{name}") as stream:
            stream.write(content)

    def read(self, name: str) -> bytes | None:
        try:
            with self._fs.open_input_stream(f"{self._root}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def sha256(self, name: str) -> str:
        with self._fs.open_input_stream(f"{self._root}/{name}") as stream:
            return sha256(stream)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(f"{self._root}/{name}")

    def names(self, folder: str) -> list[str]:
        found = self._fs.get_file_info(self._selector(folder, recursive=False))
        return sorted(info.base_name for info in found if not info.base_name.startswith("."))

    def sizes(self, folder: str) -> dict[str, int]:
        found = self._fs.get_file_info(self._selector(folder, recursive=True))
        prefix = f"{self._root}/{folder}/"
        return {info.path.removeprefix(prefix): info.size for info in found if info.type == pyarrow.fs.FileType.File}

    def remove(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_dir(f"{self._root}/{folder}")

    @contextlib.contextmanager
    def writing(self, folder: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as scratch:
            yield Path(scratch)
            pyarrow.fs.copy_files(
                scratch,
                f"{self._root}/{folder}",
                source_filesystem=pyarrow.fs.LocalFileSystem(),
                destination_filesystem=self._fs,
            )

    @contextlib.contextmanager
    def reading(self, folder: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as scratch:
            pyarrow.fs.copy_files(
                f"{self._root}/{folder}",
                scratch,
                source_filesystem=self._fs,
                destination_filesystem=pyarrow.fs.LocalFileSystem(),
            )
            yield Path(scratch)

    def _selector(self, folder: str, *, recursive: bool) -> pyarrow.fs.FileSelector:
        return pyarrow.fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True, recursive=recursive)


def _make(folder: Path) -> None:
    """Make a folder; it and those above it are on the medium, too."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        _fsync(one.parent)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
