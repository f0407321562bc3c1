"""Jobs of ray_jobs/slurm/ on real Slurm, and the same training without it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch

from embedded_account.testing.processes import processes_below
from rehearsal.slurm.cluster import SlurmCluster
from rehearsal.slurm.configuration import ConfiguredGroup
from tests.jobs.support.paths import LIBRARY, RAY_JOBS
from tests.support.slurm import slurm_cluster
from tests.support.waiting import wait_until

GROUPS: Final = (
    ConfiguredGroup("controller-machine", 1, "controller"),
    ConfiguredGroup("worker-group", 2, "compute", "dev"),
)
KINDS: Final = ("train_ddp", "train_accelerate", "train_deepspeed")
ARGUMENTS: Final = ("--samples=160", "--epochs=3", "--every=5")
STEPS: Final = 30


class Job:
    """A folder with the jobs' files, as a user copies them."""

    def __init__(self, directory: Path, kind: str) -> None:
        self.directory = directory
        self.kind = kind
        shutil.copytree(RAY_JOBS / "slurm", directory)
        script = directory / f"{kind}.py"
        script.rename(script.with_name(f"_{script.name}"))
        shutil.copy2(Path(__file__).with_name("held_training.py"), script)

    @property
    def variables(self) -> dict[str, str]:
        return {
            "PYTHON_ENVIRONMENT": sys.prefix,
            "PYTHONPATH": str(LIBRARY),
            "OMP_NUM_THREADS": "1",
            "RUN_STORAGE": str(self.directory / "runs"),
        }

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = torch.load(self.directory / "weights.pt")
        return found

    @property
    def output(self) -> str:
        return "".join(file.read_text() for file in self.directory.glob("*.out"))

    def hold(self, step: int) -> None:
        """Let the workers wait after this step, also those that resume."""
        draft = self.directory / "next"
        draft.write_text(str(step))
        draft.replace(self.directory / "hold")

    def wait_until_held(self, step: int) -> None:
        """Wait until both workers wait after this step."""
        marks = [self.directory / f"held-{rank}-{step}" for rank in range(2)]
        wait_until(lambda: all(mark.exists() for mark in marks), f"both workers wait after step {step}")

    def release(self) -> None:
        """Let the workers train to the end."""
        (self.directory / "hold").unlink()


@contextmanager
def undisturbed(directory: Path, kind: str) -> Iterator[tuple[Job, "subprocess.Popen[str]"]]:
    """Start the training with the same workers as processes of this machine, without Slurm."""
    job = Job(directory, kind)
    argv = [str(Path(sys.prefix) / "bin" / "torchrun"), "--standalone", "--nproc-per-node=2", f"{kind}.py", *ARGUMENTS]
    with (
        (directory / "undisturbed.out").open("w") as output,
        subprocess.Popen(
            argv, cwd=directory, env={**os.environ, **job.variables}, stdout=output, stderr=subprocess.STDOUT, text=True
        ) as process,
    ):
        try:
            yield job, process
        finally:
            process.terminate()


@contextmanager
def slurm(job: Job) -> Iterator[SlurmCluster]:
    """Start a cluster that shares the folder of a job."""
    directory = job.directory.parent / "cluster"
    with slurm_cluster(directory, GROUPS) as cluster:
        yield cluster
    assert not processes_below(directory)


def submit(cluster: SlurmCluster, job: Job, **variables: str) -> int:
    """Submit a job with its variables, and more; return its number."""
    words = [f"{name}={value}" for name, value in {**job.variables, **variables}.items()]
    script = str(job.directory / f"{job.kind}.sbatch")
    return int(cluster.run("env", *words, "sbatch", "--parsable", f"--chdir={job.directory}", script, *ARGUMENTS))


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, weight in found.items():
        assert torch.equal(weight, expected[name]), name
