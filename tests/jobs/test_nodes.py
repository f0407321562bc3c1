"""The Ray nodes of the jobs' tests."""

import json
from pathlib import Path

from ray._private.utils import get_ray_address_file

from embedded_account.machine.processes import is_alive
from tests.jobs.support.ray_nodes import Nodes
from tests.jobs.support.runs import Runs
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS, wait_until

WORKERS = """
import json, os, time, ray

@ray.remote(num_cpus=1)
class Worker:
    def look(self):
        return os.getpid(), ray.get_runtime_context().get_worker_id()

ray.init()
workers = [Worker.remote() for _ in range(2)]
print(json.dumps(ray.get([worker.look.remote() for worker in workers])), flush=True)
time.sleep(3600)
"""


def test_head_s_address_is_written_to_a_folder_of_its_own(nodes: Nodes) -> None:
    """Not in /tmp/ray, which may not exist, and where other Ray clusters write their addresses."""
    noted = Path(get_ray_address_file(None))
    assert noted.read_text() == nodes.address
    assert Path("/tmp/ray") not in noted.parents


def test_each_worker_has_an_id_and_a_title_of_its_own_and_ends_with_its_node(
    nodes: Nodes, runs: Runs, tmp_path: Path
) -> None:
    """Also workers that are forked (`ray_workers.py`): they are no descendants of their node."""
    (script := tmp_path / "workers.py").write_text(WORKERS)
    job = runs.start(script=script)
    wait_until(lambda: "[[" in job.output or job.job.poll() is not None, "both workers", REHEARSAL_PATIENCE_SECONDS)
    workers = next(json.loads(line) for line in job.output.splitlines() if line.startswith("[["))
    assert len({id for _, id in workers}) == 2
    assert all(Path("/proc", str(pid), "cmdline").read_bytes().startswith(b"ray::Worker") for pid, _ in workers)
    processes = [nodes.processes_of(node) for node in nodes.workers]
    [first], [second] = ([pid for pid, _ in workers if pid in found] for found in processes)
    nodes.kill(0)
    wait_until(lambda: not is_alive(first), "the end of the worker on the killed node")
    assert is_alive(second)
