"""A cluster of real Slurm runs jobs, loses nodes, grows, and leaves nothing."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from embedded_account.testing.processes import processes_below
from rehearsal.paths import REPOSITORY
from rehearsal.slurm.cluster import SlurmCluster
from rehearsal.slurm.configuration import PORTS
from tests.rehearsal.run.checkout import eventually_none_below
from tests.support.slurm import slurm_cluster
from tests.support.waiting import wait_until

LOGIN = "ip-10-1-2-10"
COMPUTE = ["ip-10-1-3-10", "ip-10-1-3-11"]
WAITS_FOR_A_NODE = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --requeue
#SBATCH --open-mode=append
echo "start ${SLURM_RESTART_COUNT:-0} on $(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd ,)"
until [ -e go ]; do sleep 0.2; done
srun hostname
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    """Keep its files where every node has a folder of its own, which must not hide them."""
    with TemporaryDirectory(dir="/dev/shm") as directory:
        with slurm_cluster(Path(directory) / "cluster") as started:
            yield started
        assert not processes_below(Path(directory))


def test_every_node_sees_the_partitions_of_the_environment(cluster: SlurmCluster) -> None:
    for node in (cluster.controller, LOGIN, *COMPUTE):
        said = cluster.run("sinfo", "--noheader", "--format=%P %D %N", on=node)
        assert said == "dev* 2 ip-10-1-3-[10-11]\n"


def test_each_task_runs_on_its_own_node_and_address(cluster: SlurmCluster) -> None:
    said = cluster.run("srun", "-N2", "sh", "-c", "hostname; ip -4 -o address show eth0", on=LOGIN)
    assert sorted(re.findall(r"^ip\S+", said, re.MULTILINE)) == COMPUTE
    assert sorted(re.findall(r"inet (\S+)/16", said)) == ["10.1.3.10", "10.1.3.11"]


def test_nodes_reach_nothing_but_each_other(cluster: SlurmCluster) -> None:
    assert cluster.run("ip", "route", on=COMPUTE[0]).split()[0] == "10.1.0.0/16"
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    assert not [address for address in listening if int(address.partition(":")[2], 16) in PORTS.values()]


def test_batch_job_ends_and_is_recorded(cluster: SlurmCluster) -> None:
    (cluster.directory / "job.sh").write_text("#!/bin/bash\nsrun hostname\n")
    job = cluster.submit("--nodes=2", "--output=job.out", "job.sh")
    cluster.wait_for(job, "COMPLETED")
    assert sorted((cluster.directory / "job.out").read_text().split()) == COMPUTE
    wait_until(lambda: f"JobId={job} " in cluster.finished_jobs.read_text(), "the job is recorded")


@pytest.mark.sampled(1, of="real Slurm")
def test_group_grows_under_a_running_job(cluster: SlurmCluster) -> None:
    """The last test of the shared cluster that knows its number of nodes."""
    (cluster.directory / "waits.sh").write_text(WAITS_FOR_A_NODE)
    job = cluster.submit("--output=grown.out", "waits.sh")
    cluster.wait_for(job, "RUNNING")
    assert cluster.grow("compute-nodes", by=1) == ["ip-10-1-3-12"]
    cluster.wait_for_node("ip-10-1-3-12", "idle")
    (cluster.directory / "go").touch()
    cluster.wait_for(job, "COMPLETED")
    assert (cluster.directory / "grown.out").read_text().count("start") == 1
    cluster.wait_until_idle()
    assert len(cluster.run("srun", "-N3", "hostname").split()) == 3


@pytest.mark.sampled(1, of="real Slurm")
def test_job_of_a_lost_node_is_requeued_and_ends_on_its_replacement(tmp_path: Path) -> None:
    with slurm_cluster(tmp_path / "cluster") as cluster:
        (cluster.directory / "waits.sh").write_text(WAITS_FOR_A_NODE)
        job = cluster.submit("--output=lost.out", "waits.sh")
        cluster.wait_for(job, "RUNNING")
        cluster.kill(COMPUTE[1])
        cluster.wait_for_node(COMPUTE[1], "down*")
        cluster.wait_for(job, "PENDING")
        (cluster.directory / "go").touch()
        cluster.start(COMPUTE[1])
        cluster.wait_for(job, "COMPLETED")
        said = (cluster.directory / "lost.out").read_text()
        assert said.count("start") == 2
        assert f"start 1 on {','.join(COMPUTE)}" in said


def test_killed_rehearsal_leaves_no_process(cluster: SlurmCluster, tmp_path: Path) -> None:
    """The cluster of the other tests shows that Slurm runs here; this one belongs to a process that is killed."""
    directory = tmp_path / "killed"
    program = (
        "import sys, time; from pathlib import Path; from tests.support.slurm import slurm_cluster\n"
        "with slurm_cluster(Path(sys.argv[1])): print('running', flush=True); time.sleep(3600)"
    )
    packages = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "packages/embedded-account")])
    rehearsal = subprocess.Popen(
        [sys.executable, "-c", program, str(directory)],
        env={**os.environ, "PYTHONPATH": packages},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert rehearsal.stdout
    assert rehearsal.stdout.readline() == "running\n"
    names = " ".join(processes_below(directory).values())
    assert all(daemon in names for daemon in ("munged", "slurmctld", "slurmd"))
    rehearsal.send_signal(signal.SIGKILL)
    rehearsal.communicate()
    assert not eventually_none_below(directory)
