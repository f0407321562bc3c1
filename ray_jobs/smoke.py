"""Check a RayCluster with a short all-reduce: one process for each GPU, or one for each worker node without GPUs.

Each process also imports the training library, as a job's worker does. GPUs reduce with NCCL, the others with gloo. The
last line of the output begins with `smoke: `; JSON follows:

    {"workers": [{"address": "10.0.1.5", "device": "NVIDIA H100 80GB HBM3", "gpus": 8, "seconds": 0.0021,
                  "gigabytes_per_second": 223.4, "network": ["OFI"]}], "problems": []}

`seconds` is the time of one all-reduce at the node's slowest process, `gigabytes_per_second` its bus bandwidth (as
nccl-tests counts: bytes / seconds * 2 * (n - 1) / n), `network` what NCCL's log names. `gpus` is nvidia-smi's count.

    python smoke.py --patience 300
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import ray
import torch
import torch.distributed as dist
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import ray_resume
from arguments import positive

MARK = "smoke: "
REPEATS = 10
ELEMENTS = {"nccl": 64 * 2**20, "gloo": 2**20}
"""Numbers of four bytes in the tensor."""
_NETWORK = re.compile(r"NET/(\w+)")


class Rank:
    """One process of the all-reduce."""

    def inspect(self) -> dict[str, Any]:
        """Import the training library; return the node's address, the device's name, and nvidia-smi's count of GPUs."""
        for public in ray_resume.__all__:
            getattr(ray_resume, public)
        name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        return {"address": ray.util.get_node_ip_address(), "device": name, "gpus": gpus()}

    def meeting_point(self) -> str:
        """Return an address at which the processes can meet."""
        with socket.socket() as free:
            free.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"

    def reduce(self, backend: str, rank: int, world: int, meeting: str, patience: int) -> dict[str, Any]:
        """Reduce a tensor of all processes; return the seconds and the bandwidth of one all-reduce, and the network.

        Raises:
            ValueError: the sum is wrong.
        """
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "nccl.log")
            os.environ |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_DEBUG_FILE": str(log)}
            dist.init_process_group(
                backend,
                init_method=f"tcp://{meeting}",
                rank=rank,
                world_size=world,
                timeout=timedelta(seconds=patience),
            )
            # Kept until the group's end: gloo's threads need Python's lock to free a tensor that Python has let go, and
            # the end of the group holds the lock while it waits for them (PyTorch 2.6).
            values = values_of(backend, rank)
            try:
                seconds = timed_all_reduce(values, rank, world)
            finally:
                dist.destroy_process_group()
            network = sorted(set(_NETWORK.findall(log.read_text()))) if log.exists() else [backend]
        volume = 4 * ELEMENTS[backend] * 2 * (world - 1) / world
        return {"seconds": seconds, "gigabytes_per_second": volume / seconds / 1e9, "network": network}


def values_of(backend: str, rank: int) -> torch.Tensor:
    """Return what a process adds to the all-reduce: its rank + 1 in each number."""
    device = torch.device("cuda" if backend == "nccl" else "cpu")
    return torch.full((ELEMENTS[backend],), float(rank + 1), device=device)


def timed_all_reduce(values: torch.Tensor, rank: int, world: int) -> float:
    """Check the sum of one all-reduce; return the mean seconds of further ones. Raises ValueError for a wrong sum.

    Args:
        values: what this process adds (`values_of`); zeros afterwards.
        rank: this process's number.
        world: how many processes there are.
    """
    dist.all_reduce(values)
    wanted = world * (world + 1) / 2
    if not bool((values == wanted).all()):
        raise ValueError(f"the all-reduce of rank {rank} gave a wrong sum, not {wanted}")
    # Sums of zeros stay finite.
    values.zero_()
    dist.barrier()
    began = time.perf_counter()
    for _ in range(REPEATS):
        dist.all_reduce(values)
    if values.is_cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / REPEATS


def gpus() -> int:
    """Return how many GPUs nvidia-smi lists; 0 without it."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)  # noqa: S607
    except FileNotFoundError:
        return 0
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


def merged(inspections: Sequence[dict[str, Any]], results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each node: its slowest process, and what the logs of all its processes name."""
    nodes: dict[str, dict[str, Any]] = {}
    for look, result in zip(inspections, results, strict=True):
        row = nodes.setdefault(look["address"], look | result)
        networks = sorted({*row["network"], *result["network"]})
        if result["seconds"] > row["seconds"]:
            row |= result
        row["network"] = networks
    return list(nodes.values())


def start() -> dict[str, list[Any]]:
    """Start the processes on every worker node; return them by backend."""
    ranks: dict[str, list[Any]] = {"nccl": [], "gloo": []}
    for node in ray.nodes():
        if not node["Alive"] or "node:__internal_head__" in node["Resources"]:
            continue
        count = int(node["Resources"].get("GPU", 0))
        # Soft would let a process start on another node, and that node would count twice.
        here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        rank = ray.remote(Rank).options(num_cpus=0, num_gpus=min(count, 1), scheduling_strategy=here)
        ranks["nccl" if count else "gloo"] += [rank.remote() for _ in range(max(count, 1))]
    return ranks


def check(patience: int) -> dict[str, Any]:
    """Return the rows of all worker nodes, and what went wrong."""
    workers: list[dict[str, Any]] = []
    problems: list[str] = []
    for backend, ranks in start().items():
        if not ranks:
            continue
        try:
            inspections = ray.get([rank.inspect.remote() for rank in ranks], timeout=patience)
            meeting = ray.get(ranks[0].meeting_point.remote(), timeout=patience)
            world = len(ranks)
            calls = [rank.reduce.remote(backend, n, world, meeting, patience) for n, rank in enumerate(ranks)]
            workers += merged(inspections, ray.get(calls, timeout=patience))
        except GetTimeoutError:
            problems.append(f"{backend}: not all of {len(ranks)} processes answered in {patience} s; is a job running?")
        except RayError as error:
            problems.append(f"{backend}: {str(error).strip().splitlines()[-1]}")
    return {"workers": workers, "problems": problems}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--patience", type=positive, default=300, help="seconds for each step (%(default)s)")
    options = parser.parse_args()
    ray.init()
    result = check(options.patience)
    print(MARK + json.dumps(result), flush=True)
    sys.exit(1 if result["problems"] else 0)


if __name__ == "__main__":
    main()
