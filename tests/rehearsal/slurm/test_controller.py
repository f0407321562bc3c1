"""What a replaced controller still knows: the queue and the records of jobs, if its state outlives it."""

from pathlib import Path
from typing import Final

import pytest

from rehearsal.slurm.cluster import SlurmCluster
from tests.support.slurm import slurm_cluster
from tests.support.waiting import wait_until

WAITS: Final = """#!/bin/bash
#SBATCH --open-mode=append
echo "start ${SLURM_RESTART_COUNT:-0}"
until [ -e go ]; do sleep 0.2; done
echo end
"""
OWN_STATE: Final = Path("/run/slurmctld")
"""On the controller's own disk: it is lost with the node."""


def busy(cluster: SlurmCluster) -> tuple[int, int, int]:
    """Submit three jobs; return their numbers: one has ended, one runs, one waits for the nodes of the other."""
    (cluster.directory / "waits.sh").write_text(WAITS)
    ended = cluster.submit("--output=ended.out", "--wrap=hostname")
    cluster.wait_for(ended, "COMPLETED")
    running = cluster.submit("--nodes=2", "--exclusive", "--output=running.out", "waits.sh")
    cluster.wait_for(running, "RUNNING")
    waiting = cluster.submit(
        "--nodes=2", "--exclusive", "--job-name=waits-for-nodes", "--output=waiting.out", "waits.sh"
    )
    return ended, running, waiting


def replace_controller(cluster: SlurmCluster) -> None:
    controller = cluster.controller
    cluster.kill(controller)
    cluster.start(controller)
    wait_until(lambda: len(cluster.states()) == len(cluster.compute), "the new controller answers")


def test_replaced_controller_with_shared_state_keeps_queue_running_jobs_and_records(tmp_path: Path) -> None:
    with slurm_cluster(tmp_path / "cluster") as cluster:
        ended, running, waiting = busy(cluster)
        # slurmctld writes its state some seconds after a change; what it did not write is lost.
        jobs = cluster.directory / "state/job_state"
        wait_until(lambda: jobs.exists() and b"waits-for-nodes" in jobs.read_bytes(), "the queue is saved")
        replace_controller(cluster)
        assert (cluster.state_of(running), cluster.state_of(waiting)) == ("RUNNING", "PENDING")
        (cluster.directory / "go").touch()
        for job in (running, waiting):
            cluster.wait_for(job, "COMPLETED")
        assert (cluster.directory / "running.out").read_text() == "start 0\nend\n"
        wait_until(lambda: f"JobId={waiting} " in cluster.finished_jobs.read_text(), "the last job is recorded")
        assert f"JobId={ended} " in cluster.finished_jobs.read_text()
        assert cluster.submit("--wrap=true") > waiting


@pytest.mark.sampled(1, of="real Slurm")
def test_replaced_controller_without_its_state_ends_running_jobs_and_forgets_all(tmp_path: Path) -> None:
    with slurm_cluster(tmp_path / "cluster", state=OWN_STATE) as cluster:
        ended, running, waiting = busy(cluster)
        recorded = str(OWN_STATE / "finished-jobs.txt")
        assert f"JobId={ended} " in cluster.run("cat", recorded)
        replace_controller(cluster)
        cluster.wait_until_idle()
        assert [cluster.state_of(job) for job in (ended, running, waiting)] == ["", "", ""]
        assert cluster.attempt("grep", f"JobId={ended} ", recorded).returncode
        (cluster.directory / "go").touch()
        again = cluster.submit("--nodes=2", "--output=again.out", "waits.sh")
        assert again == ended
        cluster.wait_for(again, "COMPLETED")
        assert (cluster.directory / "running.out").read_text() == "start 0\n"
