"""One attempt of a run: its name, number and storage, from the environment."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ray_resume import warm_start
from ray_resume.checkpoint_store import CheckpointStore, Keep, RunInUseError, as_json, now
from ray_resume.extending import DONE
from ray_resume.storage import (
    RunStorage,
    StorageError,
    check_writable,
    damaged,
    lasts,
    open_storage,
    reason,
    record,
)
from ray_resume.watchdog import SIGN

if TYPE_CHECKING:
    from ray.train import CheckpointConfig

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
        message = f"storage path {storage!r} cannot be {use}: {reason(error)}"
        if lasts(error):
            raise InvalidInputError(
                f"{message}. Fix: mend the path, its rights or its space; or set RUN_STORAGE"
            ) from error
        # Without the sign, the supervisor would take the failure of an attempt without progress for one of the code.
        raise RunFailedError(
            f"{message}. This may be temporary and counts as lost ({SIGN}): another attempt resumes"
        ) from error


@dataclass(frozen=True)
class Run:
    """One attempt of a run, with a checkpoint every `every` steps.

    `keep` says which checkpoints stay: the newest ones, or the best ones by a metric. The newest one always stays.
    `warm_from` is the folder of another run, with whose weights this one starts; None: with the script's own.
    `memory_every` and `memory_tier`: a checkpoint into the memory of the nodes every so many steps, and its address.
    """

    name: str
    storage: str
    attempt: int
    every: int
    keep: CheckpointConfig | Keep
    warm_from: str | None = None
    memory_every: int | None = None
    memory_tier: str | None = None

    @classmethod
    def from_environment(
        cls,
        name: str,
        storage: str | None,
        *,
        every: int,
        keep: CheckpointConfig | Keep | None = None,
        warm_from: str | None = None,
        memory_every: int | None = None,
    ) -> Run:
        """Return the run that RUN_NAME, RUN_ATTEMPT, RUN_SERIES and RUN_STORAGE name.

        Args:
            name: the run's name without RUN_NAME.
            storage: where runs are kept without RUN_STORAGE; None: RUN_STORAGE must be set.
            every: steps between two checkpoints, 1 or more.
            keep: which checkpoints stay; by default the two newest.
            warm_from: the run with whose weights this run starts, by its folder, or by its name in the same storage.
            memory_every: steps between two checkpoints in the memory of the nodes, at the address RUN_MEMORY_TIER.
                Without that variable there are none.

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
        if memory_every is not None and memory_every < 1:
            raise InvalidInputError(f"a checkpoint in memory every {memory_every} steps is invalid. Allowed: 1 or more")
        attempt, series = _counted()
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
        warm_from = warm_from and warm_start.folder_of(warm_from, storage)
        keep = keep or Keep(num_to_keep=2)
        memory_tier = os.environ.get("RUN_MEMORY_TIER") or None
        return cls(name, storage, number, every, keep, warm_from, memory_every, memory_tier)

    def begin(self, settings: Mapping[str, Any], may_grow: Collection[str] = ()) -> RunStorage:
        """Return the run's folder after checking that it is writable and belongs to a run with these settings.

        The numbers of the settings in `may_grow` may be larger than they were.

        Raises:
            InvalidInputError: the storage cannot be written, the run's name is in use, or its checkpoints are damaged.
            RunFailedError: the storage cannot be used now.
        """
        with first_use(self.storage, "used"):
            storage = open_storage(self.storage, self.name)
            check_writable(storage, self.storage)
            store = CheckpointStore(storage)
            if self.warm_from:
                settings = {**settings, warm_start.WARM_FROM: warm_start.chosen(store, self.warm_from)}
            store.settle(settings, may_grow)
            store.require_whole()
        return storage

    def is_done(self, storage: RunStorage) -> bool:
        """Return whether an attempt has finished the run, and print that it has.

        Raises:
            InvalidInputError, RunFailedError: the storage cannot be read; see `first_use`.
        """
        with first_use(self.storage, "read"):
            done = record(storage, DONE)
            if done is None:
                return False
            if "finished" not in done:
                raise damaged(storage, DONE, "does not say when the run was done")
        print(f"run {self.name} was done at {done['finished']}: nothing is left to do", flush=True)
        return True

    def finish(self, storage: RunStorage, outcome: Mapping[str, Any]) -> None:
        """Mark the run as done."""
        storage.put(DONE, as_json({"attempt": self.attempt, "finished": now(), **outcome}))
        print(f"run {self.name} is done (attempt {self.attempt})", flush=True)


def _counted() -> tuple[str, str]:
    """Return RUN_ATTEMPT and RUN_SERIES; without them, Slurm's count of the job's starts."""
    attempt, series = os.environ.get("RUN_ATTEMPT", ""), os.environ.get("RUN_SERIES", "")
    job = os.environ.get("SLURM_JOB_ID", "")
    if attempt or series or not job:
        return attempt, series
    return str(int(os.environ.get("SLURM_RESTART_COUNT") or 0) + 1), f"slurm-{job}"
