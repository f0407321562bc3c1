"""`make test-long` runs all its parts, whatever fails, and lists what failed."""

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from rehearsal.paths import REPOSITORY

SETUPS = ("setup", "setup-jobs", "setup-mlflow", "setup-hyp", "setup-memory-tier")
STAND_INS = "one:\n\t@echo ran one; false\ntwo:\n\t@echo ran two\nthree:\n\t@echo ran three; exit 3\n"


def run(tmp_path: Path, parts: str) -> "subprocess.CompletedProcess[str]":
    """Run the target with other parts, and without its set-up."""
    (tmp_path / "parts.mk").write_text(STAND_INS)
    argv = ["make", *(f"--old-file={target}" for target in SETUPS), "test-long", f"LONG={parts}"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    env |= {"MAKEFILES": str(tmp_path / "parts.mk")}
    return subprocess.run(argv, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False)


def test_all_parts_run_and_the_failed_are_listed(tmp_path: Path) -> None:
    done = run(tmp_path, "one two three")
    assert [line for line in done.stdout.splitlines() if line.startswith(("ran", "test-long"))] == [
        "ran one",
        "ran two",
        "ran three",
        "test-long: failed: one three",
    ]
    assert done.returncode == 2


def test_green_parts_are_green(tmp_path: Path) -> None:
    assert run(tmp_path, "two").returncode == 0


def test_every_folder_with_sampled_or_long_cases_is_in_a_part() -> None:
    recipe = (REPOSITORY / "Makefile").read_text().partition("\nlong-cases:")[2]
    marked = {
        "/".join(path.relative_to(REPOSITORY).parts[:2])
        for path in REPOSITORY.glob("tests/**/test_*.py")
        if re.search(r"pytest\.mark\.(long|sampled)\b", path.read_text())
    }
    lines = [line for line in recipe.splitlines() if "'long or sampled'" in line]
    assert {folder for line in lines for folder in re.findall(r"tests/\w+", line)} >= marked


def docstrings_of_long_tests() -> Iterator[str]:
    """Yield what the docstrings of long tests say, with that of their file where all its tests are long."""
    for path in REPOSITORY.glob("tests/**/test_*.py"):
        module = ast.parse(path.read_text())
        tests = [each for each in module.body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")]
        long = [each for each in tests if "mark.long" in " ".join(map(ast.unparse, each.decorator_list))]
        marks = [each for each in module.body if isinstance(each, ast.Assign) and "pytestmark" in ast.unparse(each)]
        if any("mark.long" in ast.unparse(each) for each in marks):
            long = tests
        if long and long == tests:
            yield ast.get_docstring(module) or ""
        yield from (ast.get_docstring(each) or "" for each in long)


def test_a_page_that_only_long_tests_hold_says_so() -> None:
    named = {page for said in docstrings_of_long_tests() for page in re.findall(r"docs/[\w/-]+\.md", said)}
    assert len(named) >= 3
    silent = [page for page in named if "`make test-long`" not in (REPOSITORY / page).read_text()]
    assert silent == [], "a reader takes what these pages say for proven by each run of CI"
