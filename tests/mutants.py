"""Change single expressions of the product and check that a test fails: `python -m tests.mutants --help`.

File, line text and operator identify a mutant, so that the same mutants can be tried on another state of the
repository. Tests that execute the mutant's line are run, quickest first, until one fails. For a line that executes at
import, these are the tests that execute any function of the module. What survives them is tried with all tests: a line
that a shared fixture executes is recorded for the first of the fixture's tests only.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

PACKAGES: Final = ("handlers", "config", "k8s_charts", "stacks", "ops")
TIERS: Final = ("tests/unit", "tests/charts", "tests/handlers", "tests/synth")
# Without plugins that change the order, and without a cache beside the copy.
PYTEST: Final = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
NOT_COPIED: Final = (
    ".git",
    ".rehearsal",
    ".venv*",
    "node_modules",
    "cdk.out",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
)
LINKED: Final = (".venv", ".venv-policies", "node_modules")
LIMIT_SECONDS: Final = 900
"""Limit for one run of tests with a mutant, so that a hanging mutant is noticed, too."""

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], str]]] = {
    ast.Eq: (ast.NotEq, "== to !="),
    ast.NotEq: (ast.Eq, "!= to =="),
    ast.Lt: (ast.LtE, "< to <="),
    ast.LtE: (ast.Lt, "<= to <"),
    ast.Gt: (ast.GtE, "> to >="),
    ast.GtE: (ast.Gt, ">= to >"),
    ast.In: (ast.NotIn, "in to not in"),
    ast.NotIn: (ast.In, "not in to in"),
    ast.Is: (ast.IsNot, "is to is not"),
    ast.IsNot: (ast.Is, "is not to is"),
}

# A pytest plugin for the copy: records which tests execute which of the given lines, and how long each test takes.
RECORDER: Final = """
import json, os, sys, threading
import pytest

wanted = {file: set(lines) for file, lines in json.loads(os.environ["MUTANTS_LINES"]).items()}
touched, seconds, failed, running = {}, {}, set(), [None]

def local(frame, event, argument):
    file, line = frame.f_code.co_filename, frame.f_lineno
    if event == "line" and line in wanted[file]:
        touched.setdefault(f"{file}:{line}", set()).add(running[0])
    return local

def trace(frame, event, argument):
    file = frame.f_code.co_filename
    if file not in wanted:
        return None
    touched.setdefault(file, set()).add(running[0])
    return local

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    running[0] = item.nodeid
    sys.settrace(trace)
    threading.settrace(trace)
    yield
    sys.settrace(None)
    threading.settrace(None)

def pytest_runtest_logreport(report):
    seconds[report.nodeid] = seconds.get(report.nodeid, 0) + report.duration
    if report.failed:
        failed.add(report.nodeid)

def pytest_sessionfinish():
    found = {place: {test: seconds[test] for test in tests - {None} - failed} for place, tests in touched.items()}
    with open(os.environ["MUTANTS_FOUND"], "w") as file:
        json.dump({"touched": found, "failed": sorted(failed)}, file)
"""


@dataclass(frozen=True)
class Mutant:
    """One changed expression; `text` is the original line, `column` the expression's first column."""

    file: str
    line: int
    column: int
    text: str
    operator: str
    before: str
    after: str

    def name(self) -> str:
        """Return the mutant in one line."""
        return f"{self.file}:{self.line} {self.operator}: {self.text.strip()}"


