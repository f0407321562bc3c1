"""Training runs that resume from their last checkpoint, whoever starts them again.

The contract with the program or person that starts a job (usually the job supervisor):

    RUN_NAME      the run: the same for every attempt, and the name of its folder; default: the job's own
    RUN_ATTEMPT   1, 2, 3, …: the number of this attempt; default: one more than the newest attempt that began
    RUN_SERIES    whose count RUN_ATTEMPT is: another submitter of the run begins with 1 again, and is continued from
                  the attempts in the storage
    RUN_STORAGE   where runs are kept: a path that every node sees (/fsx/ray/runs) or s3://bucket/prefix

A job's exit code says how it ended:

    0   the run is done, or was done before
    1   training failed or stalled (watchdog.py), or its storage failed temporarily: another attempt would resume from
        the last checkpoint
    2   the job cannot work (an invalid argument; storage that is missing, refuses access or is full; a run name in
        use): another attempt would end the same way

The files of a run:

    <RUN_STORAGE>/<RUN_NAME>/checkpoints/<step>@<attempt>.<group>/   a checkpoint, once manifest.json is in it
    <RUN_STORAGE>/<RUN_NAME>/attempts/                               which workers began, and from which checkpoint
    <RUN_STORAGE>/<RUN_NAME>/run.json                                settings that stay the same for the whole run
    <RUN_STORAGE>/<RUN_NAME>/DONE.json                               the run is done; there is no more training
    <RUN_STORAGE>/<RUN_NAME>/                                        the rest is Ray Train's own record of the run

A minimal job:

    def train(config):
        checkpoints = resume.Checkpoints(config["run"])
        model, optimizer = ...
        done = checkpoints.restore(lambda path: torch_state.load(path, model, optimizer, ...))
        for step in range(done, config["steps"]):
            ...
            if checkpoints.due(step + 1):
                checkpoints.save(step + 1, lambda path: torch_state.save(path, model, optimizer, ...), {"loss": loss})

    run = resume.Run.from_environment("my-run", "/fsx/ray/runs", every=100)
    resume.main(run, train, {"steps": 1000}, resume.workers(16, gpu=True))
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import ray.train
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.base_trainer import TrainingFailedError
from ray.train.torch import TorchConfig, TorchTrainer

from checkpoints import CheckpointStore, RunInUseError, Saved, Writer, as_json, now
from collective import agree, by_rank_0
from data_order import DataOrder
from run_storage import RunStorage, StorageError, check_writable, lasts, open_storage
from watchdog import PATIENCE, SIGN, Watchdog

DONE: Final = "DONE.json"
# Ray Train counts a bug in the code like a lost node: without a limit it would retry the bug forever.
WORKER_FAILURES: Final = 3
_TORN = (EOFError, KeyError, OSError, ValueError, pickle.UnpicklingError)
_RUN_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")
_SERIES = re.compile(r"[A-Za-z0-9-]{1,63}")


class InvalidInputError(Exception):
    """The job's input is invalid; the message says what is wrong and what is allowed."""


class RunFailedError(Exception):
    """The attempt failed; the message says why, and from where another attempt resumes."""


@contextlib.contextmanager
def first_use(storage: str, use: str) -> Iterator[None]:
    """Turn errors of `storage` in this block into errors that end the attempt; `use` is "read" or "used".

    Raises:
        InvalidInputError: another attempt would meet the same error.
        RunFailedError: another attempt may succeed.
    """
    try:
        yield
    except (StorageError, RunInUseError) as error:
        raise InvalidInputError(str(error)) from error
    except OSError as error:
        told = f"storage path {storage!r} cannot be {use}: {error.strerror or error}"
        if lasts(error):
            raise InvalidInputError(told) from error
        # Without the sign, the supervisor would take the failure of an attempt without progress for one of the code.
        raise RunFailedError(
            f"{told}. This may be temporary and counts as lost ({SIGN}): another attempt resumes"
        ) from error


