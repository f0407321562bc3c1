"""A stalled attempt ends, whatever its threads do; an attempt that makes progress does not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from controllers.job_decision import Cause, Ending, Limits, decide
from ray_resume.checkpoint_store import CheckpointStore, Saved, Writer
from ray_resume.cluster_view import describe
from ray_resume.storage import open_storage
from tests.jobs.support.paths import MODULES
from tests.support.waiting import PATIENCE_SECONDS

# With a non-daemon thread, for which the interpreter would wait at exit, and with unflushed output.
PROGRAM = """
import itertools, os, sys, threading, time
from ray_resume.watchdog import Watchdog
count = itertools.count()
threading.Thread(target=time.sleep, args=(3600,)).start()
print("said before")
with Watchdog("job: attempt 1", lambda: LOOK, 1.0):
    time.sleep(3600)
print("went on", flush=True)
os._exit(0)
"""
STILL = {
    "the same": '{"attempts/0001.01.json": 90}',
    "nothing": "{}",
    "less and less": '{f"checkpoints/{number}": 1 for number in range(1000 - next(count))}',
    "a look that hangs": "time.sleep(3600)",
}
# Its clock advances with its checks only: however busy the machine, the limit is at least two checks away.
WATCHED = """
import itertools, os, time
from ray_resume import watchdog
count, looks = itertools.count(), []
class Clock:
    monotonic = staticmethod(lambda: 0.4 * len(looks))
watchdog.time = Clock
def look():
    looks.append(LOOK)
    return looks[-1]
with watchdog.Watchdog("job: attempt 1", look, 1.0):
    while len(looks) < 20:
        time.sleep(0.05)
print("went on", flush=True)
os._exit(0)
"""
NEWS = {
    "more and more": '{f"checkpoints/{number}": 1 for number in range(next(count))}',
    "a file that grows": '{"checkpoints/000000005@0001.01/part": next(count)}',
}


def run(look: str, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    program = program.replace("LOOK", look)
    env = {**os.environ, "PYTHONPATH": MODULES}
    return subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )


@pytest.mark.parametrize("look", STILL.values(), ids=STILL)
def test_stalled_attempt_ends_with_1_and_a_line(look: str) -> None:
    ended = run(look)
    assert ended.returncode == 1
    assert ended.stdout == "said before\n"
    (line,) = ended.stderr.splitlines()
    assert line.startswith("job: attempt 1 stalled: ")
    assert " for 1 s" in line


@pytest.mark.parametrize("look", NEWS.values(), ids=NEWS)
def test_attempt_with_progress_is_left_alone(look: str) -> None:
    ended = run(look, WATCHED)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "went on\n", "")


def test_folder_that_cannot_be_read_is_named() -> None:
    ended = run('open("/nowhere")')
    assert ended.returncode == 1
    assert "; its folder cannot be read: [Errno 2] No such file or directory: '/nowhere'" in ended.stderr


def test_supervisor_retries_a_stalled_attempt_up_to_its_limit() -> None:
    ending = Ending("FAILED", exit_code=1, output=run("{}").stderr.splitlines())
    first, last = (
        decide(ending, attempts=1, stalled=stalled, seconds=0, limits=Limits(100, 5, 0)) for stalled in (0, 4)
    )
    assert first.cause is Cause.INFRASTRUCTURE
    assert first.again
    assert not last.again


def test_only_files_of_the_attempts_own_workers_are_progress(tmp_path: Path) -> None:
    store = CheckpointStore(open_storage(str(tmp_path), "run"))
    store.begin(1)
    old = store.left_by(1)
    store.begin(2)
    assert (list(old), list(store.left_by(2))) == (["attempts/0001.01.json"], ["attempts/0002.01.json"])
    assert store.left_by(1) == old
    with store.storage.writing(Saved(5, Writer(1, 1)).folder) as directory:
        (directory / "late").write_text("late")
    with store.storage.writing(Saved(5, Writer(2, 1)).folder) as directory:
        (directory / "part").write_text("half")
        half = store.left_by(2)
        (directory / "part").write_text("whole")
    # Until it is whole, a file is in its worker's own directory.
    [grows] = (size for name, size in half.items() if name.startswith("checkpoints/000000005@0002.01/"))
    assert grows == 4
    assert store.left_by(2)["checkpoints/000000005@0002.01/part"] == 5
    assert not any("late" in name for name in store.left_by(2))


# What counts as progress is read by a thread of its own; like the clock above, this one advances with its checks only.
SEEN = """
import itertools, os, time
from ray_resume import watchdog
count, looks = itertools.count(), []
class Clock:
    monotonic = staticmethod(lambda: 0.4 * len(looks))
watchdog.time = Clock
def look():
    looks.append(LOOK)
    return looks[-1]
with watchdog.Watchdog("job: attempt 1", dict, 1.0, KIND=look):
    while len(looks) < 20:
        time.sleep(0.05)
print("went on", flush=True)
os._exit(0)
"""


def test_steps_are_progress() -> None:
    ended = run('{"job/0001.01": next(count)}', SEEN.replace("KIND", "steps"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "went on\n", "")


def test_time_without_resources_does_not_count_and_is_said_once() -> None:
    ended = run('"2 x {CPU: 1}"', SEEN.replace("KIND", "missing"))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "job: attempt 1 waits for resources: 2 x {CPU: 1}\nwent on\n"


def test_attempt_that_hangs_after_it_got_its_resources_ends() -> None:
    ended = run(
        '"2 x {CPU: 1}" if next(count) < 30 else ""',
        PROGRAM.replace("lambda: LOOK, 1.0", "dict, 1.0, missing=lambda: LOOK"),
    )
    assert ended.returncode == 1
    assert re.fullmatch(
        r"said before\njob: attempt 1 waits for resources: 2 x \{CPU: 1\}\n"
        r"job: attempt 1 has its resources after \d+ s\n",
        ended.stdout,
    )
    assert " stalled: " in ended.stderr


def test_missing_resources_are_those_of_bundles_without_a_node() -> None:
    gpus = {"CPU": 1.0, "GPU": 8.0}
    waits = {"bundles": {0: gpus, 1: gpus, 2: gpus}, "bundles_to_node_id": {0: "n1", 1: "", 2: ""}}
    nodes = [{"CPU": 8.0}, {"CPU": 96.0, "GPU": 8.0}, {"CPU": 96.0, "GPU": 4.0}]
    assert describe([waits], nodes) == "2 x {CPU: 1, GPU: 8} (nodes large enough for one: 1)"
    other = {"bundles": {0: {"CPU": 0.5}}, "bundles_to_node_id": {0: ""}}
    assert describe([waits, other], nodes) == (
        "2 x {CPU: 1, GPU: 8} and 1 x {CPU: 0.5} (nodes large enough for one: 3)"
    )
