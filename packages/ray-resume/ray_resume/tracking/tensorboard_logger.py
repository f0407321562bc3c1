"""TensorBoard's files of a run in its folder, each step once over all attempts. Ray Train brings `tensorboardX`."""

from __future__ import annotations

import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ray_resume.tracking.logger import Logger, Result

if TYPE_CHECKING:
    from ray_resume.checkpoint_store import CheckpointStore

_FOLDER: Final = "tensorboard"
_VERSION: Final = "brain.Event:2"


class TensorBoardLogger(Logger):
    """Writes a run's metrics for TensorBoard: `tensorboard --logdir <storage>/<run>/tensorboard`.

    Each attempt writes one file. Workers that resume repeat steps: the logger then writes the start of a session, with
    which TensorBoard forgets what it read of these steps.
    """

    def open(self, store: CheckpointStore) -> None:
        from tensorboardX.record_writer import RecordWriter  # noqa: PLC0415

        self._folder = store.storage
        scratch = tempfile.TemporaryDirectory(prefix="tensorboard-")
        self._path = Path(scratch.name, "events")
        # TensorBoard reads the files in the order of their names.
        self._name = f"{_FOLDER}/events.out.tfevents.{time.time():019.6f}.{socket.gethostname()}"
        self._open_file: Any = scratch, RecordWriter(str(self._path))
        self._write(time.time(), file_version=_VERSION)
        # Nothing is known of what earlier attempts wrote.
        self._last: int | None = None

    def log(self, result: Result) -> None:
        from tensorboardX.proto.event_pb2 import SessionLog  # noqa: PLC0415
        from tensorboardX.summary import scalar  # noqa: PLC0415

        if self._last is None or result.step <= self._last:
            self._write(result.at, step=result.step, session_log=SessionLog(status=SessionLog.START))
        self._last = result.step
        for name, value in result.metrics.items():
            self._write(result.at, step=result.step, summary=scalar(name, value))
        _, writer = self._open_file
        writer.flush()
        self._folder.put(self._name, self._path.read_bytes())

    def close(self, *, done: bool) -> None:  # noqa: ARG002
        scratch, writer = self._open_file
        writer.close()
        scratch.cleanup()

    def _write(self, at: float, **content: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event  # noqa: PLC0415

        _, writer = self._open_file
        writer.write(Event(wall_time=at, **content).SerializeToString())
