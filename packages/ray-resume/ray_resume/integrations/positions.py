"""A worker's position in the data and its generators, in a file of each checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ray_resume import generators


def write(directory: Path, rank: int, workers: int, **position: Any) -> None:
    """Write the worker's generators, and its position within the epochs."""
    state = {"workers": workers, "generators": generators.state(), **position}
    torch.save(state, directory / generators.file_of(rank))


def read(directory: Path, rank: int, workers: int) -> dict[str, Any]:
    """Return what `write` has written.

    Raises:
        ValueError: another number of workers has written it.
    """
    # Every checkpoint has the file of worker 0.
    file = directory / generators.file_of(rank)
    found = torch.load(file if file.exists() else directory / generators.file_of(0), weights_only=False)
    state: dict[str, Any] = found
    if state["workers"] != workers:
        raise ValueError(
            f"the position of {state['workers']} workers in their data does not fit {workers} workers. "
            f"Fix: use {state['workers']} workers"
        )
    return state


class Drawing:
    """Lets the generators continue from a checkpoint, once."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self._state = state

    def restore(self) -> None:
        """Restore the generators; do nothing after `forget`."""
        if self._state:
            generators.restore(self._state)

    def forget(self) -> None:
        """Leave the generators as they are from now on."""
        self._state = None

    def resume(self) -> None:
        """Restore the generators; do nothing when they have been restored."""
        self.restore()
        self.forget()
