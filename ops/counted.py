"""Count the bytes that boto3's transfer manager moves."""

from typing import Any

from s3transfer.subscribers import BaseSubscriber

from ops.progress import Bytes


class Counted(BaseSubscriber):
    """Counts the bytes of a transfer; a repeated part counts back first."""

    def __init__(self, shown: Bytes) -> None:
        self._shown = shown

    def on_progress(self, future: Any, bytes_transferred: int, **_: Any) -> None:  # noqa: ARG002 - the library's name
        """Count bytes."""
        self._shown.add(bytes_transferred)
