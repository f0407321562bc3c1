"""The tests that a change needs: unknown paths run everything."""

import ast
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import tiers
from tests.conftest import LONGEST, WITH_OPERATOR, WITHOUT_OPERATOR
from tests.tiers import APART, PRODUCT, REHEARSED, REPOSITORY, Scope, scope_of

PACKAGES = ("controllers", "handlers", "k8s_charts", "ops", "stacks")
# Files that import the product, but prove only that the rehearsal works.
OF_THE_REHEARSAL = {
    "tests/rehearsal/drills/test_cluster_context.py": "shows that a broken product fails the drills",
    "tests/rehearsal/run/test_bad_input.py": "shows how a rehearsal refuses; tests/unit has the words of ops",
}
REHEARSAL_TESTS = sorted((REPOSITORY / "tests" / "rehearsal").rglob("*.py"))


@pytest.mark.parametrize(
    ("changed", "scope"),
    [
        ([], Scope.NONE),
        (["docs/explain/isolation.md", "README.md", "tests/unit/repository/test_docs.py"], Scope.NONE),
        (["environments/dev.yaml", "manifests/dev/ray/volume.yaml"], Scope.NONE),
        (["tests/environments/dev.yaml"], Scope.PRODUCT),
        (["docs/explain/isolation.md", "k8s_charts/controllers/reaper.py"], Scope.PRODUCT),
        (["tests/charts/support/facts.py"], Scope.PRODUCT),
        (
            ["k8s_charts/controllers/reaper.py", "packages/embedded-account/embedded_account/machine/processes.py"],
            Scope.ALL,
        ),
        (["tests/rehearsal/kubernetes/test_reaper.py"], Scope.REHEARSAL),
        (["tests/support/waiting.py"], Scope.REHEARSAL),
        (["rehearsal/watch.py", "k8s_charts/controllers/reaper.py"], Scope.REHEARSAL),
        (["rehearsal/watch.py", "packages/embedded-account/tests/test_processes.py"], Scope.ALL),
        (["requirements.txt"], Scope.ALL),
        (["something/new.py"], Scope.ALL),
    ],
)
def test_what_changed_decides_and_the_unknown_runs_everything(changed: list[str], scope: Scope) -> None:
    assert scope_of(changed) is scope


def test_temporary_files_go_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tiers, "ROOM", 1)
    assert tiers.temporary_files(tmp_path) == {"TMPDIR": str(tmp_path)}
    assert tiers.temporary_files(tmp_path / "absent") == {}
    monkeypatch.setattr(tiers, "ROOM", 2**60)
    assert tiers.temporary_files(tmp_path) == {}
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert tiers.temporary_files(tmp_path) == {}


def test_temporary_files_stay_where_programs_may_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    there = SimpleNamespace(f_flag=os.ST_NOEXEC, f_bavail=2**40, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: there)
    assert tiers.temporary_files(tmp_path) == {}


def test_without_a_main_branch_everything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "changed_paths", lambda: None)
    scope, reason = tiers.choose()
    assert scope is Scope.ALL
    assert "every test runs" in reason