def mutants(repository: Path, package: str) -> list[Mutant]:
    """Return every mutant of a package."""
    found = []
    for path in sorted((repository / package).rglob("*.py")):
        source = path.read_text()
        lines = source.splitlines()
        for node, changed, operator in _changes(ast.parse(source)):
            text = lines[node.lineno - 1]
            # One line only, because its text identifies the mutant. ASCII only, because ast counts bytes.
            if node.lineno == node.end_lineno and text.isascii():
                before = text[node.col_offset : node.end_col_offset]
                place = (str(path.relative_to(repository)), node.lineno, node.col_offset, text)
                found.append(Mutant(*place, operator, before, ast.unparse(changed)))
    return found


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr, str]]:
    """Yield each expression with its replacement and the operator's name."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=compared):
                other, name = _COMPARISONS[type(operator)]
                yield node, ast.Compare(left, [other()], compared), name
            case ast.BoolOp(op=ast.And(), values=values):
                yield node, ast.BoolOp(ast.Or(), values), "and to or"
            case ast.BoolOp(op=ast.Or(), values=values):
                yield node, ast.BoolOp(ast.And(), values), "or to and"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield node, operand, "not taken away"
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                yield node, ast.BinOp(left, ast.Sub(), right), "+ to -"
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                yield node, ast.BinOp(left, ast.Add(), right), "- to +"
            case ast.Constant(value=bool(value)):
                yield node, ast.Constant(not value), f"{value} to {not value}"
            case ast.Constant(value=int(value)):
                yield node, ast.Constant(value + 1), "one more"
            case ast.Return(value=ast.expr() as returned) if not isinstance(returned, ast.Constant):
                yield returned, ast.Constant(None), "None returned"


def sample(repository: Path, count: int, seed: int) -> list[Mutant]:
    """Draw `count` mutants in total, equally many from each package."""
    drawing = random.Random(seed)  # noqa: S311 (tests, not secrets)
    return [
        each for package in PACKAGES for each in drawing.sample(mutants(repository, package), count // len(PACKAGES))
    ]


def found_again(repository: Path, wanted: Sequence[Mutant]) -> list[Mutant]:
    """Return the mutants whose line also exists in `repository`, with their line numbers there."""
    there = {
        (each.file, each.text, each.column, each.operator): each
        for package in PACKAGES
        for each in mutants(repository, package)
    }
    keys = [(each.file, each.text, each.column, each.operator) for each in wanted]
    return [there[key] for key in keys if key in there]


def copy(repository: Path, directory: Path) -> Path:
    """Copy the files that the tests need, link installed packages, and return the copy's folder."""
    target = directory / "copy"
    shutil.copytree(repository, target, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
    for name in LINKED:
        if (repository / name).exists():
            (target / name).symlink_to((repository / name).resolve())
    (target / ".rehearsal").mkdir()
    if (repository / ".rehearsal" / "cache").exists():
        (target / ".rehearsal" / "cache").symlink_to(repository / ".rehearsal" / "cache")
    # Some tests ask git for the list of files.
    for words in (("init", "--quiet"), ("add", "--all", "--force", ":!.venv", ":!node_modules", ":!.rehearsal")):
        subprocess.run(["git", *words], cwd=target, check=True, capture_output=True)  # noqa: S607
    return target


def touching(repository: Path, wanted: Sequence[Mutant]) -> tuple[dict[Mutant, list[str]], list[str]]:
    """Run all tests once; map each mutant to the tests that execute its line, quickest first.

    Also return the tests that fail without a mutant. They are left out: they would kill every mutant.
    """
    lines: dict[str, list[int]] = {}
    for each in wanted:
        lines.setdefault(str(repository / each.file), []).append(each.line)
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "mutants_recorder.py").write_text(RECORDER)
        found = Path(scratch) / "found.json"
        given = {"MUTANTS_LINES": json.dumps(lines), "MUTANTS_FOUND": str(found)}
        known: dict[str, dict[str, float]] = {}
        failed: list[str] = []
        # One process for each tier: a single process for all tiers would keep 6 GB of constructs.
        for tier in TIERS:
            _pytest(repository, "-p", "mutants_recorder", tier, extra=given, path=scratch)
            recorded = json.loads(found.read_text())
            failed += recorded["failed"]
            for place, seconds in recorded["touched"].items():
                known.setdefault(place, {}).update(seconds)
    places = {each: str(repository / each.file) for each in wanted}
    touched = {each: known.get(f"{place}:{each.line}") or known.get(place, {}) for each, place in places.items()}
    return {each: sorted(seconds, key=lambda test: seconds[test]) for each, seconds in touched.items()}, failed


def is_killed(repository: Path, mutant: Mutant, *runs: Sequence[str]) -> bool:
    """Return whether one of pytest's runs, given by their arguments, fails or hangs on the mutant."""
    file = repository / mutant.file
    source = file.read_text()
    lines = source.splitlines(keepends=True)
    text = lines[mutant.line - 1]
    start, end = mutant.column, mutant.column + len(mutant.before)
    lines[mutant.line - 1] = f"{text[:start]}({mutant.after}){text[end:]}"
    file.write_text("".join(lines))
    try:
        return any(_pytest(repository, "-x", *run, seconds=LIMIT_SECONDS) != 0 for run in runs)
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(source)


def _pytest(
    repository: Path,
    *arguments: str,
    extra: dict[str, str] | None = None,
    path: str = "",
    seconds: float | None = None,
) -> int:
    own = {"PYTHONPATH": os.pathsep.join([path, str(repository)]).lstrip(os.pathsep), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [str(repository / ".venv" / "bin" / "python"), *PYTEST, *arguments]
    env = os.environ | own | (extra or {})
    return subprocess.run(
        argv, cwd=repository, env=env, check=False, timeout=seconds, stdout=subprocess.DEVNULL
    ).returncode


def main(words: Sequence[str]) -> int:
    """Try the mutants, and print each with its outcome. Return exit code 1 unless all were killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--repository", type=Path, default=Path(__file__).parents[1], help="the state to be tried")
    parser.add_argument("--drawn-from", type=Path, help="the state whose mutants are taken; without it the same")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="write what became of each to this JSON file")
    given = parser.parse_args(words)
    repository, drawn_from = given.repository.resolve(), (given.drawn_from or given.repository).resolve()
    wanted = found_again(repository, sample(drawn_from, given.count, given.seed))
    outcomes = []
    with tempfile.TemporaryDirectory() as scratch:
        target = copy(repository, Path(scratch))
        recorded, failed = touching(target, wanted)
        for test in failed:
            print(f"fails without a mutant, left out: {test}", file=sys.stderr, flush=True)
        left_out = [f"--deselect={test}" for test in failed]
        for mutant, tests in recorded.items():
            runs = [[*tests], *([*left_out, tier] for tier in TIERS)] if tests else []
            outcome = "not run" if not tests else "killed" if is_killed(target, mutant, *runs) else "survived"
            outcomes.append(asdict(mutant) | {"outcome": outcome, "tests": len(tests)})
            print(f"{outcome:8} {len(tests):4} tests  {mutant.name()}", flush=True)
    if given.record:
        given.record.write_text(json.dumps(outcomes, indent=1))
    print(f"{sum(each['outcome'] == 'killed' for each in outcomes)} of {len(outcomes)} killed")
    return int(any(each["outcome"] != "killed" for each in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
