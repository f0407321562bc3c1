"""Sampled tests: the cases that a run takes."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rehearsal.paths import REPOSITORY
from tests.support.sampling import SEED, SHARE

TESTS = """
import pytest

@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", range(20))
def test_all_in_the_long_run(case): pass

@pytest.mark.sampled(1, long=3)
@pytest.mark.parametrize("case", range(20))
def test_some_in_the_long_run(case): pass

@pytest.mark.sampled(2, of="animals")
@pytest.mark.parametrize("case", range(2))
def test_mice(case): pass

@pytest.mark.sampled(2, of="animals")
@pytest.mark.parametrize("case", range(2))
def test_cats(case): pass

def test_that_draws(draw): print("drawn:", draw.random())
"""


def collect(directory: Path, seed: int, *arguments: str, tests: str = TESTS, share: int = 1) -> str:
    (directory / "conftest.py").write_text('pytest_plugins = ("tests.support.sampling",)')
    (directory / "pytest.ini").write_text(
        "[pytest]\nmarkers = sampled: some\n  long: wide\naddopts = -p no:cacheprovider -rP\n"
    )
    (directory / "test_cases.py").write_text(tests)
    env = os.environ | {SEED: str(seed), SHARE: str(share), "PYTHONPATH": str(REPOSITORY)}
    argv = [sys.executable, "-m", "pytest", *arguments, str(directory)]
    return subprocess.run(argv, cwd=directory, env=env, capture_output=True, text=True, check=True).stdout


def named(output: str) -> list[str]:
    """Return the cases that the report's section of sampled tests lists."""
    return re.findall(r"^test_cases\.py::(test_\w+\[\d+\])$", output.partition("sampled by")[2], re.MULTILINE)


def test_run_takes_few_cases_names_them_and_repeats_them_for_its_seed(tmp_path: Path) -> None:
    first, again, other = (collect(tmp_path, seed) for seed in (1, 1, 2))
    assert "TEST_SEED=1 repeats what is drawn" in first
    tests = Counter(name.partition("[")[0] for name in named(first))
    assert tests.pop("test_mice", 0) + tests.pop("test_cats", 0) == 2, "two of a group"
    assert tests == {"test_all_in_the_long_run": 2, "test_some_in_the_long_run": 1}
    assert named(first) == named(again) != named(other)
    drawn, drawn_again, drawn_otherwise = (re.findall("drawn: .*", output) for output in (first, again, other))
    assert drawn == drawn_again != drawn_otherwise


def test_long_run_takes_all_cases_or_as_many_as_the_marker_says(tmp_path: Path) -> None:
    cases = [name.partition("[")[0] for name in named(collect(tmp_path, 1, "-m", "long or sampled"))]
    assert cases.count("test_all_in_the_long_run") == 20
    assert cases.count("test_some_in_the_long_run") == 3
    assert cases.count("test_mice") == cases.count("test_cats") == 2


def taken(directory: Path, seed: int, share: int) -> set[str]:
    """Return the files of which a run takes tests."""
    for number in range(7):
        (directory / f"test_{number}.py").write_text("def test_it(): pass")
    return {*re.findall(r"test_\d\.py", collect(directory, seed, "-v", share=share))}


def test_share_is_one_of_each_pair_of_neighbours_and_other_seeds_take_the_others(tmp_path: Path) -> None:
    assert len(taken(tmp_path, 1, 1)) == 7
    halves = [taken(tmp_path, seed, 2) for seed in (1, 1, 2, 3, 4, 5, 6)]
    assert halves[0] == halves[1]
    # A pair is of neighbours in the order of names, with test_cases.py last.
    pairs = [{f"test_{number}.py", f"test_{number + 1}.py"} for number in (0, 2, 4)]
    assert all(len(half & pair) == 1 for half in halves for pair in pairs)
    assert {file for half in halves for file in half} == taken(tmp_path, 1, 1)
    assert "TEST_SEED=1 TEST_SHARE=2 repeats what is drawn" in collect(tmp_path, 1, share=2)


def test_a_group_with_two_numbers_is_refused(tmp_path: Path) -> None:
    tests = TESTS.replace('sampled(2, of="animals")', 'sampled(1, of="animals")', 1)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        collect(tmp_path, 1, tests=tests)
    assert "animals: one group, one number of cases" in refused.value.stdout