@dataclass(frozen=True)
class Run:
    """One attempt of a run, with a checkpoint every `every` steps.

    `keep` says which checkpoints stay: the newest ones, or the best ones by a metric. The newest one always stays.
    """

    name: str
    storage: str
    attempt: int
    every: int
    keep: CheckpointConfig

    @classmethod
    def from_environment(
        cls, name: str, storage: str | None, *, every: int, keep: CheckpointConfig | None = None
    ) -> Run:
        """Return the run that RUN_NAME, RUN_ATTEMPT, RUN_SERIES and RUN_STORAGE name.

        Args:
            name: the run's name without RUN_NAME.
            storage: where runs are kept without RUN_STORAGE.
            every: steps between two checkpoints, 1 or more.
            keep: which checkpoints stay; by default the two newest.

        Raises:
            InvalidInputError: a variable or an argument is invalid.
            RunFailedError: the storage cannot be read now.
        """
        name = os.environ.get("RUN_NAME") or name
        storage = os.environ.get("RUN_STORAGE") or storage
        if not _RUN_NAME.fullmatch(name):
            raise InvalidInputError(
                f"run name {name!r} is invalid. Allowed: at most 63 lower-case letters, digits, dots, dashes and "
                "underscores, with a letter or digit first and last"
            )
        if not storage:
            raise InvalidInputError(
                "no storage path is given. Allowed: a path that every node sees, or s3://bucket/prefix. "
                "Fix: set --storage or RUN_STORAGE"
            )
        if every < 1:
            raise InvalidInputError(f"a checkpoint every {every} steps is invalid. Allowed: 1 or more")
        attempt, series = os.environ.get("RUN_ATTEMPT", ""), os.environ.get("RUN_SERIES", "")
        if series and not _SERIES.fullmatch(series):
            raise InvalidInputError(f"RUN_SERIES {series!r} is invalid. Allowed: letters, digits and dashes")
        if attempt and not re.fullmatch(r"[1-9]\d{0,5}", attempt):
            raise InvalidInputError(f"RUN_ATTEMPT {attempt!r} is invalid. Allowed: whole numbers from 1")
        with first_use(storage, "used" if series else "read"):
            store = CheckpointStore(open_storage(storage, name))
            if attempt and series:
                number = store.attempt_of(int(attempt), series)
            else:
                number = int(attempt or max((writer.attempt for writer in store.writers()), default=0) + 1)
        return cls(name, storage, number, every, keep or CheckpointConfig(num_to_keep=2))

    def begin(self, settings: Mapping[str, Any]) -> RunStorage:
        """Return the run's folder after checking that it is writable and belongs to a run with these settings.

        Raises:
            InvalidInputError: the storage cannot be written, or the run's name is in use.
            RunFailedError: the storage cannot be used now.
        """
        with first_use(self.storage, "used"):
            storage = open_storage(self.storage, self.name)
            check_writable(storage, self.storage)
            CheckpointStore(storage).settle(settings)
        return storage

    def is_done(self, storage: RunStorage) -> bool:
        """Return whether an attempt has finished the run, and print that it has.

        Raises:
            InvalidInputError, RunFailedError: the storage cannot be read; see `first_use`.
        """
        with first_use(self.storage, "read"):
            done = storage.read(DONE)
        if done is None:
            return False
        print(f"run {self.name} was done at {json.loads(done)['finished']}: nothing is left to do", flush=True)
        return True

    def finish(self, storage: RunStorage, outcome: Mapping[str, Any]) -> None:
        """Mark the run as done."""
        storage.put(DONE, as_json({"attempt": self.attempt, "finished": now(), **outcome}))
        print(f"run {self.name} is done (attempt {self.attempt})", flush=True)


