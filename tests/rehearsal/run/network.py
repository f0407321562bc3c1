"""Proof that nothing leaves the machine: commands run where the way out is a dead end, or are watched.

A network namespace of one's own needs no root, but a system may forbid it (Ubuntu 24.04 does, through AppArmor).
There, the sockets of the clone's processes are looked at many times a second instead.
"""

import contextlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from embedded_account.testing.processes import peer, processes_below, socket_inodes

_DEAD_END: Final = Path(__file__).with_name("dead_end.py")
_TABLES: Final = ("tcp", "tcp6", "udp", "udp6")
# A call over TLS to a server in another building takes longer.
_LOOK_SECONDS: Final = 0.05
# Nowhere and localhost, as the tables spell them: nearly all of thousands of lines.
_NOT_FOREIGN: Final = ("00000000:", "0100007F:", "0" * 32, f"{'0' * 24}01000000:", f"{'0' * 16}FFFF00000100007F:")


class ForbiddenError(Exception):
    """This system gives no network namespace to a user; the message is its own."""


class Network(Protocol):
    """Where commands run."""

    @property
    def prefix(self) -> Sequence[str]:
        """What to put before a command so that it runs there."""

    def leaving(self) -> list[str]:
        """Who was spoken to, or tried, outside of localhost."""


class DeadEnd:
    """A network namespace with localhost and a way out behind which nobody is."""

    def __init__(self, holder: int, report: Path) -> None:
        self.prefix = ("nsenter", "--preserve-credentials", "--user", "--net", f"--target={holder}", "--")
        self._report = report

    def leaving(self) -> list[str]:
        """Destinations, each once; names where a name server was asked."""
        return sorted(set(self._report.read_text().splitlines()))


class Watch:
    """This machine's own network, with an eye on the sockets of the processes that name a directory."""

    prefix = ()

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: set[str] = set()
        self._known: dict[int, bool] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, name="network-watch", daemon=True)
        self._thread.start()

    def leaving(self) -> list[str]:
        """Peers of the directory's processes that are not on this machine."""
        return sorted(self._seen)

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            sockets = {inode: other for inode, other in foreign_sockets().items() if inode not in self._known}
            if not sockets:
                continue
            own = {inode for pid in processes_below(self._directory) for inode in socket_inodes(pid)}
            for inode, other in sockets.items():
                self._known[inode] = inode in own
                if inode in own:
                    self._seen.add(other)


@contextlib.contextmanager
def dead_end(report: Path) -> Iterator[DeadEnd]:
    """Yield a network without a way out; raise Forbidden when this system gives none."""
    programs = ("unshare", "nsenter", "ip")
    if missing := [program for program in programs if not shutil.which(program)]:
        raise ForbiddenError(f"not installed: {', '.join(missing)}")
    argv = ["unshare", "--map-root-user", "--net", sys.executable, str(_DEAD_END), str(report)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as holder:
        assert holder.stdin
        assert holder.stdout
        first = holder.stdout.readline().strip()
        if first.startswith(("unshare:", "forbidden:")):
            raise ForbiddenError(first)
        assert first == "ready", first + holder.stdout.read()
        try:
            yield DeadEnd(holder.pid, report)
        finally:
            holder.stdin.close()


@contextlib.contextmanager
def watched(directory: Path, report: Path) -> Iterator[Network]:
    """Yield a dead end if this system allows one, else this machine's network with a watch on `directory`."""
    with contextlib.ExitStack() as stack:
        try:
            network: Network = stack.enter_context(dead_end(report))
        except ForbiddenError:
            network = watch = Watch(directory)
            stack.callback(watch.stop)
        yield network


def foreign_sockets() -> dict[int, str]:
    """Peers outside of localhost, by the socket's inode."""
    found = {}
    for table in _TABLES:
        with contextlib.suppress(FileNotFoundError):  # a kernel may have no IPv6
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[2].startswith(_NOT_FOREIGN):
                    continue
                address, port = peer(fields[2])
                if not (address.is_loopback or address.is_unspecified) and int(fields[9]):
                    found[int(fields[9])] = f"{table} {address}:{port}"
    return found
