"""Test that a test's CPU seconds include those of its processes, also when workers run the tests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import subprocess, sys

BURN = "import time; any(time.process_time() > 0.5 for _ in iter(int, 1))"

def test_that_ends_its_process():
    subprocess.run([sys.executable, "-c", BURN], check=True)

def test_that_does_nothing():
    pass
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_seconds_of_a_process_are_its_tests(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_burn.py").write_text(TESTS)
    argv = [sys.executable, "-m", "pytest", "-p", "embedded_account.testing.cpu_seconds", "-n", workers, "-q"]
    shown = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    [first, second] = re.findall(r"([\d.]+) s \S+::(\w+)", shown)
    assert [first[1], second[1]] == ["test_that_ends_its_process", "test_that_does_nothing"]
    assert float(first[0]) >= 0.5
    assert float(second[0]) < 0.5
