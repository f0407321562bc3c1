"""The checkpoints of one run: which exist, from which one to resume, and who may add one.

    <storage>/<run>/attempts/0002.01.json                        workers that began, where they resumed, what they
                                                                 saved first
    <storage>/<run>/checkpoints/000000120@0002.01/…              what these workers wrote after step 120
    <storage>/<run>/checkpoints/000000120@0002.01/manifest.json  written last, with the size and SHA-256 of each file:
                                                                 only then does the checkpoint exist
    <storage>/<run>/series/<id>.json                             where a submitter's own count of attempts begins

`0002.01` is the first group of workers of the run's attempt 2. Everything that a group writes carries the group's
number. Workers that were given up but still run (a frozen node, a broken network) can therefore neither overwrite their
successors' files nor finish their successors' checkpoints. A checkpoint that they finish late is in no history.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from ray_resume import data_order, extending
from ray_resume.storage import DamagedError, RunStorage, damaged, lasts, record

if TYPE_CHECKING:
    from ray.train import CheckpointConfig

MANIFEST = "manifest.json"
_FIRST = "first_checkpoint"
_START_OVER = "to start over, choose another run name or remove the run's folder"
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
        self._began: Writer | None = None
        self._loaded: Saved | None = None
        self._recorded = False

    def writers(self) -> list[Writer]:
        """Return all groups of workers that ever began, oldest first."""
        named = (Writer.parse(name.removesuffix(".json")) for name in self.storage.names("attempts"))
        return sorted(writer for writer in named if writer)

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
        known = record(self.storage, name)
        if known is not None:
            return given + int(known["before"])
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
        before = record(self.storage, "run.json")
        if before is None:
            self.storage.put("run.json", as_json(mine))
            return
        changed = [key for key in sorted(before.keys() | mine.keys()) if before.get(key) != mine.get(key)]
        other = [key for key in changed if not (key in may_grow and extending.grows(before.get(key), mine.get(key)))]
        if other:
            diff = ", ".join(f"{key} {before.get(key)!r} then, {mine.get(key)!r} now" for key in other)
            raise RunInUseError(
                f"the run began with other settings ({diff}). Fix: use those settings again, or choose another run name"
            )
        if changed:
            extending.reopen(self.storage)
            self.storage.put("run.json", as_json(mine))

    def begin(
        self, attempt: int, choose: Callable[[Sequence[Saved]], Saved | None] | None = None, held: Saved | None = None
    ) -> tuple[Writer, Saved | None]:
        """Register a new group of workers; return it and the checkpoint from which it resumes (None: step 0).

        `choose` chooses from `candidates`; by default it takes the first whole one. `held` is a checkpoint that the
        workers have outside the storage, in the memory of their nodes.

        Raises:
            StaleAttemptError: a newer attempt has begun.
            DamagedError: the run has checkpoints, and none of them is whole.
        """
        self.require_newest(attempt)
        origin = (choose or self.first_whole)(self.candidates(held))
        # Folders, too: without its record, a group's number would be taken twice.
        folders = (saved.writer for saved in self.committed() if saved.writer.attempt <= attempt)
        newest = max((*self.writers(), *folders), default=Writer(attempt, 0))
        writer = Writer(attempt, newest.group + 1 if newest.attempt == attempt else 1)
        self.storage.put(f"attempts/{writer}.json", as_json({"began": now(), "resumed_from": origin and origin.name}))
        self._began, self._loaded = writer, origin
        self._remove_leftovers(writer)
        return writer, origin

    def require_newest(self, attempt: int) -> None:
        """Raise StaleAttemptError if a newer attempt of the run has begun."""
        newest = max(self.writers(), default=None)
        if newest and newest.attempt > attempt:
            raise StaleAttemptError(f"attempt {newest.attempt} has begun: attempt {attempt} ends here")

    def candidates(self, held: Saved | None = None) -> list[Saved]:
        """Return the checkpoints from which workers could resume, the best first: those of the history, then others.

        Others are of no use unless all of the history is damaged, or the records of the attempts are lost.

        Raises:
            DamagedError: the run had checkpoints, and none is left.
        """
        history = list(self.history([held] if held else ()))
        others = sorted({*self.committed()} - {*history}, key=lambda saved: (saved.step, saved.writer), reverse=True)
        if not history and not others and (lost := self._first_saved()):
            raise DamagedError(
                f"the run had checkpoints ({lost} was the first), and {self.storage.address}/checkpoints has none. "
                f"Fix: restore that folder from a copy; {_START_OVER}"
            )
        return history + others

    def first_whole(
        self,
        candidates: Sequence[Saved],
        damage: Callable[[Saved], str] | None = None,
        say: Callable[[str], None] = print,
    ) -> Saved | None:
        """Return the first candidate that is whole; None if there is no candidate. `say` names each that is skipped.

        `damage` returns what of a checkpoint is damaged, empty if it is whole; by default all its files are read.

        Raises:
            DamagedError: there are candidates, and none is whole.
        """
        found: dict[str, str] = {}
        for saved in candidates:
            what = (damage or self.damage)(saved)
            if not what:
                return saved
            found[saved.name] = what
            say(f"skips the damaged checkpoint {saved.name}: {what}")
        if found:
            raise DamagedError(
                f"no checkpoint in {self.storage.address}/checkpoints is whole. "
                + "; ".join(f"{name}: {what}" for name, what in found.items())
                + f". Fix: restore one of these folders from a copy; {_START_OVER}"
            )
        return None

    def require_whole(self) -> None:
        """Look at sizes only, before any worker starts.

        Raises:
            DamagedError: the run has or had checkpoints, and none of them is whole.
        """
        self.first_whole(self.candidates(), self.missing, say=lambda _: None)

    def data_order(self, origin: Saved | None) -> int:
        """Return the version of the order of data for workers that resume from `origin`."""
        if origin is None:
            return data_order.NEWEST
        manifest = self.manifest(origin) or {}
        return int(manifest.get("data_order") or data_order.SHUFFLED)

    def commit(
        self,
        saved: Saved,
        metrics: Mapping[str, Any],
        order: int | None = None,
        digests: Mapping[str, str] | None = None,
    ) -> None:
        """Write the manifest of a checkpoint whose files are all written: then the checkpoint exists.

        Args:
            saved: the checkpoint.
            metrics: its metrics, as JSON holds them.
            order: the version of the order of data that the workers use, if they use one.
            digests: the SHA-256 of each file, by its name in the checkpoint's folder; by default the files are read.

        Raises:
            OSError: the storage failed, or a file is gone.
            StaleAttemptError: newer workers have begun.
        """
        newest = max(self.writers())
        if newest != saved.writer:
            self.storage.remove(saved.folder)
            raise StaleAttemptError(f"workers {newest} have begun: {saved.writer} must not add a checkpoint")
        sizes = self.storage.sizes(saved.folder)
        if digests is None:
            digests = {name: self.storage.sha256(f"{saved.folder}/{name}") for name in sizes}
        if gone := sorted(digests.keys() - sizes.keys()):
            raise OSError(f"{saved.folder}/{gone[0]} was written, and is gone")
        files = {name: sizes[name] for name in digests}
        manifest = {
            "step": saved.step,
            "written": now(),
            "metrics": dict(metrics),
            "files": files,
            "sha256": {**digests},
        }
        if order is not None:
            manifest["data_order"] = order
        self.storage.put(f"{saved.folder}/{MANIFEST}", as_json(manifest))
        self._record_first(saved)

    def committed(self) -> list[Saved]:
        """Return every checkpoint that exists, damaged or not, in the order of steps."""
        found = (Saved.parse(name) for name in self.storage.names("checkpoints"))
        return [saved for saved in found if saved and self._is_committed(saved)]

    def manifest(self, saved: Saved) -> dict[str, Any] | None:
        """Return the manifest; None if the checkpoint was never finished.

        Raises:
            DamagedError: it is no manifest of this checkpoint.
        """
        name = f"{saved.folder}/{MANIFEST}"
        found = record(self.storage, name)
        if found is None:
            return None
        step, files, metrics = (found.get(key) for key in ("step", "files", "metrics"))
        digests = found.get("sha256", files)
        if type(step) is not int or step != saved.step:
            raise damaged(self.storage, name, f"is of step {step!r}, not {saved.step}")
        if not (isinstance(files, dict) and isinstance(digests, dict) and isinstance(metrics, dict)):
            raise damaged(self.storage, name, "lacks the files, their digests or the metrics")
        if files.keys() != digests.keys() or not (files or "sha256" in found):
            raise damaged(self.storage, name, "does not list the same files twice, with size and digest")
        return found

    def outcome(self) -> dict[str, Any]:
        """Return the name of the newest checkpoint and its metrics, as in DONE.json."""
        last = next(self.history(), None)
        manifest = self.manifest(last) if last else None
        return {"checkpoint": last and last.name, "metrics": manifest["metrics"] if manifest else {}}

    def is_whole(self, saved: Saved) -> bool:
        """Return whether all files in the manifest exist in their full size."""
        return not self.missing(saved)

    def missing(self, saved: Saved) -> str:
        """Return what is missing of a checkpoint: its manifest, a file, or bytes of it; empty if nothing is."""
        try:
            manifest = self.manifest(saved)
            sizes = self.storage.sizes(saved.folder)
        except DamagedError as error:
            return str(error).partition(". Fix: ")[0].removeprefix(f"{self.storage.address}/{saved.folder}/")
        except OSError as error:
            if not lasts(error):
                raise
            return f"it cannot be read ({error.strerror})"
        if manifest is None:
            return f"{MANIFEST} is missing"
        for name, size in manifest["files"].items():
            if name not in sizes:
                return f"{name} is missing"
            if sizes[name] != size:
                return f"{name} has {sizes[name]} bytes instead of {size}"
        return ""

    def damage(self, saved: Saved, rank: int = 0, world: int = 1) -> str:
        """Return what is damaged; empty if nothing is. Each of `world` workers reads its share of the files.

        A checkpoint of an earlier version has no digests: only what its own formats can tell is found.

        Raises:
            OSError: a file cannot be read now; another attempt may succeed.
        """
        if what := self.missing(saved):
            return what
        manifest = self.manifest(saved) or {}
        digests = manifest.get("sha256")
        for name in sorted(manifest["files"])[rank::world]:
            file = f"{saved.folder}/{name}"
            try:
                if digests is None:
                    whole = _is_readable(name, self.storage, file)
                else:
                    whole = isinstance(digests, dict) and self.storage.sha256(file) == digests.get(name)
            except OSError as error:
                if not lasts(error):
                    raise
                return f"{name} cannot be read ({error.strerror})"
            if not whole:
                return f"{name} has another content than was saved"
        return ""

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
        """Remove what `config` does not keep.

        The newest checkpoint always stays, and the one from which these workers resumed: no start has loaded a newer
        one. For the same reason, what earlier workers saved after it stays until workers resume from a newer one.
        """
        history = list(self.history())
        keep = {*history[:1], *_ranked(self, history, config)[: config.num_to_keep], self._loaded}
        proven = self._loaded.step if self._loaded else 0
        for saved in self.committed():
            if saved not in keep and (saved.writer == self._began or saved.step <= proven):
                # First: what is left of a removal that is interrupted would look like a damaged checkpoint.
                self.storage.delete(f"{saved.folder}/{MANIFEST}")
                self.storage.remove(saved.folder)

    def _is_committed(self, saved: Saved) -> bool:
        try:
            return self.manifest(saved) is not None
        except (DamagedError, PermissionError):
            return True

    def _origin(self, writer: Writer) -> Saved | None:
        found = record(self.storage, f"attempts/{writer}.json")
        if found is None:
            return None
        name = found.get("resumed_from", "")
        origin = Saved.parse(name) if isinstance(name, str) else None
        if name is not None and origin is None:
            raise damaged(self.storage, f"attempts/{writer}.json", "does not say from which checkpoint they resumed")
        return origin

    def _record_first(self, saved: Saved) -> None:
        """Record a group's first checkpoint: without this record, lost checkpoints would look like none."""
        if self._recorded:
            return
        name = f"attempts/{saved.writer}.json"
        known = record(self.storage, name) or {}
        if _FIRST not in known:
            self.storage.put(name, as_json({**known, _FIRST: saved.name}))
        self._recorded = True

    def _first_saved(self) -> str:
        """Return the name of a checkpoint that some group saved; empty if none did."""
        records = (record(self.storage, f"attempts/{writer}.json") or {} for writer in self.writers())
        return next((str(found[_FIRST]) for found in records if _FIRST in found), "")

    def _remove_leftovers(self, writer: Writer) -> None:
        """Remove the unfinished checkpoints of earlier workers."""
        for name in self.storage.names("checkpoints"):
            saved = Saved.parse(name)
            if saved and saved.writer < writer and not self._is_committed(saved):
                self.storage.remove(saved.folder)


