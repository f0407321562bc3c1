"""Start the small training (small_training.py), and read its results."""

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from typing_extensions import Self

from ray_resume.checkpoint_store import CheckpointStore, Saved
from ray_resume.storage import open_storage
from tests.jobs.support.forkserver import Script
from tests.jobs.support.ray_nodes import Nodes
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

JOB = Path(__file__).with_name("small_training.py")


@dataclass(frozen=True)
class Trained:
    """A line of a worker's trace: in this step, the worker trained on these samples."""

    step: int
    rank: int
    world: int
    samples: tuple[int, ...]


@dataclass(frozen=True)
class Undisturbed:
    """The result of an undisturbed run: the final weights, the final loss, and the samples of each step."""

    weights: dict[str, torch.Tensor]
    loss: float
    samples: dict[int, list[int]]


class Runs:
    """The attempts of one run."""

    def __init__(self, directory: Path, nodes: Nodes) -> None:
        self.nodes = nodes
        self.storage = directory / "storage"
        self.trace = directory / "trace"
        self.log = directory / "log.txt"
        self.trace.mkdir()
        self._jobs: list[Script] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for job in self._jobs:
            job.kill()
            job.wait()

    def start(self, *arguments: str, attempt: int | None = None, script: Path = JOB) -> "Attempt":
        """Start an attempt of the run."""
        argv = [str(script), "--storage", str(self.storage), *arguments]
        if script == JOB:
            argv += ["--trace", str(self.trace)]
        env = {**os.environ, "RAY_ADDRESS": self.nodes.address, "PYTHONUNBUFFERED": "1"}
        if attempt is not None:
            env["RUN_ATTEMPT"] = str(attempt)
        self.log.touch()
        start = self.log.stat().st_size
        self._jobs.append(Script(argv, env, self.log))
        return Attempt(self._jobs[-1], self.log, start)

    @property
    def store(self) -> CheckpointStore:
        return CheckpointStore(open_storage(str(self.storage), "job"))

    def trained(self) -> list[Trained]:
        """Return the trace lines of all workers, in no particular order."""
        lines = [line.split(" ") for file in self.trace.glob("*.txt") for line in file.read_text().splitlines()]
        return [
            Trained(int(step), int(rank), int(world), tuple(int(one) for one in samples.split(",") if one))
            for step, rank, world, samples in lines
        ]

    def workers(self) -> list[int]:
        """Return the processes that trained and are still alive."""
        return [int(file.stem) for file in self.trace.glob("*.txt") if _is_rays(file.stem)]

    def allow(self, steps: int) -> None:
        """Limit the run to this many steps for now."""
        limit = self.trace / "limit"
        (new := limit.with_suffix(".new")).write_text(str(steps))
        new.replace(limit)

    def wait_for_step(self, step: int) -> None:
        """Wait until a worker has trained this step (from 0)."""
        wait_until(
            lambda: any(entry.step >= step for entry in self.trained()), f"step {step}", REHEARSAL_PATIENCE_SECONDS
        )

    def samples(self) -> dict[int, list[int]]:
        """Return the samples of each step, of all workers together; a repeated step counts once.

        Raises:
            AssertionError: a repeated step took other samples.
        """
        parts: dict[int, dict[tuple[int, int], tuple[int, ...]]] = {}
        for entry in self.trained():
            parts.setdefault(entry.step, {}).setdefault((entry.world, entry.rank), entry.samples)
            assert parts[entry.step][entry.world, entry.rank] == entry.samples, f"step {entry.step}: other samples"
        samples = {}
        for step, workers in parts.items():
            world = max(world for world, _ in workers)
            samples[step] = sorted(one for (size, _), taken in workers.items() if size == world for one in taken)
        return samples

    def last(self) -> Saved:
        return self.store.committed()[-1]

    def weights(self, saved: Saved | None = None) -> dict[str, torch.Tensor]:
        """Return the weights of this checkpoint, by default of the newest, read with PyTorch's own tools."""
        saved = saved or self.last()
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "weights.pt"
            dcp_to_torch_save(self.storage / "job" / saved.folder, file)
            state: dict[str, Any] = torch.load(file, weights_only=False)
        return dict(state["model"])

    def done(self) -> dict[str, Any]:
        return dict(json.loads((self.storage / "job" / "DONE.json").read_text()))

    def final_loss(self) -> float:
        return float(self.done()["metrics"]["loss"])


@dataclass
class Attempt:
    """A started job."""

    job: Script | subprocess.Popen[bytes]
    log: Path
    start: int

    def wait(self, seconds: float = REHEARSAL_PATIENCE_SECONDS) -> int:
        """Wait until the job ends; return its exit code."""
        return self.job.wait(seconds)

    @property
    def output(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self.start)
            return re.sub(r"\x1b\[[0-9;]*m", "", log.read().decode())

    def resumed(self) -> list[int]:
        """Return the steps from which its worker groups resumed."""
        found = re.findall(r"attempt \d+\.\d+: (?:resumes from|starts at) step (\d+)", self.output)
        return [int(step) for step in found]


def _is_rays(pid: str) -> bool:
    try:
        return Path("/proc", pid, "cmdline").read_bytes().startswith(b"ray::")
    except (FileNotFoundError, ProcessLookupError):
        return False
