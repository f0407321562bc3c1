"""Change single expressions of the product and check that a test fails: `python -m tests.mutants --help`.

File, line text and operator identify a mutant, so that the same mutants can be tried on another state of the
repository. Tests that execute the mutant's line are run, quickest first, until one fails. For a line that executes at
import, these are the tests that execute any function of the module. Then follow the tests whose child processes import
the module, as a controller's or a job's. What survives them is tried with all tests: a line that a shared fixture
executes is recorded for the first of the fixture's tests only.

While tests are recorded, each file has further lines. A test that fails because of them, as one that compares the code
with a snapshot, would fail with any mutant: it is left out.
"""

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True)
class Suite:
    """Packages, the tests that try their mutants, and the Python environment of these tests.

    A run of tests with a mutant that takes longer than `seconds` hangs.
    """

    packages: tuple[str, ...]
    tiers: tuple[str, ...]
    environment: str
    seconds: float


SUITES: Final = (
    Suite(
        ("handlers", "controllers", "lifecycle_scripts", "config", "k8s_charts", "stacks", "ops"),
        ("tests/unit", "tests/charts", "tests/handlers", "tests/synth"),
        ".venv",
        seconds=900,
    ),
    Suite(("ray_jobs", "packages/ray-resume"), ("tests/jobs",), ".venv-jobs", seconds=7200),
)
PACKAGES: Final = tuple(package for suite in SUITES for package in suite.packages)
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
LINKED: Final = (".venv", ".venv-jobs", ".venv-policies", "node_modules")
LAST_SECONDS: Final = 60
"""How long the tests of a hanging mutant may take to end the processes that they started."""

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
imported = os.environ["MUTANTS_IMPORTED"]

def run(test):
    running[0] = test
    with open(f"{imported}.running", "w") as file:
        file.write(test or "")

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
    run(item.nodeid)
    sys.settrace(trace)
    threading.settrace(trace)
    yield
    sys.settrace(None)
    threading.settrace(None)
    run(None)

def pytest_runtest_logreport(report):
    seconds[report.nodeid] = seconds.get(report.nodeid, 0) + report.duration
    if report.failed:
        failed.add(report.nodeid)

def pytest_sessionfinish():
    for line in open(imported).read().splitlines() if os.path.exists(imported) else ():
        file, _, test = line.partition("\\t")
        if test in seconds:
            touched.setdefault(f"{file}:imported", set()).add(test)
    found = {place: {test: seconds[test] for test in tests - {None} - failed} for place, tests in touched.items()}
    with open(os.environ["MUTANTS_FOUND"], "w") as file:
        json.dump({"touched": found, "failed": sorted(failed)}, file)
"""

IMPORTED: Final = """
def _imported():
    try:
        with open({imported!r} + ".running") as running, open({imported!r}, "a") as file:
            file.write({file!r} + "\\t" + running.read() + "\\n")
    except OSError:
        pass


_imported()
"""
"""What a file has at its end while tests are recorded, in the syntax of any Python: a child notes its test."""


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


def sample(repository: Path, count: int, seed: int, packages: Sequence[str] = PACKAGES) -> list[Mutant]:
    """Draw `count` mutants in total, equally many from each package."""
    drawing = random.Random(seed)  # noqa: S311 (tests, not secrets)
    return [
        each for package in packages for each in drawing.sample(mutants(repository, package), count // len(packages))
    ]


def suite_of(mutant: Mutant) -> Suite:
    """Return the suite of a mutant's package."""
    return next(suite for suite in SUITES if mutant.file.startswith(tuple(f"{each}/" for each in suite.packages)))


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
    touched: dict[Mutant, list[str]] = {}
    failed: list[str] = []
    for suite in SUITES:
        if theirs := [each for each in wanted if suite_of(each) is suite]:
            found, failures = _recorded(repository, suite, theirs)
            failed += failures
            touched |= {each: _in_order(found, str(repository / each.file), each.line) for each in theirs}
    return {each: touched[each] for each in wanted}, failed


def _in_order(found: dict[str, dict[str, float]], file: str, line: int) -> list[str]:
    """Return the tests that execute a line, quickest first, then those whose processes import its file."""
    here = found.get(f"{file}:{line}") or found.get(file, {})
    there = {test: seconds for test, seconds in found.get(f"{file}:imported", {}).items() if test not in here}
    return [test for tests in (here, there) for test in sorted(tests, key=lambda test: tests[test])]