class Checkpoints:
    """A worker's access to the run's checkpoints. All workers must call its methods together, in the same order."""

    def __init__(self, run: Run) -> None:
        """Register this group of workers.

        Raises:
            StaleAttemptError: a newer attempt of the run has begun.
            StorageError: this worker's node does not see the run's folder.
        """
        self._run = run
        self._rank = ray.train.get_context().get_world_rank()
        self._store = CheckpointStore(open_storage(run.storage, run.name))
        sees = self._store.storage.read("run.json") is not None
        agree(None if sees else f"{run.storage} on this node is not the storage that the job sees", StorageError)
        began: tuple[Writer, Saved | None, int] = by_rank_0(self._begin)
        self._writer, self._origin, self._order_version = began
        self._order: int | None = None
        self._restored = False

    def data_order(self, samples: int, batch: int, seed: int) -> DataOrder:
        """Return the run's order of samples; a run keeps the version of the order with which it began."""
        self._order = self._order_version
        return DataOrder(samples, batch, seed, self._order_version)

    def restore(self, read: Callable[[Path], None]) -> int:
        """Let `read` load the newest checkpoint from a directory; return how many steps are done (0: a fresh start)."""
        self._restored = True
        if self._origin is None:
            self._say("starts at step 0" + (": there is no checkpoint" if self._run.attempt > 1 else ""))
            return 0
        started = time.monotonic()
        with self._store.storage.reading(self._origin.folder) as directory:
            read(directory)
        self._say(
            f"resumes from step {self._origin.step} ({self._origin.name}, read in {time.monotonic() - started:.2f} s)"
        )
        return self._origin.step

    def due(self, step: int, *, last: bool = False) -> bool:
        """Return whether a checkpoint is due after `step` steps."""
        return last or step % self._run.every == 0

    def save(self, step: int, write: Callable[[Path], None], metrics: Mapping[str, Any]) -> None:
        """Let `write` write this worker's part into a directory, commit the checkpoint, and report it to Ray Train.

        A metric is anything that JSON can hold, or a tensor or NumPy value with one element.

        Raises:
            OSError: some worker could not write. The earlier checkpoints are untouched.
            StaleAttemptError: newer workers have begun.
            TypeError: a metric is neither.
        """
        metrics = {name: _plain(name, value) for name, value in metrics.items()}
        if self._origin and not self._restored:
            self._restored = True
            self._say(
                f"warning: nothing was loaded from {self._origin.name}. Fix: call `restore` before the first step"
            )
        saved = Saved(step, self._writer)
        started = time.monotonic()
        failure = None
        try:
            with self._store.storage.writing(saved.folder) as directory:
                write(directory)
        except OSError as error:
            failure = f"checkpoint of step {step}: {error}"
        try:
            agree(failure, OSError)
            by_rank_0(lambda: self._store.commit(saved, metrics, self._order))
        except OSError:
            if self._rank == 0:
                self._store.storage.remove(saved.folder)
            raise
        if self._rank == 0:
            self._store.prune(self._run.keep)
        seconds = time.monotonic() - started
        self._say(f"checkpoint of step {step} written in {seconds:.2f} s")
        ray.train.report({**metrics, "step": step, "checkpoint_seconds": seconds})

    def _begin(self) -> tuple[Writer, Saved | None, int]:
        writer, origin = self._store.begin(self._run.attempt)
        return writer, origin, self._store.data_order(origin)

    def _say(self, text: str) -> None:
        if self._rank == 0:
            print(f"run {self._run.name} attempt {self._writer}: {text}", flush=True)


