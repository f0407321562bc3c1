"""The output of a run's jobs in the run's folder, in parts by position: a bucket's objects cannot grow.

    <storage>/<run>/output/<time>/about.json      which job began to print then; at its end, how many bytes it printed
    <storage>/<run>/output/<time>/000001048576    its bytes from this position on, up to the next part

A part is written again until it is full. Of a job's output, the first part and the newest ones stay; of a run's jobs,
the newest. So the bytes of a run are bounded, and positions show what is missing.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import io

    from ray_resume.storage import RunStorage

PART_BYTES: Final = 1 << 20
PARTS: Final = 32
JOBS: Final = 20

_FOLDER: Final = "output"
_PIECE_BYTES: Final = 1 << 16
_END: Final = "end of the kept output"


@dataclass(frozen=True)
class OutputJob:
    """A job of Ray with its submission id; `series` is its RUN_SERIES. `size` is None if its end was not seen."""

    folder: str
    job: str
    series: str
    size: int | None = None


class OutputWriter:
    """Writes the output of one job. Its methods raise OSError; called again, they resume where they failed."""

    def __init__(self, storage: RunStorage, job: str, series: str) -> None:
        self._storage = storage
        began = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")
        self._job = OutputJob(f"{_FOLDER}/{began}", job, series)
        self._part = b""
        self._begin = 0
        self._unwritten = False
        self._announced = False

    def take(self, source: io.FileIO) -> bool:
        """Write what `source` has from its position on; return whether that was anything."""
        if not self._announced:
            self._announce()
        self._put()
        found = False
        while piece := source.read(PART_BYTES - len(self._part)):
            found = self._unwritten = True
            self._part += piece
            self._put()
        return found

    def finish(self) -> None:
        """Record that the output is complete."""
        self._put()
        self._tell(OutputJob(self._job.folder, self._job.job, self._job.series, self._begin + len(self._part)))

    def _announce(self) -> None:
        folders = self._storage.names(_FOLDER)
        for folder in folders[: max(0, len(folders) + 1 - JOBS)]:
            self._storage.remove(f"{_FOLDER}/{folder}")
        self._tell(self._job)
        self._announced = True

    def _put(self) -> None:
        if self._unwritten:
            self._storage.put(_part(self._job, self._begin), self._part)
            self._unwritten = False
        if len(self._part) >= PART_BYTES:
            self._begin, self._part = self._begin + PART_BYTES, b""
            if (oldest := self._begin - (PARTS - 1) * PART_BYTES) > 0:
                self._storage.delete(_part(self._job, oldest))

    def _tell(self, job: OutputJob) -> None:
        self._storage.put(f"{job.folder}/about.json", (json.dumps(asdict(job)) + "\n").encode())


def jobs(storage: RunStorage) -> list[OutputJob]:
    """Return the jobs whose output is kept, oldest first."""
    found = (storage.read(f"{_FOLDER}/{name}/about.json") for name in storage.names(_FOLDER))
    return [OutputJob(**json.loads(about)) for about in found if about]


def pieces(storage: RunStorage, job: OutputJob) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a job's output that are kept, each with its position."""
    for name in storage.names(job.folder):
        if name.isdecimal() and (content := storage.read(f"{job.folder}/{name}")) is not None:
            yield int(name), content


def lines(storage: RunStorage, wanted: str | None) -> Iterator[str]:
    """Yield lines of plain ASCII that carry the kept output, of the job `wanted` or of all, through Ray's own logs.

    `ops job logs` reads them (ops/jobs/stored/kept.py): a JSON object for each job, and then `position base64` for its
    bytes, compressed; a line for the end is the last.
    """
    for job in jobs(storage):
        if wanted in (None, job.job):
            yield json.dumps(asdict(job))
            for position, content in pieces(storage, job):
                for begin in range(0, len(content), _PIECE_BYTES):
                    packed = base64.b64encode(zlib.compress(content[begin : begin + _PIECE_BYTES])).decode()
                    yield f"{position + begin} {packed}"
    yield _END


def _part(job: OutputJob, position: int) -> str:
    return f"{job.folder}/{position:012}"
