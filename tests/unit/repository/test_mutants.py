"""The mutants of tests/mutants.py."""

import ast
from pathlib import Path

import pytest

from rehearsal.paths import REPOSITORY
from tests.mutants import PACKAGES, TIERS, found_again, is_killed, mutants, sample, touching

SOURCE = """
def larger(first: int, second: int) -> bool:
    return first > second and not first == 0
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "code.py").write_text(SOURCE)
    return tmp_path


def test_an_expression_gets_every_known_mutation(repository: Path) -> None:
    found = {(each.operator, each.after) for each in mutants(repository, "ops")}
    assert found == {
        ("None returned", "None"),
        ("and to or", "first > second or not first == 0"),
        ("> to >=", "first >= second"),
        ("not taken away", "first == 0"),
        ("== to !=", "first != 0"),
        ("one more", "1"),
    }


def test_the_same_seed_draws_the_same_and_another_draws_others(repository: Path) -> None:
    assert sample(repository, 15, 1) == sample(repository, 15, 1)
    assert sample(repository, 15, 1) != sample(repository, 15, 2)


def test_every_mutant_of_the_product_is_an_expression() -> None:
    for package in PACKAGES:
        for each in mutants(REPOSITORY, package):
            assert each.text[each.column :].startswith(each.before)
            ast.parse(each.after, mode="eval")


def test_a_mutant_is_found_again_where_its_line_has_moved_and_not_where_it_is_gone(repository: Path) -> None:
    wanted = sample(repository, 5, 0)
    for package in PACKAGES[1:]:
        (repository / package / "code.py").write_text(f"# A comment.\n{SOURCE}")
    (repository / PACKAGES[0] / "code.py").write_text("")
    assert [each.line for each in found_again(repository, wanted)] == [each.line + 1 for each in wanted[1:]]


def test_a_test_that_fails_without_a_mutant_kills_none(repository: Path) -> None:
    (repository / ".venv").symlink_to(REPOSITORY / ".venv")
    for tier in TIERS:
        (repository / tier).mkdir(parents=True)
    (repository / TIERS[0] / "test_code.py").write_text(
        "from ops.code import larger\n\n"
        "def test_good():\n    assert larger(2, 1)\n\n"
        "def test_bad():\n    assert larger(1, 2)\n"
    )
    wanted = mutants(repository, "ops")
    touched, failed = touching(repository, wanted)
    assert touched == {each: ["tests/unit/test_code.py::test_good"] for each in wanted}
    assert failed == ["tests/unit/test_code.py::test_bad"]


def test_a_mutant_that_the_recorded_tests_let_live_is_tried_with_the_others(repository: Path) -> None:
    (repository / ".venv").symlink_to(REPOSITORY / ".venv")
    (repository / "test_code.py").write_text(
        "import pytest\nfrom ops.code import larger\n\n"
        "@pytest.fixture(scope='session')\ndef said():\n    return larger(2, 1)\n\n"
        "def test_first(said):\n    pass\n\n"
        "def test_second(said):\n    assert said\n"
    )
    mutant = next(each for each in mutants(repository, "ops") if each.operator == "None returned")
    assert not is_killed(repository, mutant, ["test_code.py::test_first"])
    assert is_killed(repository, mutant, ["test_code.py::test_first"], ["test_code.py"])
