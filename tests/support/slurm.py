"""Real Slurm for tests, where this machine can run it."""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from embedded_account.machine.processes import ProcessError
from rehearsal.paths import REPOSITORY
from rehearsal.slurm import programs
from rehearsal.slurm.cluster import SlurmCluster
from rehearsal.slurm.configuration import ConfiguredGroup
from rehearsal.slurm.scripted import DeployedScripts
from tests.support.waiting import wait_until

PAGE: Final = REPOSITORY / "docs" / "operate" / "slurm-jobs.md"
ALL_LOST: Final = "When all nodes of a job are lost at once"
GROUPS: Final = (
    ConfiguredGroup("controller-machine", 1, "controller"),
    ConfiguredGroup("login-nodes", 1, "login"),
    ConfiguredGroup("compute-nodes", 2, "compute", "dev"),
)


def slurm_cluster(
    directory: Path,
    groups: Sequence[ConfiguredGroup] = GROUPS,
    *,
    state: Path | None = None,
    scripts: DeployedScripts | None = None,
) -> SlurmCluster:
    """A cluster that is not started yet; the test is skipped where Slurm cannot be fetched or run."""
    try:
        return SlurmCluster(directory, groups, programs.ensure(), state=state, scripts=scripts)
    except ProcessError as error:
        pytest.skip(str(error))


def command_of_page(heading: str, job: int) -> list[str]:
    """Return the command that a section of docs/operate/slurm-jobs.md shows for JOB, as a person types it."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    [command] = re.findall(r"```\n(.+)\n```", section)
    assert "JOB" in command.split()
    return [str(job) if word == "JOB" else word for word in command.split()]


def lose_all_nodes(cluster: SlurmCluster, seconds: float) -> None:
    """Lose all compute nodes at once, and start them again after `seconds`, while Slurm's own time-outs run."""
    for name in cluster.compute:
        cluster.kill(name)
    time.sleep(seconds)
    for name in cluster.compute:
        cluster.start(name)


def kill_like_a_late_end(cluster: SlurmCluster, job: int) -> None:
    """Kill a job's batch script while the job runs, until it has FAILED.

    Slurm's end of a lost start does so where it reaches the next one; whether it does is a matter of milliseconds.
    """

    def failed() -> bool:
        state = cluster.state_of(job)
        if state == "RUNNING":
            cluster.attempt("scancel", "--signal=KILL", "--batch", str(job))
        return state == "FAILED"

    wait_until(failed, "the job fails")
    assert "Reason=JobLaunchFailure" in cluster.run("scontrol", "show", "job", str(job))


def wait_until_saved(cluster: SlurmCluster, job: int) -> None:
    """Wait until the controller has written a running job to its state: it does so within seconds, not at once."""
    mark = f"saved-{job}"
    cluster.run("scontrol", "update", f"JobId={job}", f"Comment={mark}")
    state = cluster.directory / "state" / "job_state"
    wait_until(lambda: state.exists() and mark.encode() in state.read_bytes(), "the controller saves its state")
