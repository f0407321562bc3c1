"""Start Ray nodes on this machine that tests can kill, freeze and replace."""

import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from ray._private import services
from ray.cluster_utils import Cluster
from typing_extensions import Self

from embedded_account.machine.processes import free_port
from tests.jobs.support import ray_workers
from tests.support.waiting import PATIENCE_SECONDS

# By default, Ray waits half a minute for a silent node, and one minute for a lost head. With less than this, Ray could
# give up healthy nodes of a machine that stalls, and their workers would wait for ever.
IMPATIENT = {
    "health_check_initial_delay_ms": 2000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 8000,
    "health_check_failure_threshold": 3,
    "gcs_rpc_server_reconnect_timeout_s": 5,
}


class Nodes:
    """A head without CPUs, as on HyperPod, and worker nodes; `system_config` is Ray's.

    With `forked`, Ray's workers are forked instead of started, which saves most of what a run costs. Each worker node
    offers so many `gpus`.
    """

    def __init__(self, system_config: Mapping[str, int] = IMPATIENT, *, forked: bool = False, gpus: int = 0) -> None:
        self._system_config = dict(system_config)
        self._gpus = gpus
        # Short, because Ray's sockets are below it, and a socket's path has at most 107 characters.
        self._directory = Path(tempfile.mkdtemp(prefix="ray-"))
        self._forked = ray_workers.Workers(self._directory) if forked else None
        self._frozen: list[int] = []
        # A random network, so that nodes of other tests have other addresses.
        self._network = IPv4Address("127.1.0.0") + 256 * secrets.randbelow(2**14)
        self._added = 0
        self.workers: list[Any] = []

    def __enter__(self) -> Self:
        try:
            self.start_head()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()
        if hasattr(self, "_cluster"):
            self._cluster.shutdown()
        if self._forked:
            self._forked.end()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def start_head(self) -> None:
        """Start a new head without any state."""
        # Otherwise Ray writes the newest head's address to a folder of the whole machine, which may not exist.
        os.environ["RAY_TMPDIR"] = str(self._directory)
        (self._directory / "ray").mkdir(exist_ok=True)
        # Without a head at first, so that a head that fails to start is shut down, too.
        self._cluster = Cluster(initialize_head=False, shutdown_at_exit=False)
        self._add_node(
            num_cpus=0,
            include_dashboard=False,
            dashboard_agent_listen_port=free_port(),
            temp_dir=str(self._directory),
            _system_config=self._system_config,
        )

    def add(self) -> None:
        """Add a worker node with one CPU on a loopback address of its own."""
        self._added += 1
        address = str(self._network + self._added)
        self.workers.append(self._add_node(num_cpus=1, num_gpus=self._gpus, node_ip_address=address))
        # A job must join the head, where Ray Jobs starts it: after the loss of the joined node, Ray silently starts no
        # more workers for the job. Newer Ray joins the head by itself; Ray 2.42.1 joins the node of this machine whose
        # address was written last.
        if write_address := getattr(services, "write_node_ip_address", None):
            head = self._cluster.head_node
            write_address(head.get_session_dir_path(), head.node_ip_address)

    def _add_node(self, **words: Any) -> Any:
        """Start a node, and wait longer for it than Ray does, because busy machines are slow."""
        if self._forked:
            words["worker_path"] = str(ray_workers.PROGRAM)
        node = self._cluster.add_node(wait=False, **words)
        self._cluster._wait_for_node(node, timeout=PATIENCE_SECONDS)
        return node

    def be(self, workers: int) -> None:
        """Provide this many healthy worker nodes, whatever an earlier test did to them."""
        self.thaw()
        for index, node in reversed(list(enumerate(self.workers))):
            if not node.remaining_processes_alive() or index >= workers:
                self.kill(index)
        while len(self.workers) < workers:
            self.add()

    def kill(self, index: int) -> None:
        """Kill a node and all its processes at once, as a power failure does."""
        node = self.workers.pop(index)
        for pid in self.processes_of(node):
            _signal(pid, signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)

    def freeze(self, index: int) -> None:
        """Stop all processes of a node: to other nodes, it looks cut off from the network."""
        self._frozen = self.processes_of(self.workers[index])
        for pid in self._frozen:
            _signal(pid, signal.SIGSTOP)

    def processes_of(self, node: Any) -> list[int]:
        """Return the processes that Ray started for a node, their descendants, and its forked workers."""
        found = [info.process.pid for infos in node.all_processes.values() for info in infos]
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
            found += self._forked.of(pid, parents) if self._forked else []
        return found

    def thaw(self) -> None:
        for pid in self._frozen:
            _signal(pid, signal.SIGCONT)
        self._frozen = []

    def lose_head(self) -> None:
        """Kill the head at once. Its worker nodes keep running: they exit later, or never."""
        for pid in self.processes_of(self._cluster.head_node):
            _signal(pid, signal.SIGKILL)

    def replace_head(self) -> None:
        """Replace a lost head. Kill the worker nodes first, as Kubernetes ends the worker pods of the old head."""
        for pid in [pid for node in self.workers for pid in self.processes_of(node)]:
            _signal(pid, signal.SIGKILL)
        self.workers = []
        self._cluster.shutdown()
        self.start_head()


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
