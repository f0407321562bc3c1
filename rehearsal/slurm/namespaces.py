"""Give each node of a cluster its own network, processes, mounts and host name, in namespaces that need no root.

One outer user namespace, in which the rehearsal is root, holds a bridge in a network namespace without a way out. A
node is a set of inner namespaces with an interface on the bridge. Its programs run one user namespace further in, as
user 1000: as root of a namespace with one user, slurmd fails at setgroups(2). The first process of the outer namespace
ends with the pipe from the rehearsal, and the kernel ends all other processes with it.
"""

import contextlib
import ipaddress
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from embedded_account.machine.processes import ProcessError

USER: Final = "ubuntu"
_UID: Final = 1000
_BRIDGE: Final = "slurm"
_PREFIX: Final = 16
_LIBRARIES: Final = "/usr/lib/x86_64-linux-gnu"
_START_SECONDS: Final = 60.0
_FIX: Final = "Fix: let this machine's users create namespaces, bridges and veth interfaces"
_OUTER: Final = ("--user", "--mount", "--net", "--pid", "--ipc")
_INNER: Final = ("--mount", "--net", "--pid", "--ipc", "--uts")
_HOLD: Final = (
    f"ip link set lo up && ip link add {_BRIDGE} type bridge && ip link set {_BRIDGE} up && echo ready && cat"
)
# Own files over this machine's, and empty folders where daemons leave sockets: the cluster's own folder stays visible
# below them. Without SIGCHLD, the kernel reaps the orphans that a node's first process inherits.
_SET_UP: Final = """set -e
hostname "$1"
for name in hosts passwd group; do mount --bind "$2/$name" "/etc/$name"; done
mount -t tmpfs -o mode=777 tmpfs /run
mkdir -m 755 /run/munge
exec 3<"${2%/*}"
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
case $2 in /dev/shm/*) mkdir -p "${2%/*}"; mount --no-canonicalize --bind /proc/self/fd/3 "${2%/*}" ;; esac
exec 3<&-
[ -z "$3" ] || mount -t overlay -o "lowerdir=$4:$3" overlay "$4"
ip link set lo up
echo ready
exec env --ignore-signal=CHLD sleep infinity
"""


class Machine:
    """The outer namespaces; a context manager that ends every process in them."""

    def __init__(self, directory: Path) -> None:
        """Use `directory` for the files that nodes see as /etc/hosts, /etc/passwd and /etc/group."""
        self._etc = directory / "etc"

    def __enter__(self) -> "Machine":
        self._etc.mkdir(parents=True, exist_ok=True)
        home = self._etc.parent / "home"
        home.mkdir(exist_ok=True)
        (self._etc / "passwd").write_text(f"root:x:0:0::/root:/bin/bash\n{USER}:x:{_UID}:{_UID}::{home}:/bin/bash\n")
        (self._etc / "group").write_text(f"root:x:0:\n{USER}:x:{_UID}:\n")
        self.name_hosts({})
        self._outer = _start(
            ["unshare", *_OUTER, "--map-root-user", "--fork", "--kill-child=SIGKILL", "--mount-proc", "sh", "-c", _HOLD]
        )
        self._pid = _descendant(self._outer.pid, 1)
        self._links = 0
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        _end(self._outer)

    def name_hosts(self, addresses: Mapping[str, str]) -> None:
        """Let all nodes know these host names, name → address."""
        # In place: the nodes' mounts would not show a file that replaced this one.
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
        (self._etc / "hosts").write_text("\n".join(lines) + "\n")

    def start_node(self, name: str, address: str, libraries: Path | None = None) -> "NodeNamespaces":
        """Create a node's namespaces, with an interface of this address.

        The node sees the files of `libraries` in this machine's folder of shared libraries, too: without slurm.conf,
        Slurm looks for its plugins there.
        """
        words = ["unshare", *_INNER, "--fork", "--kill-child=SIGKILL", "--mount-proc"]
        shell = ["sh", "-c", _SET_UP, "sh", name, str(self._etc), str(libraries or ""), _LIBRARIES]
        outer = _start([*_enter(self._pid, *_OUTER), *words, *shell])
        node = NodeNamespaces(name, outer, _descendant(outer.pid, 2))
        self._links += 1
        link = f"node{self._links}"
        # The outer namespaces know the process by a number of their own.
        inside = _field(node.pid, "NSpid").split()[-2]
        # From the IP address: the other nodes' tables of neighbours stay right when a node is replaced.
        ethernet = ":".join(f"{byte:02x}" for byte in (2, 0, *ipaddress.ip_address(address).packed))
        commands = [
            f"ip link add {link} type veth peer name eth0 address {ethernet} netns {inside}",
            f"ip link set {link} master {_BRIDGE} up",
        ]
        for command in commands:
            _run([*_enter(self._pid, *_OUTER), *command.split()])
        for command in (f"ip address add {address}/{_PREFIX} dev eth0", "ip link set eth0 up"):
            _run([*_enter(node.pid, "--user", *_INNER), *command.split()])
        return node


class NodeNamespaces:
    """A running node."""

    def __init__(self, name: str, outer: subprocess.Popen[str], pid: int) -> None:
        self.name = name
        self.pid = pid
        """The node's first process, as this machine numbers it."""
        self._outer = outer

    def command(self, argv: Sequence[str], folder: Path) -> list[str]:
        """Return the words that run a command on the node, as its user, in a folder."""
        user = ["unshare", "--user", f"--map-user={_UID}", f"--map-group={_UID}", "--"]
        return [*_enter(self.pid, "--user", *_INNER), "--", *user, "env", f"--chdir={folder}", *argv]

    def kill(self) -> None:
        """End everything on the node at once, as a loss of power would."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        _end(self._outer)


def _enter(pid: int, *namespaces: str) -> list[str]:
    return ["nsenter", "--preserve-credentials", f"--target={pid}", *namespaces]


def _start(argv: Sequence[str]) -> subprocess.Popen[str]:
    """Start what creates namespaces; return when it says `ready`. Raises ProcessError with its error."""
    # Its own session: Ctrl-C reaches only the rehearsal. The pipe ends with the rehearsal, however that ends.
    started = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    if started.stdout is None or started.stdout.readline() != "ready\n":
        _, error = started.communicate()
        raise ProcessError(f"no namespaces for Slurm's nodes. {_FIX}: {error.strip()}")
    return started


def _end(started: subprocess.Popen[str]) -> None:
    for stream in (started.stdin, started.stdout, started.stderr):
        if stream:
            stream.close()
    started.wait()


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProcessError(f"no network for Slurm's nodes. {_FIX}: {' '.join(argv)}: {done.stderr.strip()}")


def _descendant(pid: int, generations: int) -> int:
    """Return the only child of the only child … of a process, so many generations down."""
    deadline = time.monotonic() + _START_SECONDS
    for _ in range(generations):
        while not (children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            if time.monotonic() > deadline:
                raise ProcessError(f"no namespaces for Slurm's nodes: their first process did not start. {_FIX}")
            time.sleep(0.005)
        pid = int(children[0])
    return pid


def _field(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.removeprefix(f"{name}:").strip() for line in lines if line.startswith(f"{name}:"))
