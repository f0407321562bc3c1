"""Compare local files with the objects of the bucket: what is new, equal, or would be replaced.

An upload writes the SHA-256 of its file into the object's metadata. FSx's own exports have none there: a download gives
their files the object's time, by which a rerun knows them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from ops.data.errors import BadPathError
from ops.data.links import LinkedPath
from ops.data.local import below, digest

DIGEST: Final = "sha256"
"""Key of an object's metadata: the SHA-256 of its file."""
REPORTS: Final = ".fsx-reports"
"""Folder of a link's objects into which FSx writes reports of its tasks."""
KEY_BYTES: Final = 1024
_THREADS: Final = 8


class TransferState(StrEnum):
    """What a transfer does with a file."""

    NEW = "new"
    EQUAL = "equal"
    REPLACED = "replaced"


@dataclass(frozen=True)
class Object:
    """An object of the bucket; `size` in bytes."""

    key: str
    size: int
    modified: datetime


@dataclass(frozen=True)
class TransferItem:
    """A file of a transfer and its object; `modified` is the object's, `digest` the file's that is uploaded."""

    state: TransferState
    local: Path
    key: str
    size: int
    digest: str = ""
    modified: datetime | None = None


def objects(s3: Any, place: LinkedPath) -> Iterator[Object]:
    """Yield the objects of a place: the one with its key, and those below it."""
    bucket, key = place.link.bucket, place.key
    if key and key != place.link.prefix:
        # The key itself sorts before all longer ones.
        first = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1).get("Contents") or ()
        yield from (_object(each) for each in first if each["Key"] == key)
    reports = "/".join(filter(None, (place.link.prefix, REPORTS))) + "/"
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{key}/" if key else ""):
        for each in page.get("Contents") or ():
            if not each["Key"].endswith("/") and not each["Key"].startswith(reports):
                yield _object(each)


def folder(s3: Any, place: LinkedPath) -> list[dict[str, Any]]:
    """Return the objects and folders directly at a place as data for programs: name, bytes, time."""
    found: list[dict[str, Any]] = []
    prefix = f"{place.key}/" if place.key else ""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=place.link.bucket, Prefix=prefix, Delimiter="/"):
        names = [each["Prefix"].removeprefix(prefix) for each in page.get("CommonPrefixes") or ()]
        found += [{"name": name, "bytes": None, "modified": None} for name in names if name != f"{REPORTS}/"]
        found += [
            {"name": name, "bytes": each["Size"], "modified": each["LastModified"].isoformat()}
            for each in page.get("Contents") or ()
            if (name := each["Key"].removeprefix(prefix))
        ]
    return found


def upload(s3: Any, place: LinkedPath, files: Mapping[str, Path]) -> list[TransferItem]:
    """Return what an upload of the files below `place` does with each.

    Raises BadPathError if S3 refuses a key, or `place` is a file.
    """
    existing = {each.key: each for each in objects(s3, place)}
    if place.key and place.key in existing:
        raise BadPathError(f"{place.seen_at} is a file. Fix: name a folder for the files")

    def planned(name: str) -> TransferItem:
        path, key = files[name], "/".join(filter(None, (place.key, name)))
        if len(key.encode()) > KEY_BYTES:
            raise BadPathError(f"{path} cannot be uploaded: its key has more than {KEY_BYTES} bytes. Fix: rename it")
        size, own, there = path.stat().st_size, digest(path), existing.get(key)
        same = there is not None and there.size == size and _digest_of(s3, place, key) == own
        state = TransferState.NEW if there is None else TransferState.EQUAL if same else TransferState.REPLACED
        return TransferItem(state, path, key, size, digest=own)

    return _parallel(planned, files)


def download(s3: Any, place: LinkedPath, folder: Path) -> list[TransferItem]:
    """Return what a download of `place` into the folder does with each object. Raises BadPathError if there is none."""
    found = {each.key: each for each in objects(s3, place)}
    if not found:
        raise BadPathError(f"{place.seen_at} has no objects at {place.address}. Fix: see `ops data ls`")

    def planned(key: str) -> TransferItem:
        name = key.rpartition("/")[2] if key == place.key else key.removeprefix(place.key).removeprefix("/")
        there, path = found[key], below(folder, name)
        if not path.exists():
            state = TransferState.NEW
        else:
            same = path.stat().st_size == there.size and _is_copy(path, there, _digest_of(s3, place, key))
            state = TransferState.EQUAL if same else TransferState.REPLACED
        return TransferItem(state, path, key, there.size, modified=there.modified)

    return _parallel(planned, found)


def _is_copy(path: Path, there: Object, known: str) -> bool:
    if known:
        return digest(path) == known
    return int(path.stat().st_mtime) == int(there.modified.timestamp())


def _digest_of(s3: Any, place: LinkedPath, key: str) -> str:
    found: Mapping[str, str] = s3.head_object(Bucket=place.link.bucket, Key=key)["Metadata"]
    return found.get(DIGEST, "")


def _parallel(plan: Callable[[str], TransferItem], names: Iterable[str]) -> list[TransferItem]:
    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            return list(pool.map(plan, names))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _object(listed: Mapping[str, Any]) -> Object:
    return Object(listed["Key"], listed["Size"], listed["LastModified"])
