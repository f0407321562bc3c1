"""Run a function in several processes of one process group."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing

from tests.jobs.support import forkserver

forkserver.prepare()


def together(workers: int, task: Callable[..., None], meeting: Path, *arguments: Any, backend: str = "gloo") -> None:
    """Call `task(rank, *arguments)` in so many processes, which meet in the file `meeting`.

    A file instead of a port, which another test could take before its use.
    """
    context = start(workers, task, meeting, *arguments, backend=backend)
    while not context.join():
        pass


def start(
    workers: int, task: Callable[..., None], meeting: Path, *arguments: Any, backend: str = "gloo"
) -> multiprocessing.ProcessContext:
    """Start the processes of `together`, and return them."""
    call = (task, arguments)
    # With the file of a group that failed, the next one would wait for half an hour.
    meeting.unlink(missing_ok=True)
    return multiprocessing.start_processes(
        _worker, (workers, backend, meeting, call), nprocs=workers, join=False, start_method="forkserver"
    )


def _worker(
    rank: int, world: int, backend: str, meeting: Path, call: tuple[Callable[..., None], tuple[Any, ...]]
) -> None:
    if backend == "nccl":
        torch.cuda.set_device(rank)
        # The switches of docs/explain/jobs.md.
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True)
    dist.init_process_group(backend, store=dist.FileStore(str(meeting), world), rank=rank, world_size=world)
    torch.set_num_threads(1)
    task, arguments = call
    task(rank, *arguments)
    # Not by the group's end, which can wait for ever shortly after a collective (`group_of_one` in conftest.py).
    sys.stdout.flush()
    os._exit(0)
