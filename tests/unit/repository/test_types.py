"""`mypy` reads the types of each CDK module that the code imports: skipped modules would have no types at all."""

import ast
import importlib.util
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from rehearsal.paths import REPOSITORY

PACKAGE: Final = "packages/embedded-account/"
# The types of arguments: interfaces that CDK's classes of several services share.
SHARED: Final = {"aws_cdk", "aws_cdk.interfaces"}


@pytest.mark.parametrize("folder", ["", PACKAGE], ids=["project", "embedded-account"])
def test_mypy_reads_the_types_of_exactly_the_cdk_modules_that_are_imported(folder: str) -> None:
    overrides = tomllib.loads((REPOSITORY / folder / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    [skipped] = [each for each in overrides if each["module"] == ["aws_cdk.*"]]
    [read] = [each for each in overrides if "aws_cdk" in each["module"]]
    assert (skipped["follow_imports"], read["follow_imports"]) == ("skip", "normal")
    imported = {module for file in python_files(folder) for module in cdk_modules(file)}
    assert len(imported) > 5
    assert {name.removesuffix(".*") for name in read["module"]} == imported | SHARED


def python_files(folder: str) -> Iterator[Path]:
    """Yield the tracked Python files of the package, or those of the project without the package."""
    listing = ["git", "-C", str(REPOSITORY), "ls-files", f"{folder}*.py"]
    for name in subprocess.run(listing, check=True, capture_output=True, text=True).stdout.splitlines():
        if name.startswith(PACKAGE) == bool(folder) and (REPOSITORY / name).exists():
            yield REPOSITORY / name


def cdk_modules(file: Path) -> Iterator[str]:
    """Yield the modules of CDK that a file imports."""
    text = file.read_text()
    if "aws_cdk" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.partition(".")[0] == "aws_cdk")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "aws_cdk":
            yield str(node.module)
            names = (f"{node.module}.{each.name}" for each in node.names if each.name.islower())
            yield from (name for name in names if importlib.util.find_spec(name))
