"""Record decisions about rights in rehearsals and tests, replay them, and write the page."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from embedded_account.machine.processes import ProcessError
from rehearsal.paths import RAY_ENVIRONMENT, REPOSITORY, ROOT, run_directory
from rehearsal.rights import page, recorded
from rehearsal.rights.replay import replay
from rehearsal.versions import ENVIRONMENTS, Run

REHEARSED: Final = ("dev", "prod", "slurm")
_OF_TESTS: Final = ROOT / "rights"
_FOLDERS: Final = {**{f"`{name}`": run_directory(name) for name in REHEARSED}, page.TESTS: _OF_TESTS}
"""The folders of recordings, by what makes them."""


def prove(run: Run, show: Callable[[str], None]) -> int:
    """Record, replay and write the page; return the exit code (0: everything was recorded)."""
    codes = [run(["run", "--env", name], ENVIRONMENTS)[0] for name in REHEARSED]
    codes.append(_test(Path(sys.executable), "people", "tests/rehearsal/account", "-n", "2", "--dist", "loadgroup"))
    codes.append(
        _test(Path(sys.executable), "handlers", "tests/synth/stacks/test_hyperpod_permissions.py", "-k", "suffice")
    )
    codes.append(_test(RAY_ENVIRONMENT / "bin" / "python", "pods", "tests/jobs/test_ray_role.py"))
    write(show)
    return int(any(codes))


def _test(python: Path, name: str, *words: str) -> int:
    """Run tests, and keep their recordings in a folder of this name; return the exit code."""
    _OF_TESTS.mkdir(parents=True, exist_ok=True)
    command = [str(python), "-m", "pytest", "-q", "--basetemp", str(_OF_TESTS / name), *words]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode


def write(show: Callable[[str], None]) -> None:
    """Replay what was recorded, and write the page. Raises ProcessError without a recording."""
    journals = {name: list(folder.glob("**/journal.jsonl")) for name, folder in _FOLDERS.items()}
    files = [file for found in journals.values() for file in found]
    if not files:
        raise ProcessError("no decision is recorded. Fix: `make test-rights`")
    newest = datetime.fromtimestamp(max(file.stat().st_mtime for file in files), UTC)
    needed = {name: replay(recorded.read(found)) for name, found in journals.items() if found}
    page.PAGE.write_text(page.page(needed, newest.date().isoformat()), encoding="utf-8")
    show(f"{len(set().union(*needed.values()))} rights: {page.PAGE.relative_to(REPOSITORY)}")
