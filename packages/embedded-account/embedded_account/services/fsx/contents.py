"""The simulated contents of file systems: which files tasks brought from a bucket, and what programs wrote.

No file system can be mounted: `write` stands for a program that writes a file. Automatic import is not simulated.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from moto.s3.exceptions import S3ClientError
from moto.s3.models import s3_backends
from moto.utilities.utils import get_partition

from embedded_account.context import Account

LONGEST_NAME: Final = 255
"""Bytes of a file's name on Lustre."""
LONGEST_KEY_BYTES: Final = 1024
"""Bytes of an object's key in S3."""

Files = dict[str, bytes | None]
"""A file system's files by path (/datasets/a): their content, or None if it is the same as in the bucket."""


@dataclass(frozen=True)
class LinkedDirectory:
    """A data repository association: the directory `path` of the file system and the objects below `prefix`."""

    path: str
    bucket: str
    prefix: str
    imports: bool
    exports: bool

    @classmethod
    def of(cls, fields: dict[str, Any]) -> "LinkedDirectory":
        """Return the link that FSx's description of an association names."""
        bucket, _, prefix = fields["DataRepositoryPath"].removeprefix("s3://").partition("/")
        policies = fields.get("S3") or {}
        automatic = [bool((policies.get(f"Auto{way}Policy") or {}).get("Events")) for way in ("Import", "Export")]
        return cls(fields["FileSystemPath"].rstrip("/"), bucket, prefix.strip("/"), *automatic)

    def holds(self, path: str) -> bool:
        """Return whether the path of the file system is in the directory."""
        return within(path, self.path)

    def has_object(self, bucket: str, key: str) -> bool:
        """Return whether the key, or all keys below it, belong to the link."""
        return bucket == self.bucket and within(key, self.prefix)

    def key(self, path: str) -> str:
        """Return the key of the file's object."""
        return f"{self.prefix}{path.removeprefix(self.path)}".lstrip("/")

    def file(self, key: str) -> str:
        """Return the path of the object's file."""
        return f"{self.path}/{key.removeprefix(self.prefix).lstrip('/')}"


@dataclass(frozen=True)
class TaskFile:
    """A file that a task processes; `failure` is the error code of its report."""

    path: str
    link: LinkedDirectory
    failure: str | None


def within(path: str, folder: str) -> bool:
    """Return whether the path is the folder, or below it."""
    return not folder or path == folder or path.startswith(f"{folder}/")


class BucketObjects:
    """Objects of moto's S3. Every method returns nothing for a bucket that does not exist."""

    def __init__(self, account: Account, name: str) -> None:
        self._backend = s3_backends[account.account_id][get_partition(account.region)]
        self.name = name

    @property
    def exists(self) -> bool:
        """Whether there is such a bucket."""
        return self.name in self._backend.buckets

    def keys(self, path: str) -> list[str]:
        """Return the keys that are `path` or below it, without markers of folders."""
        found = self._backend.buckets[self.name].keys if self.exists else {}
        return sorted(key for key in found if within(key, path) and not key.endswith("/"))

    def put(self, key: str, content: bytes) -> None:
        """Write an object. Raises S3ClientError."""
        self._backend.put_object(self.name, key, content)


def imported(account: Account, links: Iterable[LinkedDirectory], paths: Iterable[str]) -> list[TaskFile] | str:
    """Return the files that an import of these paths (s3://bucket/prefix) brings, or why the task fails."""
    items: list[TaskFile] = []
    for path in paths:
        bucket, _, key = path.removeprefix("s3://").rstrip("/").partition("/")
        link = next((each for each in links if each.has_object(bucket, key)), None)
        if link is None:
            return f"The path {path} is not in a data repository of the file system."
        for each in BucketObjects(account, bucket).keys(key):
            file = link.file(each)
            too_long = any(len(name.encode()) > LONGEST_NAME for name in file.split("/"))
            items.append(TaskFile(file, link, "PathSizeTooLong" if too_long else None))
    return items


def exported(
    account: Account, files: Files, links: Iterable[LinkedDirectory], paths: Iterable[str]
) -> list[TaskFile] | str:
    """Return the changed files that an export of these paths (datasets/a) sends, or why the task fails."""
    items: list[TaskFile] = []
    for path in paths:
        folder = f"/{path}".rstrip("/")
        link = next((each for each in links if each.holds(folder)), None)
        if link is None:
            return f"The path {path} is not in a directory with a data repository association."
        if not (folder == link.path or any(_known(account, files, link, folder))):
            return f"The path {path} does not exist on the file system."
        for file in sorted(file for file, content in files.items() if content is not None and within(file, folder)):
            too_long = len(link.key(file).encode()) > LONGEST_KEY_BYTES
            items.append(TaskFile(file, link, "PathSizeTooLong" if too_long else None))
    return items


def _known(account: Account, files: Files, link: LinkedDirectory, folder: str) -> Iterator[str]:
    """Yield the files in the folder: those of tasks and programs, and of an association that imports by itself."""
    yield from (file for file in files if within(file, folder))
    if link.imports:
        yield from BucketObjects(account, link.bucket).keys(link.key(folder))


def carry_out(account: Account, files: Files, items: Iterable[TaskFile], *, export: bool) -> list[TaskFile]:
    """Import or export the files; return all of them, each with its failure."""
    done = []
    for item in items:
        failure = item.failure
        if export and failure is None:
            try:
                BucketObjects(account, item.link.bucket).put(item.link.key(item.path), files[item.path] or b"")
            except S3ClientError:
                failure = "S3Error"
        if failure is None:
            files[item.path] = None
        done.append(TaskFile(item.path, item.link, failure))
    return done
