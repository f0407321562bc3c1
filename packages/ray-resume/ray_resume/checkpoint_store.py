"""The checkpoints of one run: which exist, from which one to resume, and who may add one.

    <storage>/<run>/attempts/0002.01.json                        workers that began, and where they resumed
    <storage>/<run>/checkpoints/000000120@0002.01/…              what these workers wrote after step 120
    <storage>/<run>/checkpoints/000000120@0002.01/manifest.json  written last: only then does the checkpoint exist
    <storage>/<run>/series/<id>.json                             where a submitter's own count of attempts begins

`0002.01` is the first group of workers of the run's attempt 2. Everything that a group writes carries the group's
number. Workers that were given up but still run (a frozen node, a broken network) can therefore neither overwrite their
successors' files nor finish their successors' checkpoints. A checkpoint that they finish late is in no history.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from ray_resume import data_order, extending
from ray_resume.storage import RunStorage

if TYPE_CHECKING:
    from ray.train import CheckpointConfig

MANIFEST = "manifest.json"
_WRITER = re.compile(r"(?P<attempt>\d{4,})\.(?P<group>\d{2,})")
_NAME = re.compile(rf"(?P<step>\d{{9,}})@{_WRITER.pattern}")


class StaleAttemptError(Exception):
    """A newer attempt of the run has begun: this attempt must not write any more."""


class RunInUseError(Exception):
    """The run's name belongs to a run with other settings."""


@dataclass(frozen=True, order=True)
class Writer:
    """A group of workers: the `group`-th that began within the run's attempt."""

    attempt: int
    group: int

    def __str__(self) -> str:
        return f"{self.attempt:04}.{self.group:02}"

    @classmethod
    def parse(cls, name: str) -> Writer | None:
        found = _WRITER.fullmatch(name)
        return found and cls(int(found["attempt"]), int(found["group"]))


@dataclass(frozen=True)
class Saved:
    """A checkpoint: the steps that were done when `writer` wrote it."""

    step: int
    writer: Writer

    @property
    def name(self) -> str:
        return f"{self.step:09}@{self.writer}"

    @property
    def folder(self) -> str:
        return f"checkpoints/{self.name}"

    @classmethod
    def parse(cls, name: str) -> Saved | None:
        found = _NAME.fullmatch(name)
        return found and cls(int(found["step"]), Writer(int(found["attempt"]), int(found["group"])))


