"""Fixtures for real Ray with several nodes on this machine, in the jobs' own environment: `make test-jobs`."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import ray
import torch.distributed as dist

from tests.jobs.support import newer_names

# Before the modules that use these parts.
newer_names.import_parts()

from tests.jobs.support.paths import MODULES  # noqa: E402
from tests.jobs.support.ray_nodes import Nodes  # noqa: E402
from tests.jobs.support.runs import Runs, Undisturbed  # noqa: E402
from tests.jobs.support.version_set import SET, TABLE  # noqa: E402
from tests.support import sampling  # noqa: E402

# Ray's processes inherit these.
os.environ |= {
    "PYTHONPATH": MODULES,
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
    # Ray's default is niceness 15, with which workers get a thirtieth of another process's time on a busy core.
    "RAY_worker_niceness": "0",
    # The reporter of each node only feeds the dashboard, which these tests do not use.
    "REPORTER_UPDATE_INTERVAL_MS": "3600000",
    # Nothing is compiled, and each process that imports Lightning would start three that import PyTorch for it.
    "TORCH_WARM_POOL": "0",
    # As the pods of a RayCluster.
    **TABLE["as_before"](SET.ray),
}

# The files with real Ray, longest first, so that both pytest workers finish at about the same time.
_LONGEST = (
    *("test_interruptions.py", "test_failures.py", "test_examples.py", "test_supervisor.py", "test_slurm_jobs.py"),
    *("test_elastic.py", "test_complete.py", "test_waiting.py"),
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first."""
    rank = {name: number for number, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


@pytest.fixture(autouse=True)
def stays_no_driver() -> Iterator[None]:
    """Fail a test that leaves this process connected to Ray: the next tests would run as that driver's."""
    yield
    if ray.is_initialized():
        ray.shutdown()
        pytest.fail("the test left this process connected to Ray. Fix: shut Ray down, or replace what connects")


@pytest.fixture(scope="session")
def group_of_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make this process a process group of its own, until it ends.

    Ending a group of gloo holds Python's lock while it waits for threads that may need the lock to free the tensors of
    the last collective (PyTorch 2.6): shortly after a collective this can wait for ever.
    """
    meeting = tmp_path_factory.mktemp("group") / "meeting"
    dist.init_process_group("gloo", store=dist.FileStore(str(meeting), 1), rank=0, world_size=1)


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[Nodes]:
    """Yield one cluster for all tests, because it takes ten seconds to start.

    `make test-long` starts Ray's workers as Ray does, any other run forks them.
    """
    with Nodes(forked=sampling.MARKER not in pytestconfig.option.markexpr) as cluster:
        yield cluster


@pytest.fixture
def nodes(cluster: Nodes) -> Nodes:
    """Return a head and two worker nodes of one CPU each."""
    cluster.be(workers=2)
    return cluster


@pytest.fixture
def runs(nodes: Nodes, tmp_path: Path) -> Iterator[Runs]:
    """Yield a starter of the small training on the nodes; end the attempts that still run."""
    with Runs(tmp_path, nodes) as runs:
        yield runs


@pytest.fixture(scope="session")
def undisturbed(cluster: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Undisturbed]:
    """Return a function that returns the result of an undisturbed run, trained once for each set of arguments."""
    known: dict[tuple[str, ...], Undisturbed] = {}

    def result(*arguments: str) -> Undisturbed:
        if arguments not in known:
            cluster.be(workers=2)
            with Runs(tmp_path_factory.mktemp("undisturbed"), cluster) as runs:
                job = runs.start(*arguments)
                assert job.wait() == 0, job.output
                known[arguments] = Undisturbed(runs.weights(), runs.final_loss(), runs.samples())
        return known[arguments]

    return result
