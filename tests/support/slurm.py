"""Real Slurm for tests, where this machine can run it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from embedded_account.machine.processes import ProcessError
from rehearsal.slurm import programs
from rehearsal.slurm.cluster import SlurmCluster
from rehearsal.slurm.configuration import Group
from rehearsal.slurm.scripted import DeployedScripts
from tests.support.waiting import wait_until

GROUPS: Final = (
    Group("controller-machine", 1, "controller"),
    Group("login-nodes", 1, "login"),
    Group("compute-nodes", 2, "compute", "dev"),
)


def slurm_cluster(
    directory: Path,
    groups: Sequence[Group] = GROUPS,
    *,
    state: Path | None = None,
    scripts: DeployedScripts | None = None,
) -> SlurmCluster:
    """A cluster that is not started yet; the test is skipped where Slurm cannot be fetched or run."""
    try:
        return SlurmCluster(directory, groups, programs.ensure(), state=state, scripts=scripts)
    except ProcessError as error:
        pytest.skip(str(error))


def wait_until_saved(cluster: SlurmCluster, job: int) -> None:
    """Wait until the controller has written a running job to its state: it does so within seconds, not at once."""
    mark = f"saved-{job}"
    cluster.run("scontrol", "update", f"JobId={job}", f"Comment={mark}")
    state = cluster.directory / "state" / "job_state"
    wait_until(lambda: state.exists() and mark.encode() in state.read_bytes(), "the controller saves its state")
