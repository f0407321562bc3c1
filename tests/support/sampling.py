"""Draw samples with one seed for a whole run of the tests, so that the run can be repeated.

A test marked `sampled(few)` has more cases than a run has time for: a run takes `few` cases, drawn by the seed.
`-m sampled` (`make test-long`) takes all cases, or as many as the marker's `long` states. Tests with the same `of` are
cases of one group: a run takes `few` of them together.
"""

import os
import random
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest

SEED: Final = "TEST_SEED"
MARKER: Final = "sampled"


def seed() -> int:
    """Return TEST_SEED, or without it a number derived from the commit."""
    if given := os.environ.get(SEED):
        return int(given)
    argv = ["git", "rev-parse", "HEAD"]
    found = subprocess.run(argv, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return int(found.stdout[:8], 16) if found.returncode == 0 else 0


def drawing(name: str) -> random.Random:
    """Return a generator for one purpose. It depends on the seed and the name only, not on other draws."""
    return random.Random(f"{seed()} {name}")  # noqa: S311 (tests, not secrets)


@pytest.fixture
def draw(request: pytest.FixtureRequest) -> random.Random:
    """Return the random generator of one test."""
    return drawing(request.node.nodeid)


def pytest_report_header() -> str:
    """Return the line that shows how to repeat this run's samples."""
    return f"{SEED}={seed()} repeats what is drawn"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases of sampled tests that were not drawn."""
    long = MARKER in config.option.markexpr
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if marker := item.get_closest_marker(MARKER):
            cases[marker.kwargs.get("of", item.nodeid.partition("[")[0])].append(item)
    drawn = {item for group, found in cases.items() for item in _sample(group, found, long=long)}
    left_out = [item for found in cases.values() for item in found if item not in drawn]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in {*left_out}]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the sampled cases that ran."""
    said = [each for found in terminalreporter.stats.values() for each in found]
    named = {each.nodeid for each in said if isinstance(each, pytest.TestReport) and MARKER in each.keywords}
    if named:
        terminalreporter.section(f"sampled by {SEED}={seed()}")
        for name in sorted(named):
            terminalreporter.write_line(name)


def _sample(group: str, cases: list[pytest.Item], *, long: bool) -> list[pytest.Item]:
    markers = [marker for case in cases if (marker := case.get_closest_marker(MARKER))]
    few, many = ({number(marker) for marker in markers} for number in (_few, _many))
    assert len(few) == len(many) == 1, f"{group}: one group, one number of cases"
    [short_run], [long_run] = few, many
    number = long_run if long else short_run
    return cases if number is None else drawing(group).sample(cases, min(number, len(cases)))


def _few(marker: pytest.Mark) -> int:
    [few] = marker.args
    return int(few)


def _many(marker: pytest.Mark) -> int | None:
    """Return how many cases a long run takes, or None for all."""
    return marker.kwargs.get("long")
