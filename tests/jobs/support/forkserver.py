"""Fork processes of tests from one process that has imported what they need.

PyTorch and Ray take five seconds of a core to import, and the tests start a hundred processes.
"""

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

_IMPORTED: Final = (
    "ray.data",
    "ray.train.torch",
    "ray.tune",
    "ray_resume.torch_state",
    "ray_resume.training",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "llm_model",
    "peft",
    "pytorch_lightning",
    "ray.train.lightning",
)


def prepare() -> None:
    """Let this process's fork server import what the processes need, when it starts."""
    multiprocessing.set_forkserver_preload([*_IMPORTED, __name__, "tests.jobs.support.together"])


class Script:
    """A script in a forked process, with the methods of Popen that tests use."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        prepare()
        self._process = multiprocessing.get_context("forkserver").Process(
            target=_start, args=(tuple(argv), dict(env), log)
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, None if the script still runs."""
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        """Wait until the script ends; return its exit code."""
        self._process.join(seconds)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(str(self.pid), seconds or 0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _start(argv: Sequence[str], env: Mapping[str, str], log: Path) -> None:
    run(argv, env, [os.open(log, os.O_WRONLY | os.O_APPEND)] * 2)


def run(argv: Sequence[str], env: Mapping[str, str], outputs: Sequence[int]) -> None:
    """Run a script in this process as `python SCRIPT ARGUMENTS` would, output and exit code included, and end it."""
    for number, output in enumerate(outputs, 1):
        os.dup2(output, number)
    # Only what differs: Ray finds the place of a process's title by the first variable that the process began with.
    for name in os.environ.keys() - env.keys():
        del os.environ[name]
    os.environ.update({name: value for name, value in env.items() if os.environ.get(name) != value})
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    sys.argv = list(argv)
    installed = [path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix))]
    sys.path[:] = [str(Path(argv[0]).parent), *env["PYTHONPATH"].split(":"), *installed]
    # Python seeds its own generator after a fork.
    np.random.seed()
    code: object = 0
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as Python does with whatever ends a script
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    # multiprocessing skips what Python does at its end, such as the end of Ray's driver.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)
