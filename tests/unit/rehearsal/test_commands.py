"""A command of a rehearsal returns what it says, not that it is still there."""

import sys
from pathlib import Path

from rehearsal.run.cdk import run

SLOW = """
import sys, time
from ops import sign_of_life
sign_of_life.SILENCE_SECONDS, sign_of_life.CHECK_SECONDS = 0.1, 0.02
sign_of_life.watch()
time.sleep(0.5)
print("dev: no drift")
"""


def test_signs_of_life_of_ops_are_logged_and_shown_but_no_part_of_its_answer(tmp_path: Path) -> None:
    log, shown = tmp_path / "ops.log", list[str]()
    argv = [sys.executable, "-c", SLOW]
    assert run(argv, cwd=Path.cwd(), env={}, log=log, echo=shown.append) == "dev: no drift\n"
    assert log.read_text().splitlines() == shown
    assert shown[0].startswith("ops: still waiting, ")
