"""An interruption arrives, also where Python or a library ignores it, and leaves its clean-up alone."""

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
signal.signal(number, lambda number, _: interruption.interrupt())


def forks():
    os.register_at_fork(before=lambda: signal.raise_signal(number))
    if os.fork() == 0:
        os._exit(0)


def catches_all():
    try:
        signal.raise_signal(number)
    except BaseException:
        pass


def cleans_up():
    try:
        signal.raise_signal(number)
    finally:
        time.sleep(2)
        print("cleaned up", flush=True)


keeping = interruption.never_lost() if sys.argv[3] == "kept" else contextlib.nullcontext()
try:
    with keeping:
        globals()[sys.argv[2]]()
        time.sleep(float(sys.argv[4]))
except KeyboardInterrupt:
    sys.exit(130)
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


def ended(number: signal.Signals, work: str, *, kept: bool, seconds: float) -> tuple[int, str]:
    words = [str(number.value), work, "kept" if kept else "as it is", str(seconds)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("work", ["forks", "catches_all"])
@pytest.mark.parametrize("number", SIGNALS)
def test_an_interruption_that_is_ignored_arrives_later(number: signal.Signals, work: str) -> None:
    assert ended(number, work, kept=True, seconds=PATIENCE_SECONDS) == (130, "")


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interruption_is_not_repeated_in_its_own_clean_up(number: signal.Signals) -> None:
    assert ended(number, "cleans_up", kept=True, seconds=0) == (130, "cleaned up\n")


@pytest.mark.parametrize("work", ["forks", "catches_all"])
def test_without_repetition_the_interruption_is_lost(work: str) -> None:
    assert ended(signal.SIGTERM, work, kept=False, seconds=0) == (0, "")
