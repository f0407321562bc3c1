"""Fork Ray's workers from one process that has imported PyTorch, instead of a new Python for each.

PyTorch takes four seconds of a core to import. A run with two workers has three processes of Ray's, and three more
after each failure. A forked process runs Ray's own program, and imports Ray itself: Ray reads its environment and seeds
its ids when it is imported.
"""

import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.jobs.support import forkserver

PROGRAM: Final = Path(__file__).with_name("worker_program.py")
"""What a node starts as its worker."""
_IMPORTED: Final = (
    *("pandas", "pyarrow.dataset", "pyarrow.fs", "torch", "torch.distributed.checkpoint.state_dict"),
    *("torch.distributed.fsdp", "torch.quantization"),
)
_PR_SET_PDEATHSIG: Final = 1


class Workers:
    """The workers of the nodes whose RAY_TMPDIR is `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
            asked.bind(str(directory / "forks"))
            asked.listen(100)
            argv = [sys.executable, "-m", __name__, str(asked.fileno()), str(directory)]
            self._process = subprocess.Popen(argv, pass_fds=[asked.fileno()], cwd=Path(__file__).parents[3])

    def end(self) -> None:
        """End the process that forks workers. A worker ends with its node."""
        self._process.kill()
        self._process.wait()

    def of(self, raylet: int, parents: Mapping[int, int]) -> list[int]:
        """Return the workers of a node, given its raylet and the parent of each process of this machine."""
        forked = [pid for pid, parent in parents.items() if parent == self._process.pid]
        return [pid for pid in forked if _raylet(self._directory, pid) == str(raylet)]


def _raylet(directory: Path, worker: int) -> str | None:
    with suppress(FileNotFoundError):
        return (directory / f"worker-{worker}").read_text()
    return None


def _main(asked: socket.socket, directory: Path) -> None:
    """Fork a worker whenever `worker_program.py` asks for one."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for name in _IMPORTED:
        importlib.import_module(name)
    ray = find_spec("ray")
    assert ray
    assert ray.origin
    worker = str(Path(ray.origin).parent / "_private/workers/default_worker.py")
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        connection, _ = asked.accept()
        with connection:
            words, files, *_ = socket.recv_fds(connection, 2**18, 3)
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asked.close()
            argv, env = json.loads(words)
            (directory / f"worker-{os.getpid()}").write_text(env["RAY_RAYLET_PID"])
            os.fchdir(files.pop())
            forkserver.run([worker, *argv], env, files)
        for file in files:
            os.close(file)


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    _main(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]))
