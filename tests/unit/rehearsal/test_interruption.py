"""An interruption also arrives where Python ignores exceptions."""

import signal
import subprocess
import sys

import pytest

from rehearsal.paths import REPOSITORY
from tests.support.waiting import PATIENCE_SECONDS

PROGRAM = """
import contextlib, os, signal, sys, time
from rehearsal import interruption

number = int(sys.argv[1])
signal.signal(number, lambda number, _: interruption.interrupt(number))
os.register_at_fork(before=lambda: signal.raise_signal(number))
keeping = interruption.never_lost() if sys.argv[2] == "kept" else contextlib.nullcontext()
try:
    with keeping:
        if os.fork() == 0:
            os._exit(0)
        time.sleep(float(sys.argv[3]))
except KeyboardInterrupt:
    sys.exit(130)
"""


def exit_code(number: signal.Signals, *, kept: bool, seconds: float) -> int:
    words = [str(number.value), "kept" if kept else "as it is", str(seconds)]
    command = [sys.executable, "-c", PROGRAM, *words]
    return subprocess.run(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL, check=False).returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_an_interruption_during_a_fork_arrives_after_it(number: signal.Signals) -> None:
    assert exit_code(number, kept=True, seconds=PATIENCE_SECONDS) == 130


def test_python_alone_would_lose_the_interruption() -> None:
    assert exit_code(signal.SIGTERM, kept=False, seconds=0) == 0
