"""A script in a forked process behaves as one that `python SCRIPT` started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.support.forkserver import Script
from tests.support.waiting import PATIENCE_SECONDS, wait_until

SCRIPT = """
import atexit, os, sys, threading
print(sys.argv[1:], os.environ.get("GIVEN"), os.environ.get("NOT_GIVEN"), __name__, sys.path[0])
atexit.register(print, "at its end")
# Only after the main thread, whose traceback it must not interrupt.
threading.Thread(target=lambda: (threading.main_thread().join(), print("of a thread"))).start()
"""


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "sys.exit('the reason')", "raise ValueError('a bug')"])
def test_output_and_exit_code_are_those_of_a_python_that_runs_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setenv("NOT_GIVEN", "yes")
    script, log = tmp_path / "script.py", tmp_path / "log"
    script.write_text(f"{SCRIPT}{end}\n")
    env = {name: value for name, value in os.environ.items() if name != "NOT_GIVEN"} | {"GIVEN": "value"}
    argv = [sys.executable, str(script), "a word", "--more"]
    plain = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    log.write_text("earlier\n")
    assert Script(argv[1:], env, log).wait(PATIENCE_SECONDS) == plain.returncode
    found = log.read_text().splitlines()
    # The frames above the script's own differ.
    expected = [line for line in plain.stdout.splitlines() if not line.startswith("  ")]
    assert found[0] == "earlier"
    assert sorted(line for line in found[1:] if not line.startswith("  ")) == sorted(expected)


def test_killed_script_has_the_signal_as_its_exit_code(tmp_path: Path) -> None:
    script, log = tmp_path / "script.py", tmp_path / "log"
    script.write_text("import time\nprint('begun')\ntime.sleep(3600)\n")
    log.touch()
    sleeper = Script([str(script)], os.environ, log)
    wait_until(log.read_text, "the script")
    assert sleeper.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper.wait(0.01)
    sleeper.kill()
    assert sleeper.wait(PATIENCE_SECONDS) == -signal.SIGKILL
