"""Name the file to edit when a test of a table of figures or versions fails.

A test marked `table(path)` compares that file with an independent record. Its failure begins with the file's path, in
the test's own report and in the summary.
"""

from collections.abc import Generator
from typing import Any, Final

import pytest

MARKER: Final = "table"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put "Edit PATH" before the failure of a test of a table."""
    report = yield
    marker = item.get_closest_marker(MARKER)
    if marker and report.failed:
        advice = f"Edit {marker.args[0]}"
        report.sections.append(("the table", advice))
        # A failure without a place in a file has no crash.
        crash: Any = getattr(report.longrepr, "reprcrash", None)
        if crash:
            crash.message = f"{advice}: {crash.message}"
    return report
