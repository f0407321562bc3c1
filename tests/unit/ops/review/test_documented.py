"""docs/operate/review.md says of each effect and danger what the model says."""

import ast
import inspect
from enum import StrEnum
from pathlib import Path

import pytest

from ops.review.model import Danger, Effect

PAGE = Path(__file__).resolve().parents[4] / "docs" / "operate" / "review.md"


def meanings(kind: type[StrEnum]) -> dict[str, str]:
    """Return the text below each member in the model's source; empty if it has none."""
    [found] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(found, ast.ClassDef)
    said: dict[str, str] = {}
    name = ""
    for statement in found.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            said[kind[name]] = ""
        elif name and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            said[kind[name]] = " ".join(str(statement.value.value).split())
    return said


@pytest.mark.parametrize("kind", [Effect, Danger])
def test_page_lists_each_member_in_its_order_with_the_models_words(kind: type[StrEnum]) -> None:
    heading = "## Effects" if kind is Effect else "## What the gate stops"
    section = PAGE.read_text().partition(f"{heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    said = {cells[0].strip("*`"): cells[1] for cells in rows}
    expected = meanings(kind)
    assert list(said) == list(kind)
    assert {name: text for name, text in said.items() if expected[name]} == {k: v for k, v in expected.items() if v}


def test_model_is_read() -> None:
    assert meanings(Effect)[Effect.REFUSED] == "The deployment fails before it changes the thing."
