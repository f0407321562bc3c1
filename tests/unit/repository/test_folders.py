"""The house: how many files a folder of code holds, and that each folder says what it is for."""

import ast
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.tiers import REPOSITORY

MOST = 15
"""Files of code in one folder: more of them is a sign that it needs rooms."""


def code() -> list[Path]:
    """Return the product's and the packages' Python files, relative to the repository."""
    argv = ["git", "ls-files", "-z", "*.py"]
    listed = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    paths = [Path(name) for name in listed.stdout.split("\0") if name]
    apart = ("tests", "docs", ".ci")
    return [path for path in paths if path.parts[0] not in apart and path.parts[2:3] != ("tests",)]


def folders() -> list[Path]:
    return sorted({path.parent for path in code()} - {Path()})


@pytest.mark.parametrize("folder", folders(), ids=str)
def test_folder_says_in_one_sentence_what_it_is_for(folder: Path) -> None:
    purpose = ast.get_docstring(ast.parse((REPOSITORY / folder / "__init__.py").read_text()))
    assert purpose, f"{folder}/__init__.py has no docstring"
    sentence = purpose.split("\n\n")[0]
    assert sentence.endswith("."), f"{folder}/__init__.py: its docstring does not begin with a sentence"


def test_no_folder_holds_more_code_files_than_one_can_survey() -> None:
    counted = Counter(path.parent for path in code() if path.name != "__init__.py")
    assert {str(folder): count for folder, count in counted.items() if count > MOST} == {}
