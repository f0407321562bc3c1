"""Start a run with the weights of another run's newest checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ray_resume.checkpoint_store import CheckpointStore, RunInUseError, Saved, as_json
from ray_resume.storage import open_storage, record

WARM_FROM: Final = "warm_from"
"""The key of run.json: the other run's folder, and the checkpoint."""


def folder_of(run: str, storage: str) -> str:
    """Return the folder of a run that is given by its folder, or by its name if it is in the same storage."""
    return run.rstrip("/") if "/" in run else f"{storage.rstrip('/')}/{run}"


def chosen(store: CheckpointStore, folder: str) -> dict[str, str]:
    """Return the other run's folder and the checkpoint with whose weights this run starts, as in run.json.

    The first start chooses the newest whole checkpoint. As long as this run has none of its own, it chooses again if
    that one is gone.

    Raises:
        RunInUseError: the other run has no whole checkpoint.
        OSError: a run's folder cannot be read.
    """
    known = record(store.storage, "run.json") or {}
    before = known.get(WARM_FROM)
    other = _open(folder)
    if before and (before["run"] != folder or next(store.history(), None) or _is_whole(other, before)):
        recorded: dict[str, str] = before
        return {**recorded, "run": folder}
    newest = next((saved for saved in other.history() if other.is_whole(saved)), None)
    if newest is None:
        raise RunInUseError(f"the run {folder} has no checkpoint to start from. Fix: name a run that has one")
    choice = {"run": folder, "checkpoint": newest.name}
    if before:
        store.storage.put("run.json", as_json({**known, WARM_FROM: choice}))
    return choice


def load(store: CheckpointStore, weights: Callable[[Path], None] | None) -> str:
    """Let `weights` load what this run starts with; return the checkpoint's address, empty if it starts with nothing.

    Raises:
        TypeError: the run starts with another run's weights, and the script cannot load them.
    """
    choice: dict[str, Any] | None = (record(store.storage, "run.json") or {}).get(WARM_FROM)
    if choice is None:
        return ""
    address = f"{choice['run']}/checkpoints/{choice['checkpoint']}"
    if weights is None:
        raise TypeError(
            f"the run starts with the weights of {address}, and nothing loads them. Fix: restore(…, weights=…)"
        )
    with _open(choice["run"]).storage.reading(f"checkpoints/{choice['checkpoint']}") as directory:
        weights(directory)
    return address


def _open(folder: str) -> CheckpointStore:
    storage, _, run = folder.rpartition("/")
    return CheckpointStore(open_storage(storage, run))


def _is_whole(other: CheckpointStore, choice: dict[str, str]) -> bool:
    saved = Saved.parse(choice["checkpoint"])
    return saved is not None and other.is_whole(saved)