def _ranked(store: CheckpointStore, history: list[Saved], config: CheckpointConfig | Keep) -> list[Saved]:
    attribute = config.checkpoint_score_attribute
    if attribute is None:
        return history
    worst = float("-inf")
    sign = 1 if config.checkpoint_score_order == "max" else -1

    def score(saved: Saved) -> float:
        value = {} if store.missing(saved) else (store.manifest(saved) or {})["metrics"]
        value = value.get(attribute)
        return worst if value is None or math.isnan(value) else sign * float(value)

    return sorted(history, key=score, reverse=True)


def _is_readable(name: str, storage: RunStorage, file: str) -> bool:
    """Return whether a file without digest is what its name says: PyTorch's archives have checksums of their own."""
    if not name.endswith((".pt", ".ckpt")) and name != ".metadata":
        return True
    content = storage.read(file) or b""
    try:
        if name == ".metadata":
            pickle.loads(content)  # noqa: S301 (as PyTorch does when it reads the checkpoint)
            return True
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return archive.testzip() is None
    except Exception:  # noqa: BLE001 (whatever a damaged pickle raises)
        return False


def as_json(content: Mapping[str, Any]) -> bytes:
    """Return a record of a run's folder as JSON."""
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()


def now() -> str:
    """Return the current time for a record, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
