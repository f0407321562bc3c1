"""What pyproject.toml and the packages declare: all that the product imports, and nothing that only tests import."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tiers import REPOSITORY

# What runs with the packages of requirements.txt alone: synthesis, `ops`, and what they upload.
PRODUCT: Final = ("config", "stacks", "k8s_charts", "handlers", "controllers", "ops")


def imported() -> set[str]:
    """Return the distributions that the product imports, also inside functions."""
    files = [REPOSITORY / "app.py", *(file for each in PRODUCT for file in (REPOSITORY / each).rglob("*.py"))]
    names: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    modules = {name.partition(".")[0] for name in names} - {*sys.stdlib_module_names, *PRODUCT}
    distributions = packages_distributions()
    # Several distributions share the namespace `aws_cdk`: which of them are needed, only their uses show.
    return {canonicalize_name(each) for module in modules for each in distributions[module]}


def declared(project: Path) -> dict[str, Requirement]:
    found = map(Requirement, tomllib.loads(project.read_text())["project"]["dependencies"])
    return {canonicalize_name(each.name): each for each in found}


def locked(lock: str) -> dict[str, str]:
    text = (REPOSITORY / lock).read_text()
    return {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", text, re.M)}


def test_every_dependency_of_the_product_is_imported_by_it() -> None:
    """What only tests and the rehearsal import belongs into the group `dev` of pyproject.toml."""
    assert declared(REPOSITORY / "pyproject.toml").keys() <= imported()


def test_the_lock_of_the_product_holds_every_package_that_it_imports() -> None:
    """Tests run with the lock of the group `dev`, which would hide a missing one."""
    assert imported() - {"ray-on-hyperpod"} <= locked("requirements.txt").keys()


def test_moto_is_pinned_to_the_version_whose_internals_the_package_was_tested_with() -> None:
    moto = declared(REPOSITORY / "packages/embedded-account/pyproject.toml")["moto"].specifier
    tested = locked("requirements/dev.txt")["moto"]
    major, minor, patch = map(int, tested.split("."))
    others = (f"{major}.{minor}.{patch - 1}", f"{major}.{minor}.{patch + 1}", f"{major}.{minor + 1}.0")
    assert moto.contains(tested)
    assert [version for version in others if moto.contains(version)] == []
