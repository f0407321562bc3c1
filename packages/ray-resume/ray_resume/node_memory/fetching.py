"""Fetch a checkpoint from the memory of the nodes: one worker of each node for all of that node, or nobody."""

from __future__ import annotations

import hashlib
import io
import shutil
import socket
import tarfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ray_resume.collective import gathered
from ray_resume.node_memory import scratch
from ray_resume.node_memory.records import MemoryCheckpoint
from ray_resume.node_memory.tier import MemoryTier, TierError, bounded

FETCH_SECONDS: Final = 900.0
"""After which the workers resume from the storage instead."""


@dataclass(frozen=True)
class Fetched:
    """A checkpoint in a directory of this node; `made` by this worker, or by another one of the node."""

    held: MemoryCheckpoint
    directory: Path
    made: bool

    def remove(self) -> None:
        """Remove the directory, once no worker reads it. All workers call it together."""
        gathered(None)
        if self.made:
            scratch.remove(self.directory)


def fetch(tier: MemoryTier, held: MemoryCheckpoint, rank: int) -> Fetched:
    """Return the checkpoint; all workers call it together.

    Raises:
        TierError: some worker cannot have it. All workers raise the same error.
    """
    here = socket.gethostname()
    fetcher = gathered(here).index(here)
    directory, failure = None, None
    if fetcher == rank:
        try:
            directory = _fetch(tier, held)
        except (OSError, tarfile.TarError) as error:
            failure = str(error)
    directories = gathered(directory)
    shared = directories[fetcher]
    if failure is None and not (shared and shared.is_dir()):
        # Two nodes with one name, or a node's worker in a container of its own.
        failure = "another worker of this node has it elsewhere"
    failed = next((f"worker {rank}: {text}" for rank, text in enumerate(gathered(failure)) if text), None)
    if shared and not failed:
        return Fetched(held, shared, made=fetcher == rank)
    if directory:
        scratch.remove(directory)
    raise TierError(failed or "no worker has it")


def _fetch(tier: MemoryTier, held: MemoryCheckpoint) -> Path:
    directory = scratch.make()
    given_up = threading.Event()

    def get() -> None:
        try:
            if held.size > shutil.disk_usage(directory).free:
                raise TierError(f"{directory} has no room for {held.size} bytes")
            for rank in range(len(held.parts)):
                if not given_up.is_set():
                    _unpack(tier, held, rank, directory)
        except BaseException:
            given_up.set()
            raise
        finally:
            if given_up.is_set():
                scratch.remove(directory)

    try:
        bounded(get, FETCH_SECONDS)
    except BaseException:
        given_up.set()
        raise
    return directory


def _unpack(tier: MemoryTier, held: MemoryCheckpoint, rank: int, directory: Path) -> None:
    part = held.parts[rank]
    content = tier.get(held.namespace, rank, held.saved.step)
    if content is None:
        raise TierError(f"the part of worker {rank} is gone")
    if len(content) != part.size or hashlib.sha256(content).hexdigest() != part.sha256:
        raise TierError(f"the part of worker {rank} is not what was put there")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        # Python 3.10.12 and 3.11.4 brought the filter; the hash says that a worker of this run packed the files.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(directory)  # noqa: S202
