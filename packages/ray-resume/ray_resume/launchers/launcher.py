"""What started this worker, Ray Train or a launcher such as torchrun: the worker's rank, and who receives its reports.

Ray is imported only in Ray Train's workers, so that trainings under torchrun need no Ray.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch.distributed as dist


class Launcher(Protocol):
    """What a worker needs of the program that started it."""

    rank: int
    exports: bool
    """Whether gauges that the worker sets reach anybody."""

    def reached(self, writer: str, step: int) -> None:
        """Take note of a step; `writer` is the group of workers. Rank 0 calls it."""

    def report(self, metrics: Mapping[str, Any]) -> None:
        """Receive the metrics of a checkpoint in the storage. All workers call it together."""

    def end_if_asked(self, complete: Callable[[], None]) -> None:
        """End the workers if others shall continue, after `complete`. All workers call it together."""


class Torchrun:
    """torchrun, or whatever else set up `torch.distributed`: it wants to hear of nothing."""

    exports = False

    def __init__(self) -> None:
        """Find the rank.

        Raises:
            RuntimeError: there are several workers without a process group.
        """
        world = os.environ.get("WORLD_SIZE") or "1"
        if not dist.is_initialized() and world != "1":
            raise RuntimeError(
                f"WORLD_SIZE={world} without a process group is invalid: the workers cannot agree on a checkpoint. "
                "Fix: call torch.distributed.init_process_group() first, or use ray_resume.integrations.torchrun"
            )
        self.rank: int = dist.get_rank() if dist.is_initialized() else 0

    def reached(self, writer: str, step: int) -> None:
        """Do nothing: Slurm's time limit and the time-out of collective operations watch over the job."""

    def report(self, metrics: Mapping[str, Any]) -> None:
        """Do nothing: the manifest of the checkpoint has the metrics."""

    def end_if_asked(self, complete: Callable[[], None]) -> None:
        """Do nothing: the number of workers is fixed."""


def current(run: str) -> Launcher:
    """Return what started this worker of a run."""
    # torchrun and `accelerate launch` set the variable, Ray Train does not; and Ray Train has imported itself.
    if "TORCHELASTIC_RUN_ID" in os.environ or "ray.train" not in sys.modules:
        return Torchrun()
    found: Launcher = importlib.import_module("ray_resume.launchers.ray_train").RayTrain(run)
    return found
