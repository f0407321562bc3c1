"""A group of workers' use of the nodes' memory: when to save there, what to resume from, and what to forget."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable
from functools import partial
from typing import Final

from ray_resume.checkpoint_store import CheckpointStore, Saved, Writer
from ray_resume.collective import agree, by_rank_0
from ray_resume.node_memory.fetching import Fetched, fetch
from ray_resume.node_memory.records import MemoryCheckpoint, Records
from ray_resume.node_memory.saves import MemorySave
from ray_resume.node_memory.tier import MemoryTier, TierError, bounded
from ray_resume.runs import Run
from ray_resume.saving import in_background

_FORGET_SECONDS: Final = 30.0


class NodeMemory:
    """The workers' side of checkpoints in memory. All workers call its methods together, in the same order.

    Whatever fails is printed, and the run continues with the checkpoints in its storage.
    """

    def __init__(self, run: Run, store: CheckpointStore, rank: int, say: Callable[[str], None]) -> None:
        self._every = run.memory_every
        self._rank = rank
        self._say = say
        self._records = Records(store)
        self._tier = self._open(run.memory_tier) if run.memory_tier else None
        if not run.memory_tier and self._every is not None:
            self._say("saves nothing in the nodes' memory: RUN_MEMORY_TIER is not set")
        self._works = self._tier is not None
        self._forgotten = False
        self._namespace = ""
        self._writer = Writer(0, 0)

    def fetch(self) -> Fetched | None:
        """Return the newest checkpoint in memory that is newer than those in the storage, if it is whole."""
        if self._tier is None:
            return None
        for held in self._resumable():
            try:
                return fetch(self._tier, held, self._rank)
            except TierError as error:
                self._say(f"{held.saved.name} in the nodes' memory is not used: {error}")
        return None

    def begin(self, writer: Writer, name: str) -> None:
        """Use the memory for this group of workers; `name` is new, and the same at all workers."""
        self._writer = writer
        self._namespace = name

    def due(self, step: int) -> bool:
        """Return whether a checkpoint into memory is due after `step` steps."""
        return self._works and self._every is not None and step % self._every == 0

    def save(self, saved: Saved, order: int | None) -> MemorySave:
        """Return the save of a checkpoint into memory."""
        if self._tier is None:
            raise TierError("there is no memory tier")
        return MemorySave(self._tier, self._records, saved, self._namespace, order=order, rank=self._rank)

    def ended(self, save: MemorySave) -> None:
        """Take note of the outcome of a save; after a failure the memory is left alone until `committed`."""
        self._works = save.failure is None
        if self._works:
            self._forget_earlier()

    def committed(self) -> None:
        """Take note of a checkpoint in the storage."""
        self._works = self._tier is not None
        self._forget_earlier()

    def finished(self) -> None:
        """Delete what this group has in memory: the storage has the last step."""
        if self._tier is not None and self._rank == 0 and self._every is not None:
            try:
                bounded(partial(self._forget, self._tier, self._writer), _FORGET_SECONDS)
            except OSError as error:
                self._say(f"the nodes' memory keeps old checkpoints: {error}")

    def unusable(self, saved: Saved) -> None:
        """Resume from the storage next time: these workers failed when they read a checkpoint of the memory."""
        try:
            self._records.remove(saved.writer)
        except OSError as error:
            self._say(f"{saved.name} stays in the nodes' memory: {error}")

    def _open(self, url: str) -> MemoryTier | None:
        tier, failure = None, None
        try:
            # Imported here, because runs without a memory tier do without its package.
            tier = importlib.import_module("ray_resume.node_memory.hyperpod").HyperPodTier(url)
        except ImportError as error:
            failure = f"{error}. Fix: pip install 'ray-resume[memory]'"
        try:
            agree(failure, TierError)
        except TierError as error:
            self._say(f"does not use the nodes' memory: {error}")
            return None
        return tier

    def _resumable(self) -> list[MemoryCheckpoint]:
        def read() -> list[MemoryCheckpoint]:
            try:
                return self._records.resumable()
            except (KeyError, OSError, TypeError, ValueError) as error:
                self._say(f"the records of the nodes' memory are unreadable: {error!r}")
                return []

        found: list[MemoryCheckpoint] = by_rank_0(read)
        return found

    def _forget_earlier(self) -> None:
        """Delete what earlier groups have in memory, once: this group has a checkpoint of its own."""
        if self._forgotten or self._tier is None or self._rank:
            return
        self._forgotten = True
        tier = self._tier

        def forget() -> None:
            for writer in self._records.writers():
                if writer < self._writer:
                    self._forget(tier, writer)

        in_background(forget)

    def _forget(self, tier: MemoryTier, writer: Writer) -> None:
        namespace = self._records.namespace(writer)
        self._records.remove(writer)
        if namespace:
            tier.delete(namespace)


def new_namespace(run: str, writer: Writer) -> str:
    """Return a name for what a group of workers has in memory: letters, digits and dashes.

    No two groups share one, of whichever runs: the tier knows no runs, and a run's name may be used again.
    """
    name = run.replace(".", "-").replace("_", "-")[:40]
    return f"{name}-{writer.attempt:04}-{writer.group:02}-{uuid.uuid4().hex[:12]}"
