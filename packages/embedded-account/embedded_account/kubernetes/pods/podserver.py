"""Let kubectl reach the pods whose programs really run: logs, exec and port-forward.

The program `podserver` (modules/podserver) implements the kubelet's protocols. A file of `Records` says what it does
for a pod. Pods that kwok simulates have no file, and it refuses their requests with a message.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from embedded_account.kubernetes.api import Object
from embedded_account.machine.processes import end_with_parent

ADDRESS: Final = "127.0.0.1"
"""The address of every node's kubelet."""


@dataclass(frozen=True)
class ContainerRecord:
    """What podserver needs to read and enter a container."""

    log: str
    running: bool
    enter: Sequence[str]
    """The words before a command that run it inside the container; empty if the container is a plain process."""
    environment: Sequence[str]
    directory: str


@dataclass(frozen=True)
class PodRecord:
    """What podserver needs to reach the containers of a pod."""

    containers: Mapping[str, ContainerRecord]
    dial: Sequence[str]
    """A command that connects its standard streams to an address, which is appended, as the pod sees it."""
    ports: Mapping[int, str]
    """Container port → host:port of this machine, for a pod without its own network."""


class PodRecords:
    """The records of one control plane's pods."""

    def __init__(self, directory: Path, program: Path) -> None:
        """Create the folder of records. `program` is the server's own, which also connects streams inside a sandbox."""
        self.directory = directory
        self.dial = (str(program), "dial")
        directory.mkdir(parents=True, exist_ok=True)
        self._written: dict[Path, PodRecord] = {}

    def keep(self, pod: Object, record: PodRecord) -> None:
        """Write a pod's record, unless it is unchanged."""
        path = self._path(pod)
        if self._written.get(path) == record:
            return
        new = path.with_suffix(".new")
        new.touch(mode=0o600)  # the environment may hold secrets
        new.write_text(json.dumps(asdict(record)))
        new.replace(path)
        self._written[path] = record

    def remove(self, pod: Object) -> None:
        """Remove a pod's record."""
        path = self._path(pod)
        path.unlink(missing_ok=True)
        self._written.pop(path, None)

    def _path(self, pod: Object) -> Path:
        metadata = pod["metadata"]
        return self.directory / f"{metadata['namespace']}_{metadata['name']}.json"


def start(program: Path, port: int, records: PodRecords, *, pki: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the server on `ADDRESS`; it ends with this process. `pki` holds the control plane's own certificates."""
    argv = [
        *(str(program), "serve", "-address", f"{ADDRESS}:{port}", "-records", str(records.directory)),
        *("-certificate", str(pki / "apiserver.crt"), "-key", str(pki / "apiserver.key"), "-ca", str(pki / "ca.crt")),
    ]
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            env={"HOME": str(records.directory)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call
        )
