"""The mutants of tests/mutants.py."""

import ast
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rehearsal.paths import REPOSITORY
from tests import mutants as module
from tests.mutants import PACKAGES, Suite, found_again, is_killed, mutants, sample, touching

SOURCE = """
def larger(first: int, second: int) -> bool:
    return first > second and not first == 0
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for package in PACKAGES:
        (tmp_path / package).mkdir(parents=True)
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
    assert sample(repository, 18, 1) == sample(repository, 18, 1)
    assert sample(repository, 18, 1) != sample(repository, 18, 2)


def test_every_mutant_of_the_product_is_an_expression() -> None:
    for package in PACKAGES:
        for each in mutants(REPOSITORY, package):
            assert each.text[each.column :].startswith(each.before)
            ast.parse(each.after, mode="eval")


def test_a_mutant_is_found_again_where_its_line_has_moved_and_not_where_it_is_gone(repository: Path) -> None:
    wanted = sample(repository, len(PACKAGES), 0)
    for package in PACKAGES[1:]:
        (repository / package / "code.py").write_text(f"# A comment.\n{SOURCE}")
    (repository / PACKAGES[0] / "code.py").write_text("")
    assert [each.line for each in found_again(repository, wanted)] == [each.line + 1 for each in wanted[1:]]


def test_all_code_that_is_deployed_has_mutants() -> None:
    """A new folder with Python belongs to a suite, or is only run by developers."""
    argv = ["git", "-C", str(REPOSITORY), "ls-files", "*.py"]
    files = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
    of_developers = (".ci/", "app.py", "bench/", "docs/", "packages/embedded-account/", "rehearsal/", "tests/")
    assert [file for file in files if not file.startswith((*of_developers, *(f"{each}/" for each in PACKAGES)))] == []


Write = Callable[[str], None]


@pytest.fixture
def tests(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes all the tests of the only suite."""
    monkeypatch.setattr(module, "SUITES", (Suite(PACKAGES, ("tests/unit",), ".venv", seconds=900),))
    (repository / ".venv").symlink_to(REPOSITORY / ".venv")
    file = repository / "tests" / "unit" / "test_code.py"
    file.parent.mkdir(parents=True)

    def write(text: str) -> None:
        file.write_text(text)

    return write


TEST_WITH_A_CHILD = """
import subprocess
import sys

def test_other():
    assert True

def test_child():
    words = [sys.executable, "-m", "controllers.code"]
    assert subprocess.run(words, check=True, capture_output=True, text=True).stdout == "True"
"""


def test_mutant_that_only_a_child_process_executes_is_tried_with_its_test(repository: Path, tests: Write) -> None:
    """The child gets no variable from its test, and ends before the module's last line."""
    program = f'{SOURCE}\n\nif __name__ == "__main__":\n    print(end=str(larger(2, 1)))\n    raise SystemExit\n'
    (repository / "controllers" / "code.py").write_text(program)
    tests(TEST_WITH_A_CHILD)
    [mutant] = [each for each in mutants(repository, "controllers") if each.operator == "None returned"]
    touched, failed = touching(repository, [mutant])
    assert (touched, failed) == ({mutant: ["tests/unit/test_code.py::test_child"]}, [])
    assert is_killed(repository, mutant, touched[mutant])
    assert (repository / "controllers" / "code.py").read_text() == program


def test_a_test_that_fails_without_a_mutant_or_with_any_kills_none(repository: Path, tests: Write) -> None:
    tests(
        "from pathlib import Path\n\nfrom ops import code\n\n"
        "def test_good():\n    assert code.larger(2, 1)\n\n"
        "def test_bad():\n    assert code.larger(1, 2)\n\n"
        f"def test_text():\n    assert code.larger and Path(code.__file__).read_text() == {SOURCE!r}\n",
    )
    wanted = mutants(repository, "ops")
    touched, failed = touching(repository, wanted)
    assert touched == {each: ["tests/unit/test_code.py::test_good"] for each in wanted}
    assert failed == ["tests/unit/test_code.py::test_bad", "tests/unit/test_code.py::test_text"]


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


@pytest.fixture
def in_the_background() -> Iterator[None]:
    """Ignore SIGINT, as what a shell starts with `&` does; child processes inherit that."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("in_the_background")
def test_a_mutant_that_hangs_is_killed_and_its_tests_end_what_they_started(
    repository: Path, tests: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = module.SUITES[0]
    monkeypatch.setattr(module, "SUITES", (replace(suite, seconds=8),))
    tests(
        "import pathlib\nimport time\nimport pytest\nfrom ops.code import larger\n\n"
        "@pytest.fixture\ndef server():\n    yield\n    pathlib.Path('ended').touch()\n\n"
        "def test_first(server):\n    while not larger(2, 1):\n        time.sleep(0.1)\n"
    )
    mutant = next(each for each in mutants(repository, "ops") if each.operator == "None returned")
    assert is_killed(repository, mutant, ["tests/unit"])
    assert (repository / "ended").exists()
