"""The sequences break when a fix is removed from the handlers."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.handlers.support.mends import MENDS, ROOT, Mend


def explored(handlers: Path) -> subprocess.CompletedProcess[str]:
    """Run the sequences with the handlers of this directory instead of the project's; return the ended process."""
    argv = [sys.executable, "-W", "ignore", "-m", "tests.handlers.support.exploring"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(handlers), str(ROOT)])}
    return subprocess.run(argv, cwd=handlers, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("mend", MENDS, ids=lambda mend: mend.promise)
def test_each_mend_can_be_taken_out(mend: Mend, tmp_path: Path) -> None:
    mend.write_without(tmp_path)


@pytest.mark.long
def test_sequences_hold_over_a_copy_with_every_mend(tmp_path: Path) -> None:
    Mend("nothing is taken out", ()).write_without(tmp_path)
    assert explored(tmp_path).stdout == "all sequences hold\n"


@pytest.mark.long
@pytest.mark.parametrize("mend", MENDS, ids=lambda mend: mend.promise)
def test_sequences_notice_a_mend_that_is_taken_out(
    mend: Mend, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    mend.write_without(tmp_path)
    ended = explored(tmp_path)
    found = re.match(r"broken by sequence (\d+) (.+)", ended.stdout)
    assert found, ended.stdout + ended.stderr
    record_property("explored", {f"sequences until it broke that {mend.promise}: {found[2]}": int(found[1])})
