"""Name the file to edit when a test of a table of figures or versions fails.

A test marked `table(path)` compares that file with an independent record. Its report names the file, and so does the
run's summary.
"""

from collections import Counter
from collections.abc import Generator
from typing import Any, Final

import pytest

MARKER: Final = "table"
_SECTION: Final = "file to edit"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the file to the report of a failed test of a table."""
    report = yield
    marker = item.get_closest_marker(MARKER)
    if marker and report.failed:
        report.sections.append((_SECTION, marker.args[0]))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a line for each file whose tests failed."""
    failed = terminalreporter.stats.get("failed", [])
    files = Counter(text for report in failed for name, text in report.sections if name == _SECTION)
    for file, count in files.items():
        terminalreporter.write_line(f"Edit {file}: tests that compare it with an independent record failed: {count}")
