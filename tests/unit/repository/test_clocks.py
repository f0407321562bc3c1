"""No test's outcome depends on how long after its import it runs: a tier of tests can take an hour."""

import ast
import subprocess
from collections.abc import Iterator

import pytest

from tests.tiers import REPOSITORY

CLOCKS = {"now", "utcnow", "today", "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter"}
FAR_AWAY = {"tests/support/approving.py": "a date a month ahead"}


def read_at_import(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of a clock that run with the module: not in a function's body, but in its defaults."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Lambda):
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in (*child.decorator_list, child.args):
                yield from read_at_import(part)
            continue
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr in CLOCKS:
            yield child
        yield from read_at_import(child)


def modules() -> list[str]:
    argv = ["git", "ls-files", "-z", "tests/*.py", "packages/*/tests/*.py"]
    return subprocess.check_output(argv, cwd=REPOSITORY, text=True).split("\0")[:-1]


def test_modules_of_tests_read_no_clock() -> None:
    found = {
        f"{path}:{call.lineno}"
        for path in modules()
        for call in read_at_import(ast.parse((REPOSITORY / path).read_text()))
        if path not in FAR_AWAY
    }
    assert not found


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("NOW = time.time()", True),
        ("NOW = datetime.now(UTC).replace(microsecond=0)", True),
        ("def f(at=time.time()): pass", True),
        ("@pytest.mark.parametrize('x', [date.today()])\ndef test(x): pass", True),
        ("class A:\n    at = time.monotonic()", True),
        ("def f(): return time.time()", False),
        ("f = lambda: time.time()", False),
        ("at = datetime(2026, 1, 1)", False),
    ],
)
def test_a_clock_that_is_read_with_the_module_is_found(text: str, is_found: bool) -> None:
    assert bool(list(read_at_import(ast.parse(text)))) == is_found
