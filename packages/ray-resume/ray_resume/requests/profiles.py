"""Profiles on demand: one worker records some of its steps with PyTorch's profiler, and keeps the trace.

    <storage>/<run>/profiles/<id>/request.json    which worker, for how many seconds, and until when it counts
    <storage>/<run>/profiles/<id>/answer.json     the trace's name and its steps, or why there is none
    <storage>/<run>/profiles/<id>/<trace>         for https://ui.perfetto.dev or chrome://tracing

Rank 0 finds requests where it looks for requests to save, and names them to all workers in the same collective call.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ray_resume.checkpoint_store import as_json

if TYPE_CHECKING:
    from ray_resume.storage import RunStorage

MOST_STEPS: Final = 100
"""Steps of one profile, at most: a trace of very short steps would fill memory and storage."""

LONGEST_SECONDS: Final = 600.0
"""Seconds of one profile, at most."""

_FOLDER: Final = "profiles"
_KEPT: Final = 10
_POLL_SECONDS: Final = 0.5


@dataclass(frozen=True)
class ProfileRequest:
    """A request for `seconds` of the worker of rank `worker`; it counts `until` a time in seconds since the epoch."""

    id: str
    worker: int
    seconds: float
    until: float


@dataclass(frozen=True)
class ProfileAnswer:
    """What became of a request: the `trace`, a file of the run's folder, of the steps after `begin` up to `end`.

    Without a trace, the `reason` says why.
    """

    trace: str = ""
    begin: int = 0
    end: int = 0
    seconds: float = 0.0
    reason: str = ""


class ProfileRequests:
    """The requests of one run. Every method raises OSError if the storage fails."""

    def __init__(self, storage: RunStorage) -> None:
        self._storage = storage

    def profile(self, worker: int, *, seconds: float, timeout: float) -> ProfileAnswer | None:
        """Ask a worker for a profile; return the answer, or None if there is none within `timeout` seconds."""
        for id in self._storage.names(_FOLDER)[: -_KEPT + 1]:
            self._storage.remove(f"{_FOLDER}/{id}")
        # By time, so that the oldest are removed.
        request = ProfileRequest(f"{time.time():.3f}-{uuid.uuid4().hex[:8]}", worker, seconds, time.time() + timeout)
        self._storage.put(f"{_FOLDER}/{request.id}/request.json", as_json(asdict(request)))
        deadline = time.monotonic() + timeout
        while (answer := self.answer(request.id)) is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return answer

    def answer(self, id: str) -> ProfileAnswer | None:
        """Return the answer to a request; None if there is none yet."""
        content = self._storage.read(f"{_FOLDER}/{id}/answer.json")
        return ProfileAnswer(**json.loads(content)) if content else None

    def open(self) -> list[ProfileRequest]:
        """Return the requests that count and have no answer."""
        asked = (self._storage.read(f"{_FOLDER}/{id}/request.json") for id in self._storage.names(_FOLDER))
        found = [ProfileRequest(**json.loads(content)) for content in asked if content]
        return [each for each in found if each.until > time.time() and self.answer(each.id) is None]

    def keep(self, request: ProfileRequest, trace: Path, answer: ProfileAnswer) -> None:
        """Keep a trace under the name that the answer gives, then the answer."""
        self._storage.put(answer.trace, trace.read_bytes())
        self._answer(request, answer)

    def refuse(self, request: ProfileRequest, reason: str) -> None:
        """Keep an answer without a trace."""
        self._answer(request, ProfileAnswer(reason=reason))

    def _answer(self, request: ProfileRequest, answer: ProfileAnswer) -> None:
        self._storage.put(f"{_FOLDER}/{request.id}/answer.json", as_json(asdict(answer)))


class Recorder:
    """A worker's side: records what `begin` asks for, until enough steps are done. No error of it ends the training."""

    def __init__(self, requests: ProfileRequests, *, rank: int, world: int, say: Callable[[str], None]) -> None:
        self.requests = requests
        self._rank = rank
        self._world = world
        self._say = say
        self._known: set[str] = set()
        self._recording: _Recording | None = None

    def begin(self, request: ProfileRequest, step: int) -> None:
        """Record from now on, after `step` steps, if this worker is asked; called at all workers."""
        if request.id in self._known:
            return
        if request.worker >= self._world and self._rank == 0:
            self._refuse(request, f"there is no worker {request.worker}. Allowed: 0 to {self._world - 1}")
        if request.worker == self._rank and self._recording is None:
            self._known.add(request.id)
            try:
                self._recording = _Recording(request, step)
            except Exception as error:  # noqa: BLE001
                self._refuse(request, f"the profiler does not start: {error!r}")

    def reached(self, step: int) -> None:
        """Stop recording once the time is over; the trace is written in the background."""
        recording = self._recording
        if recording is None or not recording.is_over(step):
            return
        self._recording = None
        try:
            answer = recording.stop(step)
        except Exception as error:  # noqa: BLE001
            self._refuse(recording.request, f"the profiler does not stop: {error!r}")
            return
        self._say(f"worker {self._rank} profiled steps {answer.begin} to {answer.end}: {answer.trace}")
        threading.Thread(target=self._keep, args=(recording, answer), name="profile", daemon=True).start()

    def _keep(self, recording: _Recording, answer: ProfileAnswer) -> None:
        try:
            with tempfile.TemporaryDirectory() as scratch:
                # PyTorch compresses by the name.
                trace = Path(scratch, "trace.json.gz")
                recording.export(trace)
                self.requests.keep(recording.request, trace, answer)
        except Exception as error:  # noqa: BLE001
            self._refuse(recording.request, f"the trace was not kept: {error!r}")

    def _refuse(self, request: ProfileRequest, reason: str) -> None:
        self._known.add(request.id)
        with contextlib.suppress(OSError):
            self.requests.refuse(request, reason)


class _Recording:
    """A running profiler. Begins and ends in the thread that trains: PyTorch records the operations of this thread."""

    def __init__(self, request: ProfileRequest, step: int) -> None:
        import torch.profiler  # noqa: PLC0415 (only workers that are asked need it)

        self.request = request
        self._begin = step
        self._began = time.monotonic()
        self._profiler: Any = torch.profiler.profile(record_shapes=True)
        self._profiler.start()

    def is_over(self, step: int) -> bool:
        """Return whether the profile is long enough; it has one step at least."""
        enough = time.monotonic() - self._began >= self.request.seconds or step - self._begin >= MOST_STEPS
        return enough and step > self._begin

    def stop(self, step: int) -> ProfileAnswer:
        """Stop recording; return the answer."""
        seconds = time.monotonic() - self._began
        self._profiler.stop()
        name = f"worker-{self.request.worker}-steps-{self._begin}-{step}.json.gz"
        return ProfileAnswer(f"{_FOLDER}/{self.request.id}/{name}", self._begin, step, seconds)

    def export(self, path: Path) -> None:
        """Write the trace."""
        self._profiler.export_chrome_trace(str(path))
