"""Fail a run of pytest that skipped a test without permission: what did not run is not green.

Register it in the top conftest.py: `config.pluginmanager.register(Skips(allowed))`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

import pytest


@dataclass(frozen=True)
class PermittedSkips:
    """Tests that this machine need not run."""

    tests: str
    """Pattern of their node ids."""
    reason: str
    """Pattern of the reason that their skip gives."""
    why: str
    """Why the skip leaves no gap: what runs these tests."""
    here: bool = True
    """Whether the permission holds on this machine and in this run."""


class Skips:
    """Count the skips of a run, those of xdist's workers included; refuse those that are not allowed."""

    def __init__(self, allowed: Sequence[PermittedSkips]) -> None:
        """Take the permissions; the first that fits a skip counts."""
        self._allowed: Final = [each for each in allowed if each.here]
        self._reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that was skipped; one that was expected to fail has run."""
        if not hasattr(report, "wasxfail"):
            self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that was skipped as a whole."""
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that is green otherwise, or that has collected nothing but skips."""
        green = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if session.exitstatus in green and any(not found for _, _, found in self._skipped()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print how many skips are allowed and why, and each that is not."""
        skipped = list(self._skipped())
        if not skipped:
            return
        refused = [(test, reason) for test, reason, found in skipped if not found]
        terminalreporter.section(f"{len(skipped)} skipped, {len(refused)} of them without permission")
        for found, number in Counter(found for _, _, found in skipped if found).items():
            terminalreporter.write_line(f"{number} allowed: {found.tests} ({found.why})")
        for test, reason in refused:
            terminalreporter.write_line(
                f"error: {test} was skipped: {reason}. Allowed: the skips that conftest.py lists"
            )

    def _skipped(self) -> Iterator[tuple[str, str, PermittedSkips | None]]:
        """Yield each skip's node id and reason, and what allows it."""
        for test, reason in self._reasons.items():
            fits = (
                each for each in self._allowed if fnmatchcase(test, each.tests) and fnmatchcase(reason, each.reason)
            )
            yield test, reason, next(fits, None)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped:
            # A skip is told as a tuple of path, line and reason.
            message = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self._reasons[report.nodeid] = message.removeprefix("Skipped: ")
