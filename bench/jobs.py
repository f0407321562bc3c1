"""What checkpoints and failures cost a job, on real Ray: `PYTHONPATH=ray_jobs .venv-jobs/bin/python -m bench.jobs`.

Checkpoints are measured against torch.save with fsync on the same disk, in one process. A failure is a worker node
killed right after a checkpoint of ray_jobs/pytorch_ddp.py, on two nodes of this machine: seconds until the next
checkpoint, less those that it takes undisturbed. On a cluster the node's replacement comes on top (docs/recovery.md).
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from ray.cluster_utils import Cluster

import torch_state
from checkpoints import CheckpointStore, Saved
from run_storage import open_storage

REPOSITORY: Final = Path(__file__).parents[1]
RAY_JOBS: Final = REPOSITORY / "ray_jobs"
HOURS_BETWEEN_FAILURES: Final = (1, 3, 24)
_WRITTEN: Final = re.compile(r"checkpoint of step (\d+) written")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200, help="weights and optimizer together (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--directory", type=Path, help="where to write (a temporary directory)")
    options = parser.parse_args()
    # Ray's processes inherit these.
    os.environ |= {"PYTHONPATH": str(RAY_JOBS), "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        _checkpoints(Path(directory), options.megabytes, options.rounds)
        _failure(Path(directory))


def _checkpoints(directory: Path, megabytes: int, rounds: int) -> None:
    # Adam keeps two numbers beside each weight.
    weights = megabytes * 1_000_000 // (3 * 4)
    actions = _actions(directory, weights)
    times: dict[str, list[float]] = {name: [] for name in actions}
    for round_ in range(rounds + 1):
        for name, action in actions.items():
            started = time.monotonic()
            action()
            if round_:
                times[name].append(time.monotonic() - started)
    yardstick = times["torch.save and fsync"]
    for name, measured in times.items():
        ratio = statistics.median(a / b for a, b in zip(measured, yardstick, strict=True))
        print(
            f"{name:24} {statistics.median(measured):6.2f} s for {megabytes} MB   {ratio:.2f} of torch.save and fsync"
        )


def _actions(directory: Path, weights: int) -> dict[str, Callable[[], object]]:
    model = torch.nn.Linear(1000, weights // 1000, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 1000)).sum().backward()
    optimizer.step()
    store = CheckpointStore(open_storage(str(directory), "bench"))
    writer, _ = store.begin(1)
    saved = Saved(1, writer)

    def write() -> None:
        with store.storage.writing(saved.folder) as path:
            torch_state.save(path, model, optimizer, rank=0)
        store.commit(saved, {})

    def read() -> None:
        with store.storage.reading(saved.folder) as path:
            torch_state.load(path, model, optimizer, rank=0, reseed=0)

    def plain() -> None:
        with (directory / "plain.pt").open("wb") as file:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            os.fsync(file.fileno())

    return {"torch.save and fsync": plain, "checkpoint written": write, "checkpoint read": read}


def _failure(directory: Path) -> None:
    with _nodes() as cluster:
        victim = [cluster.add_node(num_cpus=1) for _ in range(2)][-1]
        lines = _job(directory, str(cluster.address))
        undisturbed = []
        before = next(lines)
        for _ in range(6):
            now = next(lines)
            undisturbed.append(now - before)
            before = now
        cluster.remove_node(victim, allow_graceful=False)
        cluster.add_node(num_cpus=1)
        interval = statistics.median(undisturbed)
        lost = next(lines) - before - interval
        for _ in lines:
            pass
    print(
        f"seconds lost by a killed worker node, replaced at once: {lost:.1f}, and half a checkpoint interval on average"
    )
    shares = ", ".join(f"{lost / 3600 / hours:.2%} every {hours} h" for hours in HOURS_BETWEEN_FAILURES)
    print(f"share of the time lost at one failure: {shares}")


@contextmanager
def _nodes() -> Iterator[Any]:
    # Short: Ray's sockets lie below it, and a socket's path has 107 characters at most.
    scratch = tempfile.mkdtemp(prefix="ray-")
    head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": scratch}
    cluster = Cluster(initialize_head=True, shutdown_at_exit=False, head_node_args=head)
    try:
        yield cluster
    finally:
        cluster.shutdown()
        shutil.rmtree(scratch, ignore_errors=True)


def _job(directory: Path, address: str) -> Iterator[float]:
    """The time of each checkpoint of a training."""
    argv = [sys.executable, str(RAY_JOBS / "pytorch_ddp.py"), "--storage", str(directory)]
    argv += ["--epochs", "400", "--every", "100", "--samples", "320"]
    env = {**os.environ, "RAY_ADDRESS": address, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(argv, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
        output: list[str] = []
        for line in job.stdout or ():
            output.append(line)
            if _WRITTEN.search(line):
                yield time.monotonic()
        if job.wait():
            sys.exit("".join(output[-20:]) + f"the job ended with {job.returncode}")


if __name__ == "__main__":
    main()
