"""Draw samples with one seed for a whole run of the tests, so that the run can be repeated.

A test marked `sampled(few)` has more cases than a run has time for: a run takes `few` cases, drawn by the seed.
`-m sampled` (`make test-long`) takes all cases, or as many as the marker's `long` states. Tests with the same `of` are
cases of one group: a run takes `few` of them together.

With TEST_SHARE=2, a run takes half of the files of tests, drawn by the seed; with 3, a third.
"""

import os
import random
import subprocess
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import pytest

SEED: Final = "TEST_SEED"
SHARE: Final = "TEST_SHARE"
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


def share() -> int:
    """Return of how many files of tests a run takes one: TEST_SHARE, or 1 without it."""
    given = os.environ.get(SHARE, "1")
    if not given.isdecimal() or int(given) == 0:
        raise pytest.UsageError(f"{SHARE}={given!r} is no share. Allowed: a whole number from 1, as 2 for half")
    return int(given)


def pytest_report_header() -> str:
    """Return the line that shows how to repeat this run's samples."""
    taken = f" {SHARE}={share()}" if share() > 1 else ""
    return f"{SEED}={seed()}{taken} repeats what is drawn"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the files that are not in the run's share, and the cases of sampled tests that were not drawn."""
    long = MARKER in config.option.markexpr
    shared = _shared({item.path for item in items})
    kept = [item for item in items if item.path in shared]
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in kept:
        if marker := item.get_closest_marker(MARKER):
            cases[marker.kwargs.get("of", item.nodeid.partition("[")[0])].append(item)
    drawn = {item for group, found in cases.items() for item in _sample(group, found, long=long)}
    undrawn = {item for found in cases.values() for item in found} - drawn
    left_out = [item for item in items if item.path not in shared or item in undrawn]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in kept if item not in undrawn]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the sampled cases that ran."""
    said = [each for found in terminalreporter.stats.values() for each in found]
    named = {each.nodeid for each in said if isinstance(each, pytest.TestReport) and MARKER in each.keywords}
    if named:
        terminalreporter.section(f"sampled by {SEED}={seed()}")
        for name in sorted(named):
            terminalreporter.write_line(name)


def _shared(files: Collection[Path]) -> set[Path]:
    """Return the files that a run takes: of neighbours by name exactly one, so that each folder is sampled."""
    ordered = sorted(files)
    groups = [ordered[start : start + share()] for start in range(0, len(ordered), share())]
    return {drawing(f"{SHARE} {group[0].name}").choice(group) for group in groups}


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
