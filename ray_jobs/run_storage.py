"""Where a run keeps its files: a shared file system (/fsx) or a bucket (s3://), behind the same few operations.

Only `put` has to be atomic: it is how a checkpoint comes into being (resume.py).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import pyarrow.fs

_LASTING: Final = {errno.EACCES, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS}
# pyarrow gives S3's errors no number.
_LASTING_IN_S3: Final = re.compile(r"AWS Error (ACCESS_DENIED|NO_SUCH_BUCKET)\b|^Bucket '.*' not found")


class StorageError(Exception):
    """The storage path cannot be used; the message says which path and why."""


class RunStorage(Protocol):
    """The folder of one run. Names are relative to it, with "/" between their parts."""

    def put(self, name: str, content: bytes) -> None:
        """Write a small file: whole or not at all, and on the medium when this returns."""

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None when there is none."""

    def names(self, folder: str) -> list[str]:
        """What lies directly in a folder, sorted; empty when there is no such folder."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Bytes of each file below a folder, by its name relative to the folder."""

    def remove(self, folder: str) -> None:
        """Remove a folder and what is in it, if it is there."""

    def writing(self, folder: str) -> contextlib.AbstractContextManager[Path]:
        """A local directory whose files are in `folder`, and on the medium, when the block ends without an error."""

    def reading(self, folder: str) -> contextlib.AbstractContextManager[Path]:
        """A local directory with the files of `folder`."""


def open_storage(storage: str, run: str) -> RunStorage:
    """The folder of `run` below `storage`: an absolute path that all nodes see, or s3://bucket/prefix.

    Raises:
        StorageError: the address is neither of the two, or there is no such bucket.
        OSError: the bucket cannot be reached now.
    """
    if storage.startswith("s3://") and storage.strip("/") != "s3:":
        return _Bucket(storage, run)
    if storage.startswith("/"):
        return _Directory(Path(storage) / run)
    raise StorageError(
        f"storage path {storage!r}: an absolute path that every node sees (/fsx/ray/runs) or s3://bucket/prefix"
    )


def lasts(error: OSError) -> bool:
    """Whether another attempt would meet the same error: a wrong path, a missing right, a full disk.

    Others may pass: EIO, ENOTCONN and ESHUTDOWN of a Lustre client that its server has evicted, a network that is down.
    """
    return error.errno in _LASTING or _LASTING_IN_S3.search(str(error)) is not None


def check_writable(storage: RunStorage, address: str) -> None:
    """Write there.

    Raises:
        StorageError: that cannot be, now or later.
        OSError: it failed now.
    """
    try:
        storage.put("attempts/.writable", b"")
    except OSError as error:
        if not lasts(error):
            raise
        raise StorageError(f"storage path {address!r} cannot be written: {error.strerror or error}") from error


class _Directory:
    """A folder of a POSIX file system that all nodes mount."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, name: str, content: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with draft.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        _fsync(path.parent)

    def read(self, name: str) -> bytes | None:
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

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
        directory = self._root / folder
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
        for path in (*directory.rglob("*"), directory):
            # Another worker's half-written file may be renamed meanwhile; that worker sees to it.
            with contextlib.suppress(FileNotFoundError):
                _fsync(path)

    @contextlib.contextmanager
    def reading(self, folder: str) -> Iterator[Path]:
        yield self._root / folder


class _Bucket:
    """A prefix of an S3 bucket. An object appears whole when its upload ends, so that `put` is atomic by nature."""

    def __init__(self, storage: str, run: str) -> None:
        try:
            # AWS_ENDPOINT_URL, AWS_REGION and the pod's IRSA role are read from the environment.
            self._fs, base = pyarrow.fs.FileSystem.from_uri(storage.rstrip("/"))
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and not lasts(error):
                raise
            raise StorageError(f"storage path {storage!r}: {error}") from error
        self._root = f"{base}/{run}"

    def put(self, name: str, content: bytes) -> None:
        with self._fs.open_output_stream(f"{self._root}/{name}") as stream:
            stream.write(content)

    def read(self, name: str) -> bytes | None:
        try:
            with self._fs.open_input_stream(f"{self._root}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

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


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