def main(
    run: Run,
    train: Callable[[dict[str, Any]], None],
    settings: Mapping[str, Any],
    scaling: ScalingConfig,
    *,
    worker_failures: int = WORKER_FAILURES,
    patience: float = PATIENCE,
    torch_config: TorchConfig | None = None,
) -> NoReturn:
    """Train until the run is done and end the program: 0 done, 1 failed, 2 bad input.

    Args:
        train: the train function; its argument is `settings` and, as "run", the run.
        settings: values that must stay the same for the whole run; JSON must be able to hold them.
        worker_failures: how often Ray Train restarts the workers within this attempt.
        patience: seconds without progress (no workers began, no file of a checkpoint appeared or grew) after which
            the attempt ends with 1. It must exceed the time between two checkpoints plus a restart: noticing the
            loss, waiting for nodes, starting the workers, reading the checkpoint.
        torch_config: Ray Train's settings of the process group, such as the seconds after which a collective operation
            fails (`TorchConfig(timeout_s=…)`, 1800).
    """
    try:
        with first_use(run.storage, "read"):
            store = CheckpointStore(open_storage(run.storage, run.name))
        with Watchdog(f"{run.name}: attempt {run.attempt}", partial(store.left_by, run.attempt), patience):
            fit(run, train, settings, scaling, worker_failures=worker_failures, torch_config=torch_config)
    except InvalidInputError as error:
        print(f"{run.name}: {error}", file=sys.stderr, flush=True)
        sys.exit(2)
    except RunFailedError as error:
        print(f"{run.name}: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
    sys.exit(0)


def fit(
    run: Run,
    train: Callable[[dict[str, Any]], None],
    settings: Mapping[str, Any],
    scaling: ScalingConfig,
    *,
    worker_failures: int = WORKER_FAILURES,
    torch_config: TorchConfig | None = None,
) -> None:
    """Train until the run is done; do nothing if it is done already. See `main`.

    Raises:
        InvalidInputError: the storage cannot be written, or the run's name is in use.
        RunFailedError: training failed, or the storage at its start.
    """
    storage = run.begin(settings)
    if run.is_done(storage):
        return
    store = CheckpointStore(storage)
    try:
        # Not as train_loop_config: Ray Train would restore that of the earlier attempt.
        _fit(run, partial(train, {**settings, "run": run}), scaling, worker_failures, torch_config)
    except (TrainingFailedError, *_TORN) as error:
        # _TORN: on a full file system Ray Train cannot read its own record of the failure, and raises another error.
        last = next(store.history(), None)
        where = f"the last checkpoint is {last.name}" if last else "there is no checkpoint"
        raise RunFailedError(f"attempt {run.attempt} failed; {where}. {_cause(error)}") from error
    last = next(store.history(), None)
    manifest = store.manifest(last) if last else None
    run.finish(storage, {"checkpoint": last and last.name, "metrics": manifest["metrics"] if manifest else {}})


def workers(number: int, *, cpus: float = 1, gpu: bool = False) -> ScalingConfig:
    """Return the scaling of `number` workers, each with `cpus` CPUs and, with `gpu`, one GPU."""
    resources = {"CPU": cpus} | ({"GPU": 1} if gpu else {})
    try:
        # Otherwise Ray Train's coordinator needs a CPU, and workers that fill their pods are never scheduled.
        return ScalingConfig(
            num_workers=number, trainer_resources={"CPU": 0}, use_gpu=gpu, resources_per_worker=resources
        )
    except DeprecationWarning:  # Ray Train V2 has no such coordinator.
        return ScalingConfig(num_workers=number, use_gpu=gpu, resources_per_worker=resources)


def _fit(
    run: Run,
    train: Callable[[], None],
    scaling: ScalingConfig,
    worker_failures: int,
    torch_config: TorchConfig | None,
) -> None:
    """Train with Ray Train's own record of the run, continued or new. The model is in the checkpoints, not in it."""
    path = f"{run.storage.rstrip('/')}/{run.name}"
    try:
        restored = TorchTrainer.can_restore(path) and TorchTrainer.restore(
            path, train_loop_per_worker=train, scaling_config=scaling, torch_config=torch_config
        )
        if restored:
            restored.fit()
            return
    except DeprecationWarning:
        pass  # Ray Train V2 finds the run by its name.
    except _TORN as error:
        if any(
            writer.attempt == run.attempt for writer in CheckpointStore(open_storage(run.storage, run.name)).writers()
        ):
            raise
        # Ray Train does not write its files atomically: the writer may have been killed while writing.
        print(f"run {run.name}: Ray Train's record of the earlier attempts is unreadable, a new one begins ({error!r})")
    TorchTrainer(
        train,
        torch_config=torch_config,
        scaling_config=scaling,
        run_config=RunConfig(
            name=run.name,
            storage_path=run.storage,
            failure_config=FailureConfig(max_failures=worker_failures),
        ),
    ).fit()


def _plain(name: str, value: Any) -> Any:
    """Return a metric as JSON holds it; `item` is the method of tensors and NumPy's values."""
    if getattr(value, "size", None) is not None and callable(getattr(value, "item", None)):
        with contextlib.suppress(ValueError, RuntimeError):
            return value.item()
    else:
        with contextlib.suppress(TypeError, ValueError):
            json.dumps(value)
            return value
    raise TypeError(f"metric {name!r} of {type(value)} is invalid. Allowed: values of JSON; one number of a tensor")


def _cause(error: BaseException) -> str:
    """Return the last line of the error that Ray Train wraps: the train function's error, or what was lost."""
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[-1] if lines else repr(error)
