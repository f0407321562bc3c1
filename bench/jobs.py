"""The cost of checkpoints and failures on real Ray: `make bench`.

Checkpoints are compared with torch.save and fsync on the same disk, in one process. Of an asynchronous save only the
copy to memory is measured, for which the training waits. For a failure, a worker node is killed under
ray_jobs/pytorch_ddp.py, on two nodes of this machine. Its cost is the time between the last checkpoint before and the
first after the failure, minus the time between two undisturbed checkpoints. On a cluster the time for the node's
replacement is added (docs/explain/recovery.md).
"""

import argparse
import itertools
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import torch

from ray_resume import torch_state
from ray_resume.checkpoint_store import CheckpointStore, Saved
from ray_resume.saving import digests
from ray_resume.storage import open_storage
from tests.jobs.support.ray_nodes import Nodes

REPOSITORY: Final = Path(__file__).parents[1]
RAY_JOBS: Final = REPOSITORY / "ray_jobs"
LIBRARY: Final = REPOSITORY / "packages" / "ray-resume"
HOURS_BETWEEN_FAILURES: Final = (1, 3, 24)
_FAILURES: Final = 3
_UNDISTURBED: Final = 6
"""Checkpoints before each failure, which show how long an interval takes."""
_WRITTEN_AT_ONCE: Final = "checkpoint written"
_BLOCKED: Final = "checkpoint copied"
_RESUMES: Final = "resumes from step"
_WRITTEN: Final = re.compile(r"checkpoint of step (\d+) written")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200, help="weights and optimizer together (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--directory", type=Path, help="where to write (a temporary directory)")
    options = parser.parse_args()
    # PyTorch's warnings about its own deprecations would appear between the figures.
    warnings.filterwarnings("ignore", module="torch")
    # Ray's processes inherit these.
    os.environ |= {"PYTHONPATH": f"{LIBRARY}:{RAY_JOBS}", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        _checkpoints(Path(directory), options.megabytes, options.rounds)
        _failures(Path(directory))


def _checkpoints(directory: Path, megabytes: int, rounds: int) -> None:
    # Adam keeps two numbers beside each weight.
    weights = megabytes * 1_000_000 // (3 * 4)
    actions = _actions(directory, weights)
    times: dict[str, list[float]] = {name: [] for name in actions}
    for round_ in range(rounds + 1):
        for name, action in actions.items():
            started = time.monotonic()
            rest = action()
            if round_:
                times[name].append(time.monotonic() - started)
            if rest:
                rest()
    yardstick = times["torch.save and fsync"]
    for name, measured in times.items():
        ratio = statistics.median(a / b for a, b in zip(measured, yardstick, strict=True))
        print(
            f"{name:24} {statistics.median(measured):6.2f} s for {megabytes} MB   {ratio:.2f} of torch.save and fsync"
        )
    pairs = zip(times[_BLOCKED], times[_WRITTEN_AT_ONCE], strict=True)
    ratio = statistics.median(blocked / written for blocked, written in pairs)
    print(f"an asynchronous save blocks the training for {ratio:.2f} of the time of a blocking one")


def _actions(directory: Path, weights: int) -> dict[str, Callable[[], Callable[[], None] | None]]:
    """Return what is measured, by name. An action may return what follows it and is not measured."""
    model = torch.nn.Linear(1000, weights // 1000, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 1000)).sum().backward()
    optimizer.step()
    store = CheckpointStore(open_storage(str(directory), "bench"))
    writer, _ = store.begin(1)
    saved, later = Saved(1, writer), Saved(2, writer)

    def write() -> None:
        with store.storage.writing(saved.folder) as path:
            torch_state.save(path, model, optimizer, rank=0)
            found = digests(path)
        store.commit(saved, {}, digests=found)

    def copy() -> Callable[[], None]:
        files = ExitStack()
        path = files.enter_context(store.storage.writing(later.folder))
        rest = torch_state.async_save(path, model, optimizer, rank=0)

        def finish() -> None:
            with files:
                rest(None)
                found = digests(path)
            store.commit(later, {}, digests=found)

        return finish

    def read() -> None:
        with store.storage.reading(saved.folder) as path:
            torch_state.load(path, model, optimizer, rank=0, reseed=0)

    def plain() -> None:
        with (directory / "plain.pt").open("wb") as file:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            os.fsync(file.fileno())

    return {
        "torch.save and fsync": plain,
        _WRITTEN_AT_ONCE: write,
        _BLOCKED: copy,
        "checkpoint verified": lambda: print(end=store.damage(saved)),
        "checkpoint read": read,
    }


def _failures(directory: Path) -> None:
    # With Ray's default patience with a silent node.
    with Nodes(system_config={}) as nodes:
        nodes.be(workers=2)
        with _training(directory, nodes.address) as training:
            lost = [_lose_a_node(nodes, training) for _ in range(_FAILURES)]
    median = statistics.median(lost)
    figures = ", ".join(f"{seconds:.1f}" for seconds in lost)
    print(f"seconds lost by a killed worker node, replaced at once: {median:.1f} (median of {figures})")
    shares = ", ".join(f"{median / 3600 / hours:.2%} every {hours} h" for hours in HOURS_BETWEEN_FAILURES)
    print(f"share of the time lost at one failure: {shares}; plus half a checkpoint interval on average")


def _lose_a_node(nodes: Nodes, training: "_Training") -> float:
    training.wait_for(len(training.checkpoints()) + _UNDISTURBED)
    restarts = len(training.restarts())
    nodes.kill(0)
    nodes.add()
    return training.seconds_lost(restarts)


class _Training:
    """A training in a process of its own, with the lines that it printed and their times."""

    def __init__(self, job: "subprocess.Popen[str]") -> None:
        self._job = job
        self._lines: list[tuple[float, str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def checkpoints(self) -> list[float]:
        """Return when each checkpoint was written."""
        return [at for at, line in list(self._lines) if _WRITTEN.search(line)]

    def wait_for(self, checkpoints: int) -> None:
        """Wait for so many checkpoints. End the program if the job ends first."""
        self._wait(lambda: len(self.checkpoints()) >= checkpoints)

    def restarts(self) -> list[float]:
        """Return when the job resumed from a checkpoint."""
        return [at for at, line in list(self._lines) if _RESUMES in line]

    def seconds_lost(self, restarts: int) -> float:
        """Wait for a checkpoint after more than so many restarts; return the seconds beyond an undisturbed interval."""
        self._wait(lambda: len(self.restarts()) > restarts)
        restarted = self.restarts()[-1]
        self._wait(lambda: self.checkpoints()[-1] > restarted)
        written = self.checkpoints()
        after = next(place for place, at in enumerate(written) if at > restarted)
        intervals = [b - a for a, b in itertools.pairwise(written[after - _UNDISTURBED : after])]
        return written[after] - written[after - 1] - statistics.median(intervals)

    def _read(self) -> None:
        for line in self._job.stdout or ():
            self._lines.append((time.monotonic(), line))

    def _wait(self, reached: Callable[[], bool]) -> None:
        while not reached():
            if self._job.poll() is not None:
                tail = "".join(line for _, line in self._lines[-20:])
                sys.exit(f"{tail}the job ended with exit code {self._job.returncode} before the measurement")
            time.sleep(0.05)


@contextmanager
def _training(directory: Path, address: str) -> Iterator[_Training]:
    argv = [sys.executable, str(RAY_JOBS / "pytorch_ddp.py"), "--storage", str(directory)]
    argv += ["--epochs", "100000", "--patience", "300", "--every", "100", "--samples", "320"]
    env = {**os.environ, "RAY_ADDRESS": address, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(argv, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
        try:
            yield _Training(job)
        finally:
            job.kill()


if __name__ == "__main__":
    main()
