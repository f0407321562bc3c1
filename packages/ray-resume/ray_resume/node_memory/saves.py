"""Save a checkpoint into the memory of the nodes: every worker puts its part, then rank 0 records it."""

from __future__ import annotations

import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import torch.distributed as dist

from ray_resume.checkpoint_store import Saved
from ray_resume.collective import by_rank_0, gathered, world_size
from ray_resume.node_memory import scratch
from ray_resume.node_memory.records import MemoryCheckpoint, MemoryPart, Records
from ray_resume.node_memory.tier import MemoryTier, bounded
from ray_resume.saving import Rest, Write
from ray_resume.storage import sha256

PUT_SECONDS: Final = 120.0
"""After which a worker gives up: the training may wait for the save."""

_NOWHERE: Final = Path()
_Result = TypeVar("_Result")


class MemorySave:
    """The save of one checkpoint, with the calls of `saving.Save`. What fails is in `failure`, at all workers alike."""

    def __init__(
        self, tier: MemoryTier, records: Records, saved: Saved, namespace: str, *, order: int | None, rank: int
    ) -> None:
        self.saved = saved
        self.seconds = self.blocked = 0.0
        self.failure: str | None = None
        self._started = time.monotonic()
        self._tier = tier
        self._records = records
        self._namespace = namespace
        self._order = order
        self._rank = rank
        self._scratch = _NOWHERE
        self._failure_here: str | None = None
        self._parts: list[MemoryPart | None] = []

    def begin(self, write: Write) -> Rest | None:
        """Let `write` write this worker's part to the node's disk, or copy it; return what is left to do."""
        self._try(self._make_room)
        # Before `write`, whose collective operations need all workers.
        self._agree()
        if self.failure:
            self._clean()
            return None
        rest = self._try(lambda: write(self._scratch / "part"))
        self._agree()
        return None if self.failure else rest

    def finish(self, rest: Rest, group: dist.ProcessGroup | None) -> None:
        """Write the copy, then continue as `commit`."""
        self._try(lambda: rest(group))
        self._agree(group)
        self.commit(group)

    def commit(self, group: dist.ProcessGroup | None = None) -> None:
        """Put what was written into memory; record it if all workers could."""
        for step in (self._create, self._put, self._record):
            if not self.failure:
                step(group)
        self._clean()
        self.seconds = time.monotonic() - self._started

    def unblock(self) -> None:
        """Record that the training continues."""
        self.blocked = time.monotonic() - self._started

    def _make_room(self) -> None:
        self._scratch = scratch.make()
        (self._scratch / "part").mkdir()

    def _create(self, group: dist.ProcessGroup | None) -> None:
        self._by_rank_0(lambda: self._tier.create(self._namespace, world_size()), group)

    def _put(self, group: dist.ProcessGroup | None) -> None:
        packed = self._scratch / "part.tar"

        def put() -> MemoryPart:
            _pack(self._scratch / "part", packed)
            self._tier.put(self._namespace, self._rank, self.saved.step, packed)
            with packed.open("rb") as content:
                return MemoryPart(packed.stat().st_size, sha256(content))

        self._parts = self._agree(group, self._try(lambda: bounded(put, PUT_SECONDS)))

    def _record(self, group: dist.ProcessGroup | None) -> None:
        parts = tuple(part for part in self._parts if part)
        held = MemoryCheckpoint(self.saved, self._namespace, parts, self._order)
        description = f"{self.saved.name} {held.size} bytes".encode()
        self._by_rank_0(lambda: self._tier.seal(self._namespace, len(parts), self.saved.step, description), group)
        if not self.failure:
            self._by_rank_0(lambda: self._records.add(held), group)

    def _by_rank_0(self, call: Callable[[], None], group: dist.ProcessGroup | None) -> None:
        try:
            by_rank_0(lambda: bounded(call, PUT_SECONDS), group)
        except OSError as error:
            self.failure = str(error)

    def _try(self, call: Callable[[], _Result]) -> _Result | None:
        """Return the result of `call`; None if it failed here, which `_agree` then tells all workers."""
        try:
            return call()
        except OSError as error:
            self._failure_here = str(error)
            return None
        except BaseException:
            self._clean()
            raise

    def _agree(self, group: dist.ProcessGroup | None = None, part: MemoryPart | None = None) -> list[MemoryPart | None]:
        """Share failures and parts with all workers; return the parts by rank."""
        answers = gathered((self._failure_here, part), group)
        self.failure = next((f"worker {rank}: {text}" for rank, (text, _) in enumerate(answers) if text), None)
        return [one for _, one in answers]

    def _clean(self) -> None:
        if self._scratch != _NOWHERE:
            scratch.remove(self._scratch)


def _pack(folder: Path, packed: Path) -> None:
    with tarfile.open(packed, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.add(path, str(path.relative_to(folder)))