@pytest.mark.parametrize("changed", ["docs/index.md", "ops/readiness/wait.py", "rehearsal/watch.py"])
def test_skipped_tests_are_reported_with_the_command_that_runs_them(
    monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    monkeypatch.setattr(tiers, "changed_paths", lambda: ("0123456789abcdef", [changed]))
    _, reason = tiers.choose()
    assert "Skipped: " in reason
    assert "make test ALL=1" in reason


def test_changes_are_those_since_the_branch_left_main_and_those_not_committed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def git(*arguments: str) -> None:
        argv = ["git", "-C", str(tmp_path), "-c", "user.name=ann", "-c", "user.email=ann@example.com", *arguments]
        subprocess.run(argv, check=True, capture_output=True)

    def write(*names: str) -> None:
        for name in names:
            (tmp_path / name).write_text(name)

    git("init", "--initial-branch=main")
    write("kept", "changed", "moved")
    git("add", ".")
    git("commit", "--message=first")
    git("checkout", "-b", "work")
    git("mv", "moved", "elsewhere")
    git("commit", "--message=second")
    (tmp_path / "changed").write_text("otherwise")
    write("new")
    monkeypatch.setattr(tiers, "REPOSITORY", tmp_path)
    found = tiers.changed_paths()
    assert found is not None
    assert set(found[1]) == {"moved", "elsewhere", "changed", "new"}


def test_a_tier_is_a_folder_of_tests() -> None:
    folders = {path.name for path in (REPOSITORY / "tests").iterdir() if (path / "__init__.py").exists()}
    assert folders - {"messages", "support"} == {*tiers.PROJECT_TIERS, "jobs"}


def test_paths_of_the_lists_exist() -> None:
    assert [path for path in (*PRODUCT, *REHEARSED, *APART, *LONGEST) if not (REPOSITORY / path).exists()] == []


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("file", REHEARSAL_TESTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_tests_that_import_the_product_have_its_marker(file: Path) -> None:
    """Only tests with the marker run when only the product changed."""
    name = str(file.relative_to(REPOSITORY))
    uses = {module for module in imported(file) if module.split(".")[0] in PACKAGES}
    if uses and file.name.startswith("test_") and name not in OF_THE_REHEARSAL:
        assert "mark.product" in file.read_text(), f"imports {sorted(uses)}"


@pytest.mark.parametrize("file", REHEARSAL_TESTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_helpers_that_the_rehearsals_tests_import_count_as_a_change(file: Path) -> None:
    for module in imported(file):
        path = f"{module.replace('.', '/')}.py"
        if module.startswith("tests.") and (REPOSITORY / path).exists():
            assert scope_of([path]) is not Scope.NONE, path


@pytest.mark.parametrize(
    ("words", "scope", "ran"),
    [
        (["--all"], Scope.NONE, [("unit charts handlers synth rehearsal", ""), ("embedded-account", "")]),
        (["--tier", "synth"], Scope.ALL, [("synth", "")]),
        (["--tier", "embedded-account"], Scope.NONE, [("embedded-account", "")]),
        ([], Scope.NONE, [("unit charts handlers synth", "")]),
        ([], Scope.PRODUCT, [("unit charts handlers synth", ""), ("rehearsal", "product and not readme and not long")]),
        ([], Scope.REHEARSAL, [("unit charts handlers synth rehearsal", "")]),
        ([], Scope.ALL, [("unit charts handlers synth rehearsal", ""), ("embedded-account", "")]),
    ],
)
def test_arguments_and_changes_decide_which_tests_run(
    monkeypatch: pytest.MonkeyPatch, words: list[str], scope: Scope, ran: list[tuple[str, str]]
) -> None:
    runs: list[tuple[str, str]] = []

    def run(folders: Sequence[str], *options: str) -> bool:
        runs.append((" ".join(folders), options[-1] if options else ""))
        return True

    monkeypatch.setattr(tiers, "choose", lambda: (scope, "because"))
    monkeypatch.setattr(tiers, "run", run)
    assert tiers.main(words) == 0
    assert runs == ran


def test_a_failure_of_the_first_tests_sets_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "choose", lambda: (Scope.PRODUCT, "because"))
    monkeypatch.setattr(tiers, "run", lambda folders, *_: folders == ["rehearsal"])
    assert tiers.main([]) == 1
    monkeypatch.setattr(tiers, "choose", lambda: (Scope.ALL, "because"))
    monkeypatch.setattr(tiers, "run", lambda folders, *_: folders == [tiers.PACKAGE])
    assert tiers.main([]) == 1


def test_the_package_is_tested_from_its_own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Path, str]] = []

    def started(argv: list[str], *, cwd: Path, check: bool, env: Any) -> subprocess.CompletedProcess[bytes]:
        seen.append((cwd.relative_to(REPOSITORY), argv[-1]))
        assert env["PATH"] == os.environ["PATH"]
        return subprocess.CompletedProcess(argv, 0)

    monkeypatch.setattr(subprocess, "run", started)
    assert tiers.run(["unit"])
    assert tiers.run([tiers.PACKAGE])
    assert seen == [(Path(), "tests/unit"), (Path("packages/embedded-account"), "tests")]


def test_one_worker_gets_exactly_the_files_that_share_a_control_plane() -> None:
    requested = {str(file.relative_to(REPOSITORY)): shared_fixtures_of(file) for file in REHEARSAL_TESTS}
    assert {file for file, fixtures in requested.items() if "operator" in fixtures} == WITH_OPERATOR
    assert {file for file, fixtures in requested.items() if fixtures} == WITH_OPERATOR | WITHOUT_OPERATOR


def shared_fixtures_of(file: Path) -> set[str]:
    """Return those fixtures of the session's control plane that a file's tests and fixtures request."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    fixtures = [node for node in functions if any("fixture" in ast.unparse(each) for each in node.decorator_list)]
    tests = [node for node in functions if node.name.startswith("test_")]
    used = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("usefixtures")]
    requested = {each.arg for node in (*tests, *fixtures) for each in node.args.args}
    requested |= {str(ast.literal_eval(each)) for node in used for each in node.args}
    has_its_own = any(node.name == "control_plane" for node in fixtures)
    return set() if has_its_own or not tests else requested & {"control_plane", "kubectl", "nodes", "operator"}
