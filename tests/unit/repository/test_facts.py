"""Facts have one place: instance types one table, and each table tests that name it when they fail."""

import re
import subprocess
from typing import Final

import pytest

from config.facts.instance_types import catalogue
from rehearsal.paths import REPOSITORY

pytest_plugins = ("pytester",)

FACTS: Final = "config/facts"
ALLOWED: Final = {
    f"{FACTS}/instance_types.yaml": "the table",
    "ops/environment/examples/slurm.yaml": "an environment with three groups, for users to copy",
}
# The user's files, and what is no product: tests, pages, rendered objects, lock files.
ELSEWHERE: Final = re.compile(
    r"environments/|manifests/|docs/|(packages/[\w-]+/)?tests/|requirements|.*(CHANGELOG|README)\.md|.*\.lock\.(json|yaml)"
    r"|package-lock\.json|.*/(go\.sum|requirements\.txt)"
)
FAMILIES: Final = "|".join(sorted({name.split(".")[1] for name in catalogue()}))
"""Families of the catalogue: in quotes they are as good as a type."""
TYPE: Final = re.compile(
    r"\b(?:ml\.)?([a-z]{1,4}\d[a-z0-9-]*\.(?:nano|micro|small|medium|large|metal|\d*xlarge))\b"
    rf"|[\"'](?:ml\.)?({FAMILIES})[\"']"
)
A_TABLE: Final = 3
"""So many types in one file are a table. Examples, help texts and rules' docstrings name one or two."""
WITHOUT_A_RECORD: Final = {f"{FACTS}/drift_permissions.py"}
"""Nothing in the project knows what drift detection reads; docs/unverified-on-aws.md says how to look."""

FAILING: Final = """
import pytest

pytestmark = pytest.mark.table("facts.yaml")

def test_a_figure():
    assert 1 == 2

@pytest.mark.table("other.yaml")
@pytest.mark.parametrize("row", ["x", "y"])
def test_a_row(row):
    raise ValueError(row)

def test_green():
    pass
"""


def types_in(text: str) -> set[str]:
    return {name or family for name, family in TYPE.findall(text)}


def product() -> list[str]:
    listing = ["git", "-C", str(REPOSITORY), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in names if (REPOSITORY / name).is_file() and not ELSEWHERE.match(name)]


def test_no_other_product_file_has_a_table_of_instance_types() -> None:
    """A fact of a type belongs into its row of config/facts/instance_types.yaml; code derives other forms from it."""
    files = product()
    assert "config/estimates/costs.py" in files
    tables = {
        name: found
        for name in files
        if len(found := types_in((REPOSITORY / name).read_text(errors="replace"))) >= A_TABLE
    }
    assert tables.keys() == ALLOWED.keys(), {name: sorted(tables[name])[:5] for name in tables.keys() - ALLOWED.keys()}


@pytest.mark.parametrize(
    "table",
    [
        '"ml.p4d.24xlarge": 400, "ml.p5.4xlarge": 100, "ml.p5.48xlarge": 3200',
        '"us-west-1": {"types": ["c5", "p5en", "t3"]}',
        'PRICES = {"m5.large": 0.1, "m5.xlarge": 0.2, "t3.medium": 0.05}',
        "case $type in ml.g5.*) efa=0;; ml.p5.48xlarge|ml.p5e.48xlarge|ml.trn1.32xlarge) efa=1;; esac",
    ],
)
def test_a_table_is_found_in_every_form(table: str) -> None:
    assert len(types_in(table)) >= A_TABLE


def test_every_table_has_a_test_that_names_it() -> None:
    tables = {
        str(file.relative_to(REPOSITORY))
        for pattern in (f"{FACTS}/*.yaml", f"{FACTS}/*_permissions.py", "config/estimates/*.yaml")
        for file in REPOSITORY.glob(pattern)
    }
    # Commands write the lock files.
    tables = {name for name in tables if not name.endswith(".lock.yaml")} - WITHOUT_A_RECORD
    tests = [file for file in (REPOSITORY / "tests").rglob("test_*.py") if file.name != "test_facts.py"]
    named = {name for file in tests for name in re.findall(r'mark\.table\("([^"]+)"\)', file.read_text())}
    assert len(tables) > 5
    assert tables <= named
    assert [name for name in named if not (REPOSITORY / name).is_file()] == []


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_failure_names_the_file_to_edit(pytester: pytest.Pytester, workers: str) -> None:
    pytester.makeconftest(
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\npytest_plugins = ('tests.support.tables',)"
    )
    pytester.makefile(".ini", pytest="[pytest]\nmarkers = table(path): a table\naddopts = -p no:cacheprovider")
    pytester.makepyfile(test_tables=FAILING)
    result = pytester.runpytest_subprocess("-n", workers)
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines_random(
        [
            "*- file to edit -*",
            "Edit facts.yaml: tests that compare it with an independent record failed: 1",
            "Edit other.yaml: tests that compare it with an independent record failed: 2",
        ]
    )
