"""Requests to save a checkpoint now, from whoever is about to end a run's workers or just wants one.

    <storage>/<run>/requests/<id>/request.json    until when it counts, and how long the workers wait after the save
    <storage>/<run>/requests/<id>/promise.json    the checkpoint that will have all steps that were done by then

All workers must save after the same step, but only rank 0 looks for requests, in a thread: slow storage delays no step.
At some steps the workers ask rank 0 in one collective call. Its answer has three parts: whether they save now, how long
they wait afterwards, and at which step they ask again. So all of them ask at the same steps, with no call in between.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ray_resume.checkpoint_store import CheckpointStore, Saved, Writer, as_json
from ray_resume.collective import by_rank_0
from ray_resume.extending import DONE
from ray_resume.requests import profiles

POLL_SECONDS: Final = 2.0
"""About how often rank 0 looks for requests, and the workers ask it."""

_FOLDER: Final = "requests"
_POLL_SECONDS: Final = 0.5
_LONGEST_HOLD_SECONDS: Final = 600.0

_Queries = list[tuple[Callable[[], list[Any]], list[Any]]]
"""What finds open requests, each with the list that has the newest answer."""


@dataclass(frozen=True)
class Request:
    """A request that counts `until` a time in seconds since the epoch; workers wait `hold` seconds after the save."""

    id: str
    until: float
    hold: float


class SaveRequests:
    """The requests of one run. Every method raises OSError if the storage fails."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._storage = store.storage

    def save_now(self, *, seconds: float, hold: float = 0.0) -> Saved | None:
        """Ask the run to save; return the checkpoint, or None if none was committed within `seconds`.

        With `hold`, the workers wait so many seconds after the save (600 at most) instead of training on: no step is
        lost if they are ended meanwhile.
        """
        id = uuid.uuid4().hex
        until = time.time() + seconds
        self._storage.put(f"{_FOLDER}/{id}/request.json", as_json({"until": until, "hold": hold}))
        deadline = time.monotonic() + seconds
        while (saved := self.answer(id)) is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if saved is None or not hold:
            self._storage.remove(f"{_FOLDER}/{id}")
        return saved

    def answer(self, id: str) -> Saved | None:
        """Return the newest checkpoint if it answers a request: it has all steps that were done when rank 0 read it.

        The last checkpoint of a run that is done answers every request.
        """
        promise = self._storage.read(f"{_FOLDER}/{id}/promise.json")
        promised = Saved.parse(json.loads(promise)["checkpoint"]) if promise else None
        if promised is None and self._storage.read(DONE) is None:
            return None
        newest = next(self._store.history(), None)
        return newest if newest and (promised is None or newest.step >= promised.step) else None

    def promise(self, id: str, saved: Saved) -> None:
        """Name the checkpoint that will answer a request."""
        self._storage.put(f"{_FOLDER}/{id}/promise.json", as_json({"checkpoint": saved.name}))

    def open(self) -> list[Request]:
        """Return the requests that no checkpoint has answered; remove those that no longer count."""
        return [request for request in self._all() if self.answer(request.id) is None]

    def _all(self) -> Iterator[Request]:
        for id in self._storage.names(_FOLDER):
            content = self._storage.read(f"{_FOLDER}/{id}/request.json")
            if content is None:
                continue
            asked = json.loads(content)
            if asked["until"] < time.time():
                self._storage.remove(f"{_FOLDER}/{id}")
            else:
                yield Request(id, float(asked["until"]), min(float(asked["hold"]), _LONGEST_HOLD_SECONDS))


class Requested:
    """The workers' side of the requests. All workers must call its methods together, in the same order."""

    def __init__(self, requests: SaveRequests, writer: Writer, rank: int, recorder: profiles.Recorder) -> None:
        """Let rank 0 look for requests from now on; those for profiles go to this worker's `recorder`."""
        self._requests = requests
        self._writer = writer
        self._recorder = recorder
        self._ask_at = 0
        self._hold = 0.0
        self._asked: tuple[int, float] | None = None
        self._promised: set[str] = set()
        self._found: list[Request] = []
        self._wanted: list[profiles.ProfileRequest] = []
        if rank == 0:
            # The thread must not hold `self`, so that it ends with it.
            over = threading.Event()
            weakref.finalize(self, over.set)
            queries: _Queries = [(requests.open, self._found), (recorder.requests.open, self._wanted)]
            threading.Thread(target=_poll, args=(queries, over), name="requests", daemon=True).start()

    def at(self, step: int, *, saves: bool) -> bool:
        """Return whether workers save after `step` because of a request; `saves`: they do in any case."""
        self._recorder.reached(step)
        if step < self._ask_at and not saves:
            return False
        requested, self._hold, self._ask_at, wanted = by_rank_0(lambda: self._decide(step))
        for each in wanted:
            self._recorder.begin(each, step)
        return bool(requested)

    @property
    def holds(self) -> bool:
        """Return whether the workers wait after this save: the same answer at all of them."""
        return self._hold > 0

    def wait(self, step: int, say: Callable[[str], None]) -> None:
        """Wait after the save of `step` for as long as its requests want: somebody is about to end the workers."""
        if not self._hold:
            return
        say(f"waits {self._hold:g} s at step {step}, as asked: its workers are about to be ended")
        over, self._hold = time.monotonic() + self._hold, 0.0
        # In short collective calls, because those have a time-out.
        while by_rank_0(lambda: self._waits(step, over)):
            pass

    def _decide(self, step: int) -> tuple[bool, float, int, list[profiles.ProfileRequest]]:
        requests = self._promise(step)
        hold = max((each.hold for each in requests), default=0.0)
        return bool(requests), hold, step + self._steps_until_next(step), list(self._wanted)

    def _waits(self, step: int, over: float) -> bool:
        # Requests that arrive meanwhile have their checkpoint already.
        self._promise(step)
        time.sleep(max(0.0, min(_POLL_SECONDS, over - time.monotonic())))
        return time.monotonic() < over

    def _promise(self, step: int) -> list[Request]:
        """Promise the checkpoint of `step` to all new requests; return those that storage let be promised."""
        promised = []
        for request in [each for each in list(self._found) if each.id not in self._promised]:
            with contextlib.suppress(OSError):
                self._requests.promise(request.id, Saved(step, self._writer))
                self._promised.add(request.id)
                promised.append(request)
        return promised

    def _steps_until_next(self, step: int) -> int:
        """Return how many steps take about POLL_SECONDS; at most twice as many as between the last two calls."""
        now = time.monotonic()
        before, self._asked = self._asked, (step, now)
        if before is None:
            return 1
        steps, seconds = step - before[0], max(now - before[1], 1e-9)
        return max(1, min(2 * steps, int(steps * POLL_SECONDS / seconds)))


def _poll(queries: _Queries, over: threading.Event) -> None:
    while not over.is_set():
        for query, found in queries:
            # Whatever the error is, the next look may succeed.
            with contextlib.suppress(Exception):
                found[:] = query()
        over.wait(POLL_SECONDS)
