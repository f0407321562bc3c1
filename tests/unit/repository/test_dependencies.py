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

# What runs with the rehearsal's packages, too.
REHEARSED_MODULES: Final = ("app", "embedded_account", "rehearsal")
REHEARSED: Final = ("rehearsal", "packages/embedded-account/embedded_account")


def imported(*folders: str) -> set[str]:
    """Return the distributions that the folders' files import, also inside functions."""
    files = [file for each in folders for file in (REPOSITORY / each).rglob("*.py")]
    names: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    modules = {name.partition(".")[0] for name in names} - {*sys.stdlib_module_names, *PRODUCT, *REHEARSED_MODULES}
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
    assert declared(REPOSITORY / "pyproject.toml").keys() <= imported(*PRODUCT)


def test_the_lock_of_the_product_holds_every_package_that_it_imports() -> None:
    """Tests run with the lock of the group `dev`, which would hide a missing one."""
    assert imported(*PRODUCT) <= locked("requirements.txt").keys()


def test_the_locks_of_the_rehearsal_hold_every_package_that_it_imports() -> None:
    """But for pytest, which the package's tools for tests import."""
    installed = locked("requirements.txt") | locked("requirements/rehearsal.txt")
    assert imported(*REHEARSED) - {"pytest", "pytest-xdist"} <= installed.keys()


def test_moto_is_pinned_to_the_version_whose_internals_the_package_was_tested_with() -> None:
    moto = declared(REPOSITORY / "packages/embedded-account/pyproject.toml")["moto"].specifier
    tested = locked("requirements/rehearsal.txt")["moto"]
    major, minor, patch = map(int, tested.split("."))
    others = (f"{major}.{minor}.{patch - 1}", f"{major}.{minor}.{patch + 1}", f"{major}.{minor + 1}.0")
    assert moto.contains(tested)
    assert [version for version in others if moto.contains(version)] == []
