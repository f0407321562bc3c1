"""Measure each test's CPU seconds, with those of the processes that it starts: a pytest plugin of its own.

A shared machine stretches the wall time of tests unevenly, but their CPU time hardly. A process that outlives its
parent is not counted; one of a shared fixture, such as a control plane, counts for the tests that run meanwhile.
"""

import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_SHOWN: Final = 30


def _children(pid: int) -> Iterator[int]:
    """Yield the children of all threads of a process, at any depth."""
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in listed.read_text().split()]
        except OSError:
            continue
        for child in children:
            yield child
            yield from _children(child)


def _used_by(pid: int) -> float:
    """Return the CPU seconds of a process and its ended children; 0 if it has ended, too."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS


def _used() -> float:
    """Return the CPU seconds of this process and of all processes below it."""
    return sum(os.times()[:4]) + sum(map(_used_by, _children(os.getpid())))


class _Meter:
    """Adds to each report the CPU seconds since the previous one; xdist carries the reports to the first process."""

    def __init__(self) -> None:
        self._measured = 0.0

    def pytest_collection_finish(self) -> None:
        """Begin to measure: imports belong to no test."""
        self._measured = _used()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        now = _used()
        report.cpu_seconds, self._measured = now - self._measured, now
        return report


def pytest_configure(config: pytest.Config) -> None:
    """Measure in this process, which runs tests unless xdist's workers do."""
    config.pluginmanager.register(_Meter())


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the tests that took the most CPU seconds, and the sum of all."""
    seconds: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid] += report.cpu_seconds
    terminalreporter.section(f"CPU: {sum(seconds.values()):.0f} s, the most by")
    for test, spent in sorted(seconds.items(), key=lambda item: -item[1])[:_SHOWN]:
        terminalreporter.write_line(f"{spent:7.1f} s {test}")
