"""Upload and download files with boto3's transfer manager: large files in parts, several at a time."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from boto3.s3.transfer import TransferConfig, create_transfer_manager
from rich.console import Console

from ops.counted import Counted
from ops.data.plan import DIGEST, TransferItem
from ops.errors import RefusedError
from ops.progress import Bytes, Say

_PART_BYTES: Final = 64 * 1024 * 1024
_CONFIG: Final = TransferConfig(multipart_threshold=_PART_BYTES, multipart_chunksize=_PART_BYTES)


def upload(s3: Any, bucket: str, items: Sequence[TransferItem], console: Console, say: Say) -> None:
    """Upload the files. Raises RefusedError if a file changes meanwhile, and the errors of the AWS SDK."""
    before = {item.key: _stamp(item) for item in items}
    with _shown("upload", items, console, say) as shown, create_transfer_manager(s3, _CONFIG) as manager:
        futures = [
            manager.upload(
                str(item.local),
                bucket,
                item.key,
                extra_args={"Metadata": {DIGEST: item.digest}},
                subscribers=[Counted(shown)],
            )
            for item in items
        ]
        for future in futures:
            future.result()
    if changed := [str(item.local) for item in items if _stamp(item) != before[item.key]]:
        raise RefusedError(f"{', '.join(changed)} changed during the upload. Fix: run the command again with --force")


def download(s3: Any, bucket: str, items: Sequence[TransferItem], console: Console, say: Say) -> None:
    """Download the objects; each file appears once it is complete, with its object's time."""
    with _shown("download", items, console, say) as shown, create_transfer_manager(s3, _CONFIG) as manager:
        futures = []
        for item in items:
            item.local.parent.mkdir(parents=True, exist_ok=True)
            futures.append(manager.download(bucket, item.key, str(item.local), subscribers=[Counted(shown)]))
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


def _shown(what: str, items: Sequence[TransferItem], console: Console, say: Say) -> Bytes:
    return Bytes(f"{what} of {len(items)} files", sum(item.size for item in items), console, say)
