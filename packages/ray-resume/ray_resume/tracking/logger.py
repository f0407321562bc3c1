"""What all loggers have in common: results are sent by a thread, again and again until the tracker takes them."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

from ray.tune import Callback
from ray.tune.result import AUTO_RESULT_KEYS, DEBUG_METRICS, DEFAULT_EXPERIMENT_INFO_KEYS, DONE, SHOULD_CHECKPOINT

from ray_resume.checkpoint_store import CheckpointStore
from ray_resume.runs import Run
from ray_resume.storage import open_storage

STEP: Final = "step"

_NOT_METRICS: Final = {
    *AUTO_RESULT_KEYS,
    *DEBUG_METRICS,
    *DEFAULT_EXPERIMENT_INFO_KEYS,
    DONE,
    SHOULD_CHECKPOINT,
    STEP,
}
_RETRY_SECONDS: Final = 15.0
_LAST_SECONDS: Final = 60.0
_LAST_RETRY_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Result:
    """What the workers reported after a step; `at` is in seconds since the epoch."""

    step: int
    metrics: Mapping[str, float]
    at: float


class Logger(Callback):  # type: ignore[misc]  # Ray publishes no types here
    """Logs what workers report: the metrics of each checkpoint, and those of their own `ray.train.report({"step": …})`.

    A tracker that is slow or away delays no step and ends no training. It also gets the metrics of the newest
    checkpoint if the program was killed before it could send them.
    """

    settings: ClassVar[tuple[str, ...]] = ("_run", "_storage")
    """The attributes that Ray keeps in its record of the run: later attempts begin with these."""

    _unsent: queue.Queue[Result | None] | None = None
    _done = False

    def __init__(self, run: Run) -> None:
        self._run = run.name
        self._storage = run.storage

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.settings}

    @abstractmethod
    def open(self, store: CheckpointStore) -> None:
        """Find the run's record at the tracker, or make one. Called again after an error."""

    @abstractmethod
    def log(self, result: Result) -> None:
        """Send a result; called again after an error. Workers that resume repeat steps."""

    @abstractmethod
    def close(self, *, done: bool) -> None:
        """Record the end of this attempt; `done`: all steps are trained. Called again after an error."""

    def setup(self, *_: Any, **__: Any) -> None:
        """Begin an attempt; Ray calls it."""
        self._unsent = queue.Queue()
        # Now, because workers will have newer checkpoints by the time the tracker answers.
        with contextlib.suppress(OSError):
            self._take_newest_checkpoint(self._unsent)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._send, args=(self._unsent,), name="logger", daemon=True)
        self._thread.start()

    def on_trial_result(self, *_: Any, result: Mapping[str, Any], **__: Any) -> None:
        """Take a result; Ray calls it."""
        if self._unsent and STEP in result:
            self._unsent.put(Result(int(result[STEP]), numbers(result), time.time()))

    def on_experiment_end(self, trials: Any, **_: Any) -> None:
        """Send what is left, within a minute; Ray calls it."""
        if self._unsent is None:
            return
        self._done = all(trial.status == "TERMINATED" for trial in trials)
        self._ending.set()
        self._unsent.put(None)
        self._thread.join(_LAST_SECONDS)
        if self._thread.is_alive():
            self._say("the end of the attempt is not logged: the tracker does not answer")
        self._unsent = None

    def _send(self, unsent: queue.Queue[Result | None]) -> None:
        if not self._try(lambda: self.open(self._store())):
            return
        while (result := unsent.get()) is not None:
            if not self._try(partial(self.log, result)):
                return
        self._try(lambda: self.close(done=self._done))

    def _take_newest_checkpoint(self, unsent: queue.Queue[Result | None]) -> None:
        """Log its metrics: an earlier attempt may have been killed before it could."""
        store = self._store()
        newest = next(store.history(), None)
        manifest = store.manifest(newest) if newest else None
        if newest and manifest:
            unsent.put(Result(newest.step, numbers(manifest["metrics"]), time.time()))

    def _store(self) -> CheckpointStore:
        return CheckpointStore(open_storage(self._storage, self._run))

    def _try(self, call: Callable[[], None]) -> bool:
        """Call until there is no error; at the end of the attempt, for one more minute. Return whether it succeeded."""
        reported, last = "", 0.0
        while True:
            try:
                call()
            except Exception as error:  # noqa: BLE001 (what logs a training must not end it)
                if reported != (reported := repr(error)):
                    self._say(f"not logged yet: {reported[:300]}")
            else:
                return True
            if self._ending.is_set():
                last = last or time.monotonic() + _LAST_SECONDS
                if time.monotonic() >= last:
                    return False
                time.sleep(_LAST_RETRY_SECONDS)
            self._ending.wait(_RETRY_SECONDS)

    def _say(self, text: str) -> None:
        print(f"run {self._run}: warning: {type(self).__name__}: {text}", flush=True)


def numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a result that are numbers, without those that Ray adds."""
    found: dict[str, float] = {}
    for name, value in result.items():
        if name not in _NOT_METRICS and not isinstance(value, (bool, str)):
            with contextlib.suppress(TypeError, ValueError):
                found[name] = float(value)
    return found
