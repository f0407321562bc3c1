"""Read the tables of published facts. A table is YAML: the artefact, its sources, and its facts with their source.

A source is `REPOSITORY COMMIT PATH` or `URL DATE`. A table holds names, keys and values, and no published text.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parent
SIDES: Final = ("product", "simulator")
"""Who is held against a fact: tests whose names begin with `test_SIDE_`, or with `test_both_`."""


@dataclass(frozen=True)
class Contract:
    """The facts of one artefact."""

    name: str
    artefact: str
    sources: dict[str, str]
    facts: dict[str, dict[str, Any]]

    def __getitem__(self, fact: str) -> Any:
        """Return the published value of a fact."""
        return self.facts[fact]["value"]


def read(name: str) -> Contract:
    """Return the contract in NAME.yaml."""
    return Contract(name, **yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))


def contracts() -> list[Contract]:
    """Return all contracts, by name."""
    return [read(path.stem) for path in sorted(FOLDER.glob("*.yaml"))]


def held(contract: Contract) -> dict[str, set[str]]:
    """Return which facts the tests of test_NAME.py read, by side; a test reads what the functions it names read."""
    tree = ast.parse((FOLDER / f"test_{contract.name}.py").read_text())
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    return {
        side: {
            fact
            for name in functions
            if name.startswith((f"test_{side}_", "test_both_"))
            for each in _reached(name, functions)
            for fact in _facts(functions[each])
        }
        for side in SIDES
    }


def _reached(name: str, functions: dict[str, ast.FunctionDef]) -> set[str]:
    """Return the function and all functions of the module that it names, directly or through others."""
    found: set[str] = set()
    left = [name]
    while left:
        if (each := left.pop()) not in found:
            found.add(each)
            left += [
                node.id for node in ast.walk(functions[each]) if isinstance(node, ast.Name) and node.id in functions
            ]
    return found


def _facts(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the keys of each `FACTS[KEY]` in a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "FACTS":
            yield ast.literal_eval(node.slice)


def page(found: Iterable[Contract]) -> Iterator[str]:
    """Yield the rows of docs/reference/contracts.md."""
    for contract in found:
        by_side = held(contract)
        counts = " | ".join(str(len(by_side[side])) for side in SIDES)
        sources = "<br>".join(_sources(contract))
        yield f"| [{contract.artefact}](../../tests/unit/contracts/{contract.name}.yaml) | {sources} | " + (
            f"{len(contract.facts)} | {counts} |"
        )


def _sources(contract: Contract) -> Iterator[str]:
    """Yield each repository and commit with its files, and each address with its date."""
    files: dict[str, list[str]] = {}
    for source in contract.sources.values():
        place, version, *path = source.split()
        files.setdefault(f"{place} `{version}`" if path else f"<{place}> ({version})", []).extend(path)
    for source, paths in files.items():
        names = dict.fromkeys(each.rsplit("/", 1)[-1] for each in paths)
        yield f"{source}: {', '.join(names)}" if paths else source
