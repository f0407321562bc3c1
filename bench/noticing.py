"""How soon a rehearsal notices that a program of its control plane has ended."""

import os
import signal
import time
from pathlib import Path
from queue import Queue

from rich.console import Console
from rich.table import Table

from embedded_account.kubernetes.building import binaries
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.machine.processes import ProgramEndedError
from rehearsal.paths import BINARIES

# In this order none of them ends because of another one.
_PROGRAMS = ("kube-scheduler", "kube-controller-manager", "kubelet", "kube-apiserver", "etcd")
_PATIENCE_SECONDS = 60.0


def report(console: Console, directory: Path) -> None:
    """Kill each program of a control plane, and print after how many seconds this was reported."""
    endings: Queue[ProgramEndedError] = Queue()
    plane = ControlPlane(directory, binaries.ensure(BINARIES, console.print), name="bench")
    plane.failed = endings.put
    plane.start()
    table = Table("program that was killed", "noticed after", title="ends of programs", box=None, title_justify="left")
    try:
        for program in _PROGRAMS:
            pid = int((directory / "run" / f"{program}.pid").read_text())
            began = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            endings.get(timeout=_PATIENCE_SECONDS)
            table.add_row(program, f"{time.monotonic() - began:.2f} s")
    finally:
        plane.stop()
    console.print(table, "")
