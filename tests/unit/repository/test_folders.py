"""The house: each folder of code says what it is for."""

import ast
from pathlib import Path

import pytest

from tests.house import code
from tests.tiers import REPOSITORY


def folders() -> list[Path]:
    return sorted({path.parent for path in code()} - {Path()})


@pytest.mark.parametrize("folder", folders(), ids=str)
def test_folder_says_in_one_sentence_what_it_is_for(folder: Path) -> None:
    purpose = ast.get_docstring(ast.parse((REPOSITORY / folder / "__init__.py").read_text()))
    assert purpose, f"{folder}/__init__.py has no docstring"
    sentence = purpose.split("\n\n")[0]
    assert sentence.endswith("."), f"{folder}/__init__.py: its docstring does not begin with a sentence"
