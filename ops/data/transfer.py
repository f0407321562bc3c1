"""Upload and download files with boto3's transfer manager: large files in parts, several at a time."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from boto3.s3.transfer import TransferConfig, create_transfer_manager
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn
from s3transfer.subscribers import BaseSubscriber

from ops.data.plan import DIGEST, TransferItem
from ops.errors import RefusedError

_PART_BYTES: Final = 64 * 1024 * 1024
_CONFIG: Final = TransferConfig(multipart_threshold=_PART_BYTES, multipart_chunksize=_PART_BYTES)
_SILENCE_SECONDS: Final = 60.0
"""Print a line at least this often where there is no terminal: a CI pipeline may stop a silent command."""

Say = Callable[[str], None]


def upload(s3: Any, bucket: str, items: Sequence[TransferItem], console: Console, say: Say) -> None:
    """Upload the files. Raises RefusedError if a file changes meanwhile, and the errors of the AWS SDK."""
    before = {item.key: _stamp(item) for item in items}
    with _Shown("upload", items, console, say) as shown, create_transfer_manager(s3, _CONFIG) as manager:
        futures = [
            manager.upload(
                str(item.local), bucket, item.key, extra_args={"Metadata": {DIGEST: item.digest}}, subscribers=[shown]
            )
            for item in items
        ]
        for future in futures:
            future.result()
    if changed := [str(item.local) for item in items if _stamp(item) != before[item.key]]:
        raise RefusedError(f"{', '.join(changed)} changed during the upload. Fix: run the command again with --force")


def download(s3: Any, bucket: str, items: Sequence[TransferItem], console: Console, say: Say) -> None:
    """Download the objects; each file appears once it is complete, with its object's time."""
    with _Shown("download", items, console, say) as shown, create_transfer_manager(s3, _CONFIG) as manager:
        futures = []
        for item in items:
            item.local.parent.mkdir(parents=True, exist_ok=True)
            futures.append(manager.download(bucket, item.key, str(item.local), subscribers=[shown]))
        for item, future in zip(items, futures, strict=True):
            future.result()
            if item.modified:
                seconds = item.modified.timestamp()
                os.utime(item.local, (seconds, seconds))


def _stamp(item: TransferItem) -> tuple[int, int]:
    with suppress(FileNotFoundError):
        status = item.local.stat()
        return status.st_size, status.st_mtime_ns
    return -1, 0


class _Shown(BaseSubscriber):
    """Shows the bytes so far and the elapsed time: a bar in a terminal, else a line now and then."""

    def __init__(self, what: str, items: Sequence[TransferItem], console: Console, say: Say) -> None:
        self._what, self._say = what, say
        self._total = sum(item.size for item in items)
        self._done = 0
        self._lock = threading.Lock()
        self._began = self._spoke = time.monotonic()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=console) if console.is_terminal else None
        self._task = self._bar.add_task(f"{what} of {len(items)} files", total=self._total) if self._bar else None

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def on_progress(self, future: Any, bytes_transferred: int, **_: Any) -> None:  # noqa: ARG002 - the library's name
        """Count bytes; a repeated part counts back first."""
        with self._lock:
            self._done += bytes_transferred
            now = time.monotonic()
            if self._bar and self._task is not None:
                self._bar.update(self._task, completed=self._done)
            elif now - self._spoke > _SILENCE_SECONDS:
                self._spoke = now
                self._say(f"{self._what}: {size(self._done)} of {size(self._total)} after {now - self._began:.0f} s")


def size(count: float) -> str:
    """Return a number of bytes in a unit that people read."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
