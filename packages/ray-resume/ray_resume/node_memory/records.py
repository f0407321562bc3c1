"""What a run keeps in the memory of the nodes, recorded in its storage.

    <storage>/<run>/memory/<attempt>.<group>.json    the newest checkpoints in memory of this group of workers

The record is written after all parts are in memory. It has the digest of each part: whatever the memory returns later
is either exactly this checkpoint, or not used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ray_resume.checkpoint_store import CheckpointStore, Saved, Writer, as_json, now

FOLDER: Final = "memory"
_NEWEST: Final = 2
"""How many checkpoints a record names: the tier keeps one more, which may be incomplete."""


@dataclass(frozen=True)
class MemoryPart:
    """What one worker put into memory."""

    size: int
    sha256: str


@dataclass(frozen=True)
class MemoryCheckpoint:
    """A complete checkpoint in memory, with the parts of all its ranks in order."""

    saved: Saved
    namespace: str
    parts: tuple[MemoryPart, ...]
    data_order: int | None = None

    @property
    def size(self) -> int:
        """Return the bytes of all parts."""
        return sum(part.size for part in self.parts)


class Records:
    """The records of a run. Every method raises OSError if the storage fails."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._storage = store.storage

    def add(self, held: MemoryCheckpoint) -> None:
        """Record a checkpoint that is complete in memory."""
        kept = [one for one in self._of(held.saved.writer) if one.namespace == held.namespace]
        newest = [held, *kept][:_NEWEST]
        record = {"namespace": held.namespace, "written": now(), "checkpoints": [_described(one) for one in newest]}
        self._storage.put(f"{FOLDER}/{held.saved.writer}.json", as_json(record))

    def resumable(self) -> list[MemoryCheckpoint]:
        """Return the checkpoints in memory that are newer than the newest whole one in the storage, newest first.

        Only those count that led to the run's current state (`CheckpointStore.history`).
        """
        held = {one.saved: one for writer in self.writers() for one in self._of(writer)}
        found = []
        for saved in self._store.history(held) if held else ():
            if self._store.is_whole(saved):
                break
            if saved in held:
                found.append(held[saved])
        return found

    def writers(self) -> list[Writer]:
        """Return the groups of workers with a record, oldest first."""
        named = (Writer.parse(name.removesuffix(".json")) for name in self._storage.names(FOLDER))
        return sorted(writer for writer in named if writer)

    def namespace(self, writer: Writer) -> str | None:
        """Return the namespace of a group's checkpoints in memory."""
        return next((one.namespace for one in self._of(writer)), None)

    def remove(self, writer: Writer) -> None:
        """Forget what a group has in memory."""
        self._storage.delete(f"{FOLDER}/{writer}.json")

    def _of(self, writer: Writer) -> Iterator[MemoryCheckpoint]:
        content = self._storage.read(f"{FOLDER}/{writer}.json")
        record = json.loads(content) if content else {"checkpoints": []}
        for one in record["checkpoints"]:
            parts = tuple(MemoryPart(**part) for part in one["parts"])
            yield MemoryCheckpoint(Saved(one["step"], writer), record["namespace"], parts, one["data_order"])


def _described(held: MemoryCheckpoint) -> Mapping[str, Any]:
    parts = [asdict(part) for part in held.parts]
    return {"step": held.saved.step, "data_order": held.data_order, "parts": parts}
