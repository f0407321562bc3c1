"""The AWS CLI of a layer, loaded once: CDK's kubectl handler starts it twice or more in each invocation.

Loading takes most of the time of a call. So the layer's `aws` is replaced by a small program (aws_client.py) that has
the call carried out in a fork of a process that has the same CLI loaded (aws_server.py): the layer's code runs.
"""

import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from embedded_account.lambdas import keeper
from embedded_account.machine.isolation import search_path

_HERE: Final = Path(__file__).parent
_PROGRAM: Final = Path("awscli", "aws")
_DRIVER: Final = Path("awscli", "awscli", "clidriver.py")
_ORIGINAL: Final = "aws.layer"
_SOCKET: Final = "aws.socket"


def replace_program(opt: Path) -> None:
    """Put the client in the place of the AWS CLI's program; do nothing where `opt` has no AWS CLI."""
    program = opt / _PROGRAM
    if program.exists() and (opt / _DRIVER).exists():
        program.rename(program.with_name(_ORIGINAL))
        shutil.copy(_HERE / "aws_client.py", program)
        program.chmod(0o755)


class AwsClis:
    """The processes that have an AWS CLI loaded, one for each merged set of layers that holds one."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._servers: dict[Path, tuple[subprocess.Popen[bytes], socket.socket]] = {}

    def ensure(self, opt: Path) -> None:
        """Start the process for `opt` if it holds an AWS CLI; calls wait until it is loaded."""
        folder = (opt / _PROGRAM).parent
        with self._lock:
            if folder not in self._servers and (folder / _ORIGINAL).exists():
                self._servers[folder] = self._start(folder)

    def close(self) -> None:
        """End the processes, and the calls that they carry out."""
        with self._lock:
            for process, orders in self._servers.values():
                orders.close()
                process.wait()
            self._servers.clear()

    def _start(self, folder: Path) -> tuple["subprocess.Popen[bytes]", socket.socket]:
        ours, orders = socket.socketpair()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with orders, _listening(folder / _SOCKET) as listener, self._log.open("ab") as log:
            server = [sys.executable, "-I", "-S", str(_HERE / "aws_server.py"), str(folder), str(listener.fileno())]
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__, *server],
                stdin=orders.fileno(),
                stdout=log,
                stderr=subprocess.STDOUT,
                # No folder of that name: what is found below it was worked out of the home (aws_server.py).
                env={"PATH": search_path(), "LANG": "en_US.UTF-8", "TZ": ":UTC", "HOME": str(folder / "home")},
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        return process, ours


def _listening(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    # The address of a socket is at most 108 bytes long; a folder's path may be longer.
    folder = os.open(path.parent, os.O_PATH)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
    listener.listen(128)
    return listener
