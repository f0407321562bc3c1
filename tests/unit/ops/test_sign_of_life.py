"""No command is silent for over ten seconds, and what programs read of it stays as it is."""

import itertools
import json
import random
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from ops.sign_of_life import CHECK_SECONDS, SILENCE_SECONDS, Silence

ROOT: Final = Path(__file__).parents[3]
MOST_SECONDS: Final = 10
# Where silence is normal, each with its reason.
WANTED: Final = {
    "ops/cli.py": "a person is asked",
    "ops/environment/questions.py": "a person is asked",
    "ops/jobs/direct.py": "follows a job's output",
    "ops/jobs/follow.py": "follows a job's output",
    "ops/jobs/operators/follow.py": "follows a job's output",
    "ops/watch/dashboard.py": "serves pages until Ctrl-C",
    "ops/watch/event_feed.py": "follows events",
    "ops/watch/live.py": "redraws what is on the screen",
    "ops/watch/node_logs.py": "follows logs",
    "ops/watch/pod_logs.py": "follows logs",
}


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("pause", [0.3, 4, 9, 9.4, 11, 60, 3600])
def test_no_stretch_over_ten_seconds_is_without_output(clock: Clock, pause: float) -> None:
    """The command prints after pauses of up to this length; between, only signs of life are printed."""
    drawn, silence = random.Random(pause), Silence(clock)  # noqa: S311
    printed, following = [0.0], drawn.uniform(0, pause)
    while clock.now < 2 * pause + 60:
        clock.now += CHECK_SECONDS
        if clock.now >= following:
            silence.heard()
            printed.append(clock.now)
            following += drawn.uniform(0, pause)
        if silence.line():
            printed.append(clock.now)
    assert max(after - before for before, after in itertools.pairwise(printed)) <= MOST_SECONDS


def test_a_command_that_prints_often_shows_no_sign_of_life(clock: Clock) -> None:
    silence = Silence(clock)
    for _ in range(1000):
        clock.now += SILENCE_SECONDS - 0.01
        assert silence.line() == ""
        silence.heard()


def test_the_line_says_for_how_long_the_command_has_run(clock: Clock) -> None:
    silence = Silence(clock)
    clock.now = 80
    silence.heard()
    clock.now = 95
    assert silence.line() == "ops: still waiting, 1:35 so far\n"


def test_silence_that_is_wanted_is_kept_and_counts_from_its_end(clock: Clock) -> None:
    silence = Silence(clock)
    with silence.wanted(), silence.wanted():
        clock.now = 100
        assert silence.line() == ""
    clock.now += SILENCE_SECONDS - 1
    assert silence.line() == ""
    clock.now += 1
    assert silence.line() == "ops: still waiting, 1:49 so far\n"


def test_only_these_places_want_silence() -> None:
    found = {
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "ops").rglob("*.py")
        if "SILENCE.wanted()" in file.read_text() and file.name != "sign_of_life.py"
    }
    assert found == set(WANTED)


def test_the_program_ops_is_the_one_that_shows_signs_of_life() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["ops"] == "ops.__main__:program"


# The real program, whose command is slow; a silence of a tenth of a second is long here.
SLOW = """
import sys, time
from ops import __main__, guard, sign_of_life
sign_of_life.SILENCE_SECONDS, sign_of_life.CHECK_SECONDS = 0.1, 0.02
run = guard.run
def slow(app):
    time.sleep(1)
    return run(app)
guard.run = slow
sys.argv = ["ops", "explain", "V55", "-o", "json"]
__main__.program()
"""


def test_a_slow_command_is_heard_on_standard_error_and_its_json_is_whole() -> None:
    done = subprocess.run([sys.executable, "-c", SLOW], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)
    lines = done.stderr.splitlines()
    assert len(lines) >= 2
    assert [line for line in lines if not re.fullmatch(r"ops: still waiting, 0:\d\d so far", line)] == []


@pytest.mark.parametrize("end", ["2>&-", "2>/dev/full", "2>&1 | head -c 5"])
def test_standard_error_that_takes_nothing_ends_no_command(end: str) -> None:
    argv = ["bash", "-o", "pipefail", "-c", f'"$0" -c "$1" {end}', sys.executable, SLOW]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stdout + done.stderr
    if "head" not in end:
        assert (done.returncode, bool(json.loads(done.stdout))) == (0, True)
