"""An orchestrator is a type: few places of the product ask which one an environment has (docs/adr/0086)."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[3]
PRODUCT: Final = ("config", "stacks", "k8s_charts", "handlers", "controllers", "lifecycle_scripts", "ops", "rehearsal")
MAY_ASK: Final = ("config/model/", "config/load.py")
MOST: Final = 10
TYPES: Final = {"EksEnvironment", "SlurmEnvironment"}


def questions(code: str) -> list[int]:
    """Return the lines that ask which type an environment has."""
    return sorted(_questions(ast.parse(code)))


def _questions(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]) if _names(kind) & TYPES:
                yield node.lineno
            case ast.Match(cases=cases) if any(_names(case.pattern) & TYPES for case in cases):
                yield node.lineno
            # `environment.slurm` is none: mypy refuses it unless the type is known already.
            case ast.Attribute(attr="section"):
                yield node.lineno


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_few_places_ask_what_orchestrates_an_environment() -> None:
    files = [REPOSITORY / "app.py", *(file for folder in PRODUCT for file in (REPOSITORY / folder).rglob("*.py"))]
    asked = [
        f"{name}:{line}"
        for file in sorted(files)
        for name in [str(file.relative_to(REPOSITORY))]
        if "slurm" not in name and not name.startswith(MAY_ASK)
        for line in questions(file.read_text())
    ]
    assert len(asked) <= MOST, f"take the type in the signature, or give both types an attribute: {asked}"


def test_each_form_of_the_question_is_seen() -> None:
    assert questions("isinstance(it, SlurmEnvironment)") == [1]
    assert questions("match it:\n    case EksEnvironment():\n        pass") == [1]
    assert questions("environment.section == 'slurm'") == [1]
    assert questions("isinstance(it, Path)\ndef f(it: SlurmEnvironment): pass") == []