@dataclass(frozen=True)
class Keep:
    """Which checkpoints of a run stay: the `num_to_keep` newest ones (None: all), or the best ones by a metric.

    Its fields have the names of those of Ray Train's `CheckpointConfig`, which a run takes, too.
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: Literal["max", "min"] = "max"


class CheckpointStore:
    """The content of a run's folder. Only one process at a time changes it: rank 0 of the newest group of workers."""

    def __init__(self, storage: RunStorage) -> None:
        self.storage = storage

    def writers(self) -> list[Writer]:
        """Return all groups of workers that ever began, oldest first."""
        names = (name.removesuffix(".json").split(".") for name in self.storage.names("attempts"))
        return sorted(Writer(int(attempt), int(group)) for attempt, group in names)

    def left_by(self, attempt: int) -> dict[str, int]:
        """Return the size in bytes of each file that an attempt's workers have written, by name.

        These are the records of their start and the files of their checkpoints, finished or not. Files that workers
        of an earlier attempt still write are not included.
        """
        began = {f"{writer}.json" for writer in self.writers() if writer.attempt == attempt}
        left = {f"attempts/{name}": size for name, size in self.storage.sizes("attempts").items() if name in began}
        for name in self.storage.names("checkpoints"):
            saved = Saved.parse(name)
            if saved and saved.writer.attempt == attempt:
                left |= {f"{saved.folder}/{file}": size for file, size in self.storage.sizes(saved.folder).items()}
        return left

    def attempt_of(self, given: int, series: str) -> int:
        """Return the run's number of the attempt that its submitter gave the number `given` within a series.

        Each submitter of a run counts its own series of attempts. A new series continues after all attempts that have
        begun, so that the run resumes; later attempts of an earlier series stay older than those of the new one.
        """
        name = f"series/{series}.json"
        known = self.storage.read(name)
        if known is not None:
            return given + int(json.loads(known)["before"])
        newest = max((writer.attempt for writer in self.writers()), default=0)
        before = max(0, newest + 1 - given)
        self.storage.put(name, as_json({"before": before}))
        return given + before

    def settle(self, settings: Mapping[str, Any], may_grow: Collection[str] = ()) -> None:
        """Save the settings that must stay the same for the whole run; numbers in `may_grow` may become larger.

        A run that was done with the smaller number is not done with the larger one.

        Raises:
            RunInUseError: the run began with other settings.
        """
        mine = json.loads(json.dumps(dict(settings)))
        known = self.storage.read("run.json")
        if known is None:
            self.storage.put("run.json", as_json(mine))
            return
        before = json.loads(known)
        changed = [key for key in sorted(before.keys() | mine.keys()) if before.get(key) != mine.get(key)]
        other = [key for key in changed if not (key in may_grow and extending.grows(before.get(key), mine.get(key)))]
        if other:
            told = ", ".join(f"{key} {before.get(key)!r} then, {mine.get(key)!r} now" for key in other)
            raise RunInUseError(
                f"the run began with other settings ({told}). Fix: use those settings again, or choose another run name"
            )
        if changed:
            extending.reopen(self.storage)
            self.storage.put("run.json", as_json(mine))

    def begin(self, attempt: int, held: Saved | None = None) -> tuple[Writer, Saved | None]:
        """Register a new group of workers; return it and the checkpoint from which it resumes (None: step 0).

        `held` is a checkpoint that the workers have outside the storage, in the memory of their nodes.

        Raises:
            StaleAttemptError: a newer attempt has begun.
        """
        newest = max(self.writers(), default=Writer(attempt, 0))
        if newest.attempt > attempt:
            raise StaleAttemptError(f"attempt {newest.attempt} has begun: attempt {attempt} ends here")
        history = self.history([held] if held else ())
        origin = next((saved for saved in history if saved == held or self.is_whole(saved)), None)
        writer = Writer(attempt, newest.group + 1 if newest.attempt == attempt else 1)
        record = {"began": now(), "resumed_from": origin and origin.name}
        self.storage.put(f"attempts/{writer}.json", as_json(record))
        self._remove_leftovers(writer)
        return writer, origin

    def data_order(self, origin: Saved | None) -> int:
        """Return the version of the order of data for workers that resume from `origin`."""
        if origin is None:
            return data_order.NEWEST
        manifest = self.manifest(origin) or {}
        return int(manifest.get("data_order") or data_order.SHUFFLED)

    def commit(self, saved: Saved, metrics: Mapping[str, Any], order: int | None = None) -> None:
        """Write the manifest of a checkpoint whose files are all written: then the checkpoint exists.

        `order` is the version of the order of data that the workers use, if they use one.

        Raises:
            StaleAttemptError: newer workers have begun.
        """
        newest = max(self.writers())
        if newest != saved.writer:
            self.storage.remove(saved.folder)
            raise StaleAttemptError(f"workers {newest} have begun: {saved.writer} must not add a checkpoint")
        files = self.storage.sizes(saved.folder)
        manifest = {"step": saved.step, "written": now(), "metrics": dict(metrics), "files": files}
        if order is not None:
            manifest["data_order"] = order
        self.storage.put(f"{saved.folder}/{MANIFEST}", as_json(manifest))

    def committed(self) -> list[Saved]:
        """Return every checkpoint that exists, in the order of steps."""
        found = (Saved.parse(name) for name in self.storage.names("checkpoints"))
        return [saved for saved in found if saved and self.manifest(saved)]

    def manifest(self, saved: Saved) -> dict[str, Any] | None:
        """Return the manifest; None if the checkpoint was never finished."""
        content = self.storage.read(f"{saved.folder}/{MANIFEST}")
        return None if content is None else json.loads(content)

    def outcome(self) -> dict[str, Any]:
        """Return the name of the newest checkpoint and its metrics, as in DONE.json."""
        last = next(self.history(), None)
        manifest = self.manifest(last) if last else None
        return {"checkpoint": last and last.name, "metrics": manifest["metrics"] if manifest else {}}

    def is_whole(self, saved: Saved) -> bool:
        """Return whether all files in the manifest exist in their full size."""
        manifest = self.manifest(saved)
        return manifest is not None and manifest["files"].items() <= self.storage.sizes(saved.folder).items()

    def history(self, held: Collection[Saved] = ()) -> Iterator[Saved]:
        """Yield the checkpoints that led to the run's current state, newest first.

        These are the checkpoints of the newest workers, then the one from which they resumed and the earlier ones of
        its writers, and so on. A checkpoint that workers added after their successors had begun is not included.
        Those in `held` count like committed ones.
        """
        committed = sorted({*self.committed(), *held}, key=lambda saved: saved.step)
        parents = {writer: self._origin(writer) for writer in self.writers()}
        writer = max(parents, default=None)
        last_step: float = float("inf")
        while writer is not None:
            own = [saved for saved in committed if saved.writer == writer and saved.step <= last_step]
            yield from reversed(own)
            origin = parents.get(writer)
            writer, last_step = (origin.writer, origin.step) if origin else (None, 0)

    def prune(self, config: CheckpointConfig | Keep) -> None:
        """Remove what `config` does not keep; the newest checkpoint always stays."""
        history = list(self.history())
        keep = set(history[:1]) | set(_ranked(self, history, config)[: config.num_to_keep])
        for saved in self.committed():
            if saved not in keep:
                self.storage.remove(saved.folder)

    def _origin(self, writer: Writer) -> Saved | None:
        content = self.storage.read(f"attempts/{writer}.json")
        name = json.loads(content)["resumed_from"] if content else None
        return Saved.parse(name) if name else None

    def _remove_leftovers(self, writer: Writer) -> None:
        """Remove the unfinished checkpoints of earlier workers."""
        for name in self.storage.names("checkpoints"):
            saved = Saved.parse(name)
            if saved and saved.writer < writer and self.manifest(saved) is None:
                self.storage.remove(saved.folder)


def _ranked(store: CheckpointStore, history: list[Saved], config: CheckpointConfig | Keep) -> list[Saved]:
    attribute = config.checkpoint_score_attribute
    if attribute is None:
        return history
    worst = float("-inf")
    sign = 1 if config.checkpoint_score_order == "max" else -1

    def score(saved: Saved) -> float:
        value = ((store.manifest(saved) or {}).get("metrics") or {}).get(attribute)
        return worst if value is None or math.isnan(value) else sign * float(value)

    return sorted(history, key=score, reverse=True)


def as_json(content: Mapping[str, Any]) -> bytes:
    """Return a record of a run's folder as JSON."""
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()


def now() -> str:
    """Return the current time for a record, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