def _recorded(
    repository: Path, suite: Suite, wanted: Sequence[Mutant]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Run a suite's tests; return the seconds of tests by the place that they execute, and the tests that fail."""
    lines: dict[str, list[int]] = {}
    for each in wanted:
        lines.setdefault(str(repository / each.file), []).append(each.line)
    known: dict[str, dict[str, float]] = {}
    failed: list[str] = []
    sources = {file: Path(file).read_text() for file in lines}
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "mutants_recorder.py").write_text(RECORDER)
        found, imported = Path(scratch) / "found.json", f"{scratch}/imported"
        given = {"MUTANTS_LINES": json.dumps(lines), "MUTANTS_FOUND": str(found), "MUTANTS_IMPORTED": imported}
        try:
            for file, source in sources.items():
                # A program ends in its last lines.
                module, main, program = source.partition('\nif __name__ == "__main__":\n')
                note = IMPORTED.format(imported=imported, file=file)
                Path(file).write_text(f"{module}\n{note}{main}{program}")
            # One process for each tier: a single process for all tiers would keep 6 GB of constructs.
            for tier in suite.tiers:
                _pytest(repository, suite, "-p", "mutants_recorder", tier, extra=given, path=scratch)
                recorded = json.loads(found.read_text())
                failed += recorded["failed"]
                for place, seconds in recorded["touched"].items():
                    known.setdefault(place, {}).update(seconds)
        finally:
            for file, source in sources.items():
                Path(file).write_text(source)
    return known, failed


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
        suite = suite_of(mutant)
        return any(_pytest(repository, suite, "-x", *run, seconds=suite.seconds) != 0 for run in runs)
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(source)


def _pytest(
    repository: Path,
    suite: Suite,
    *arguments: str,
    extra: dict[str, str] | None = None,
    path: str = "",
    seconds: float | None = None,
) -> int:
    own = {"PYTHONPATH": os.pathsep.join([path, str(repository)]).lstrip(os.pathsep), "PYTHONDONTWRITEBYTECODE": "1"}
    # A shell lets what it starts in the background ignore SIGINT, and so would pytest.
    program = ["/usr/bin/env", "--default-signal=INT", str(repository / suite.environment / "bin" / "python")]
    argv = [*program, *PYTEST, *arguments]
    env = os.environ | own | (extra or {})
    with subprocess.Popen(argv, cwd=repository, env=env, stdout=subprocess.DEVNULL) as run:
        try:
            return run.wait(seconds)
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                run.wait(LAST_SECONDS)
            run.kill()
            raise


def main(words: Sequence[str]) -> int:
    """Try the mutants, and print each with its outcome. Return exit code 1 unless all were killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--repository", type=Path, default=Path(__file__).parents[1], help="the state to be tried")
    parser.add_argument("--drawn-from", type=Path, help="the state whose mutants are taken; without it the same")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--package", action="append", choices=PACKAGES, help="draw from this package; repeatable")
    parser.add_argument("--record", type=Path, help="write what became of each to this JSON file")
    given = parser.parse_args(words)
    repository, drawn_from = given.repository.resolve(), (given.drawn_from or given.repository).resolve()
    wanted = found_again(repository, sample(drawn_from, given.count, given.seed, given.package or PACKAGES))
    outcomes = []
    with tempfile.TemporaryDirectory() as scratch:
        target = copy(repository, Path(scratch))
        recorded, failed = touching(target, wanted)
        for test in failed:
            print(f"fails without a mutant, left out: {test}", file=sys.stderr, flush=True)
        left_out = [f"--deselect={test}" for test in failed]
        for mutant, tests in recorded.items():
            runs = [[*tests], *([*left_out, tier] for tier in suite_of(mutant).tiers)] if tests else []
            outcome = "not run" if not tests else "killed" if is_killed(target, mutant, *runs) else "survived"
            outcomes.append(asdict(mutant) | {"outcome": outcome, "tests": len(tests)})
            print(f"{outcome:8} {len(tests):4} tests  {mutant.name()}", flush=True)
    if given.record:
        given.record.write_text(json.dumps(outcomes, indent=1))
    print(f"{sum(each['outcome'] == 'killed' for each in outcomes)} of {len(outcomes)} killed")
    return int(any(each["outcome"] != "killed" for each in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
