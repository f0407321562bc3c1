"""The batch scripts of ray_jobs/slurm/ on real Slurm. A stand-in for torchrun shows what the scripts themselves do.

tests/jobs/test_slurm_jobs.py runs the trainings.
"""

import re
import time
from collections.abc import Iterator

import pytest

from ops.slurm.change import NAMES
from rehearsal.slurm import jobs, programs
from rehearsal.slurm.cluster import SlurmCluster
from rehearsal.slurm.jobs import Jobs
from tests.support.slurm import (
    ALL_LOST,
    command_of_page,
    kill_like_a_late_end,
    lose_all_nodes,
    slurm_cluster,
    wait_until_saved,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.product
WAITS = "until [ -e go ]; do sleep 0.1; done"
KILL_SECONDS = 15
"""The longest that slurmctld tries to reach a lost node: MessageTimeout, and the attempts to connect."""
NODES = ["ip-10-1-3-10", "ip-10-1-3-11"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm") / "cluster") as started:
        yield started


def test_slurm_tells_ops_the_address_of_each_compute_node(cluster: SlurmCluster) -> None:
    """`ops node replace` finds the name by the address."""
    said = cluster.run(*NAMES.split()).splitlines()
    assert said == ["ip-10-1-3-10=10.1.3.10", "ip-10-1-3-11=10.1.3.11"]


def test_failing_training_is_requeued_a_bounded_number_of_times(cluster: SlurmCluster) -> None:
    failing = Jobs(cluster, programs.ensure(), "exit 7")
    number = failing.submit(MAX_FAILURES="1")
    assert cluster.wait_for(number, "COMPLETED", "FAILED") == "FAILED"
    assert sorted(set(re.findall(r"start (\d): node", failing.output))) == ["0", "1"]
    assert failing.output.count("is requeued") == 1
    assert "fix the cause" in failing.output


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seconds", [0, 12, 40], ids=["at once", "after 12 s", "after 40 s"])
def test_job_that_failed_after_the_loss_of_all_nodes_runs_by_the_pages_command(
    cluster: SlurmCluster, seconds: float
) -> None:
    """Slurm before 24.11.1 may end the start after such a loss; the batch script is killed where it does not."""
    waiting = Jobs(cluster, programs.ensure(), WAITS)
    number = waiting.submit()
    wait_until(lambda: waiting.output.count("torchrun --") == 2, "both nodes train")
    lose_all_nodes(cluster, seconds)
    shown = ("scontrol", "show", "job", str(number))
    wait_until(lambda: "Restarts=0" not in cluster.run(*shown), "Slurm requeues the job")
    # Else it could reach the start after the command, too.
    time.sleep(KILL_SECONDS)
    kill_like_a_late_end(cluster, number)
    cluster.attempt("scontrol", "release", str(number))
    assert cluster.state_of(number) == "FAILED", "the page says that a release does nothing"
    (waiting.directory / "go").touch()
    cluster.run(*command_of_page(ALL_LOST, number))
    assert cluster.wait_for(number, "COMPLETED", "FAILED") == "COMPLETED", waiting.output


def test_rehearsed_job_is_requeued_and_ends(cluster: SlurmCluster) -> None:
    """`make rehearse ENV=slurm` says the same."""
    seen: list[str] = []
    jobs.prove(cluster, programs.ensure(), seen.append)
    assert "failed, was requeued and ended" in seen[0]
    assert "--auto-resume=1: a stand-in" in seen[1]


def test_nodes_are_those_of_the_job_and_not_of_a_stale_variable(cluster: SlurmCluster) -> None:
    """HyperPod leaves SLURM_JOB_NODELIST as it was when it replaces a node."""
    copied = Jobs(cluster, programs.ensure(), "exit 0")
    stale = ("env", "SLURM_JOB_NODELIST=ip-10-9-9-[8-9]")
    activated = f". {copied.directory}/environment/bin/activate && exec {copied.directory}/torchrun.sh train.py"
    said = cluster.run("srun", "--nodes=2", *stale, "bash", "-c", activated)
    words = [line.split() for line in said.splitlines() if line.startswith("torchrun --")]
    assert len(words) == 2
    assert all({"--nnodes=2", "--master-addr=10.1.3.10", "train.py"} <= set(each) for each in words)
    assert {word for each in words for word in each if "rank" in word} == {"--node-rank=0", "--node-rank=1"}
    assert re.findall(r"node 0 of 2 is (\S+),", said) == NODES[:1]


def test_node_that_is_none_of_the_jobs_starts_nothing(cluster: SlurmCluster) -> None:
    copied = Jobs(cluster, programs.ensure(), "exit 0")
    started = f". {copied.directory}/environment/bin/activate && {copied.directory}/torchrun.sh train.py 2>&1 || true"
    said = cluster.run("srun", "--nodes=1", "env", "SLURMD_NODENAME=ip-10-9-9-9", "bash", "-c", started)
    assert "ip-10-9-9-9 is none of the job's nodes" in said
    assert "torchrun --" not in said


def test_job_that_printed_nothing_yet_has_an_empty_output(cluster: SlurmCluster) -> None:
    """Slurm says RUNNING before the job's node creates the file."""
    held = Jobs(cluster, programs.ensure(), "exit 0")
    number = held.submit("--hold")
    assert held.output == ""
    cluster.run("scancel", str(number))


def test_training_continues_while_the_controller_is_replaced(cluster: SlurmCluster) -> None:
    waiting = Jobs(cluster, programs.ensure(), WAITS)
    number = waiting.submit()
    cluster.wait_for(number, "RUNNING")
    wait_until(lambda: waiting.output.count("torchrun --") == 2, "both nodes train")
    wait_until_saved(cluster, number)
    cluster.kill(cluster.controller)
    cluster.start(cluster.controller)
    cluster.wait_for(number, "RUNNING")
    (waiting.directory / "go").touch()
    assert cluster.wait_for(number, "COMPLETED", "FAILED") == "COMPLETED"
    assert "start 1" not in waiting.output
