"""A run that skips a test without permission fails; the permissions are few, and each names tests that exist."""

import os
from fnmatch import fnmatchcase

import pytest

from embedded_account.testing.runs.skips import PermittedSkips
from rehearsal.paths import REPOSITORY
from tests import skips

pytest_plugins = ("pytester",)

CONFTEST = """
import pytest
from embedded_account.testing.runs.skips import PermittedSkips, Skips
pytest_plugins = ("tests.support.sampling",)

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips([
            PermittedSkips("test_cases.py::test_listed*", "no disk", "the nightly run has one"),
            PermittedSkips("test_cases.py::test_elsewhere", "*", "never here", here=False),
            PermittedSkips("test_whole.py", "no *", "the nightly run has one"),
        ]))
"""
INI = """
[pytest]
markers = long: wide
    sampled: some
addopts = -p no:cacheprovider -m 'not long'
"""
TESTS = """
import pytest

@pytest.fixture
def disk(): pytest.skip("no disk")

def test_runs(): pass

@pytest.mark.parametrize("case", range(2))
def test_listed(disk, case): pass
"""
WITHOUT_PERMISSION = """
import unittest

@pytest.mark.skip(reason="later")
def test_by_a_mark(): pass

@pytest.mark.skipif(True, reason="no root")
def test_by_a_condition(): pass

def test_listed_for_another_reason(): pytest.skip("no network")

def test_by_an_import(): pytest.importorskip("no_such_module")

def test_elsewhere(): pytest.skip("listed for other machines only")

class TestUnittest(unittest.TestCase):
    def test_it(self): self.skipTest("later")
"""
WITHOUT_A_GAP = {"tests/unit/slurm_scripts/*"}
"""Permissions for cases whose promise other cases of the same run hold."""
MODULE = "import pytest\npytest.skip('{}', allow_module_level=True)"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    roots = (REPOSITORY, REPOSITORY / "packages/embedded-account")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, roots)))
    pytester.makeconftest(CONFTEST)
    pytester.makefile(".ini", pytest=INI)
    return pytester


@pytest.mark.parametrize("workers", ["0", "2"])
def test_listed_skips_are_counted_and_green(run: pytest.Pytester, workers: str) -> None:
    run.makepyfile(test_cases=TESTS, test_whole=MODULE.format("no disk"))
    result = run.runpytest_subprocess("-n", workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines_random(
        [
            "*3 skipped, 0 of them without permission*",
            "2 allowed: test_cases.py::test_listed[*] (the nightly run has one)",
            "1 allowed: test_whole.py (the nightly run has one)",
        ]
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_every_other_skip_fails_the_run_and_is_named(run: pytest.Pytester, workers: str) -> None:
    run.makepyfile(test_cases=TESTS + WITHOUT_PERMISSION, test_whole=MODULE.format("later"))
    result = run.runpytest_subprocess("-n", workers)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*9 skipped, 7 of them without permission*"])
    named = {line.split()[1] for line in result.stdout.lines if line.startswith("error: ")}
    names = ("by_a_mark", "by_a_condition", "listed_for_another_reason", "by_an_import", "elsewhere")
    tests = {f"test_cases.py::test_{name}" for name in names} | {"test_cases.py::TestUnittest::test_it"}
    assert named == tests | {"test_whole.py"}


def test_run_of_nothing_but_skips_fails(run: pytest.Pytester) -> None:
    run.makepyfile(test_whole=MODULE.format("later"))
    assert run.runpytest_subprocess().ret == 1


def test_deselected_cases_and_expected_failures_are_no_skips(run: pytest.Pytester) -> None:
    more = """
@pytest.mark.long
def test_wide(): pytest.skip("never")

@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", range(5))
def test_some(case): pass

@pytest.mark.xfail(reason="known")
def test_known(): assert False
"""
    run.makepyfile(test_cases=f"{TESTS}\n{more}")
    result = run.runpytest_subprocess()
    assert result.ret == 0
    result.assert_outcomes(passed=2, skipped=2, xfailed=1, deselected=5)


def test_failures_stay_failures(run: pytest.Pytester) -> None:
    run.makepyfile(test_cases="import pytest\ndef test_a(): assert False\ndef test_b(): pytest.skip('later')")
    assert run.runpytest_subprocess().ret == 1


def test_both_suites_refuse_skips() -> None:
    for conftest in ("tests/conftest.py", "packages/embedded-account/tests/conftest.py"):
        assert "register(Skips(" in (REPOSITORY / conftest).read_text()


@pytest.mark.parametrize("permission", skips.allowed(), ids=lambda each: f"{each.tests} {each.reason}")
def test_permission_names_tests_that_exist(permission: PermittedSkips) -> None:
    files, _, test = permission.tests.partition("::")
    found = [
        path for path in REPOSITORY.glob("tests/**/test_*.py") if fnmatchcase(str(path.relative_to(REPOSITORY)), files)
    ]
    assert found
    assert not test or f"def {test.rstrip('*')}(" in found[0].read_text()


def test_ci_allows_only_what_its_machines_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(skips.STRICT, "1")
    monkeypatch.setattr("os.geteuid", lambda: 1001)
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"ID": "ubuntu", "VERSION_ID": "24.04"})
    assert {each.tests for each in skips.allowed() if each.here} == {
        "tests/rehearsal/slurm/*",
        "tests/jobs/test_slurm_jobs.py*",
        f"{skips.OWNERS}*",
        f"{skips.FULL_DISK}*",
        *WITHOUT_A_GAP,
    }


def test_debian_as_root_runs_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(skips.STRICT, "1")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"ID": "debian", "VERSION_ID": "12"})
    assert {each.tests for each in skips.allowed() if each.here} == WITHOUT_A_GAP
