"""Run a function in several processes of one process group."""

import multiprocessing as python_multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing

# PyTorch takes seconds to import: processes are forked from one that has imported it.
python_multiprocessing.set_forkserver_preload(
    ["torch.distributed.checkpoint.state_dict", "torch.distributed.fsdp", "torch_state", __name__]
)


def together(workers: int, task: Callable[..., None], meeting: Path, *arguments: Any, backend: str = "gloo") -> None:
    """Call `task(rank, *arguments)` in so many processes, which meet in the file `meeting`.

    A file instead of a port, which another test could take before its use.
    """
    context = (workers, backend, meeting, task, arguments)
    multiprocessing.start_processes(_worker, context, nprocs=workers, start_method="forkserver")


def _worker(
    rank: int, world: int, backend: str, meeting: Path, task: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    if backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(backend, store=dist.FileStore(str(meeting), world), rank=rank, world_size=world)
    torch.set_num_threads(1)
    task(rank, *arguments)
    dist.destroy_process_group()
