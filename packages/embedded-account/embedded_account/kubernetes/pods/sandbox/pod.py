"""Create the namespaces of one pod."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from embedded_account.kubernetes.pods.references import ContainerConfigError
from embedded_account.kubernetes.pods.sandbox.network import PodNetwork
from embedded_account.kubernetes.pods.sandbox.pause import Mount, Tree
from embedded_account.machine.isolation import search_path
from embedded_account.machine.processes import end_with_parent

_UNSHARE: Final = shutil.which("unshare") or "unshare"
# An absolute path, because a caller's environment may have no PATH.
_NSENTER: Final = shutil.which("nsenter") or "nsenter"
_FORK_TIMEOUT_SECONDS: Final = 10.0


class Sandbox:
    """The namespaces of a pod, held by its first process; everything in them ends with that process."""

    def __init__(
        self,
        directory: Path,
        *,
        name: str,
        address: str,
        mounts: Sequence[Mount],
        network: PodNetwork,
        path: str,
    ) -> None:
        """Create the namespaces. Raises ContainerConfigError with what could not be created."""
        self.path = path
        self.address = address
        self.network = network
        self.home = directory / "home"
        """The pod's own folder, and the working directory of its processes."""
        root = directory / "root"
        for folder in (self.home, root):
            folder.mkdir(parents=True, exist_ok=True)
        tree = directory / "tree.json"
        tree.write_text(json.dumps(asdict(Tree(name, str(root), str(self.home), list(mounts)))))
        namespaces = ("--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
        self._outer = subprocess.Popen(
            [_UNSHARE, *namespaces, sys.executable, "-m", "embedded_account.kubernetes.pods.sandbox.pause", str(tree)],
            env={"HOME": str(self.home), "PATH": search_path(), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call
        )
        self._first = _only_child(self._outer)
        try:
            network.connect(self._first, address)
            self._begin()
        except subprocess.CalledProcessError as error:
            self.kill()
            raise ContainerConfigError(f"no network for the pod: {str(error.stderr).strip()}") from error
        except ContainerConfigError:
            self.kill()
            raise

    @property
    def enter(self) -> list[str]:
        """Return the words before a command that run it in the pod."""
        namespaces = ("--net", "--mount", "--pid", "--uts", "--ipc", "--root", "--wd")
        return [_NSENTER, f"--target={self._first}", *namespaces, "--"]

    def kill(self) -> None:
        """End everything in the pod at once."""
        if self._outer.poll() is not None:
            return
        # The kernel kills all other processes with the first one, and only then reports its end to its parent.
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself, and its parent is about to
            os.kill(self._first, signal.SIGKILL)
        self._outer.wait()
        for stream in (self._outer.stdin, self._outer.stdout, self._outer.stderr):
            if stream:
                stream.close()

    def signal(self, process: subprocess.Popen[bytes], number: signal.Signals) -> None:
        """Send a signal to a process that was started with `enter`; nsenter does not pass signals on."""
        for pid in _children(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _begin(self) -> None:
        outer = self._outer
        if outer.stdin is None or outer.stdout is None or outer.stderr is None:
            raise ContainerConfigError("the pod's first process has no pipes")
        outer.stdin.write("\n")
        outer.stdin.flush()
        if outer.stdout.readline() != "ready\n":
            raise ContainerConfigError(f"no file tree for the pod: {outer.stderr.read().strip()}")


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _only_child(process: subprocess.Popen[str]) -> int:
    """Return the process that `unshare --fork` starts once the namespaces exist. Raises ContainerConfigError."""
    deadline = time.monotonic() + _FORK_TIMEOUT_SECONDS
    while not (children := _children(process.pid)):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            words = process.communicate()[1].strip() or "no answer"
            raise ContainerConfigError(f"no namespaces for the pod: {words}")
        time.sleep(0.005)
    return children[0]
