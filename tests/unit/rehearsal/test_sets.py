"""The page of what ran with each set of versions, with pretended runs."""

from pathlib import Path

import pytest

from config.facts import versions
from embedded_account.machine.processes import ProcessError
from rehearsal import sets
from rehearsal.paths import REPOSITORY

TESTED = """
ss........
SKIPPED [1] tests/jobs/test_gpu.py:1: needs a GPU
= 1204 passed, 31 skipped, 802 deselected, 3 warnings in 812.34s (0:13:32) =
"""


@pytest.fixture(autouse=True)
def kept_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sets, "PAGE", tmp_path / "page.md")
    return tmp_path / "page.md"


def test_each_set_runs_the_tests_and_the_rehearsal() -> None:
    asked: list[tuple[str, str]] = []

    def make(target: str, name: str) -> tuple[int, str]:
        asked.append((target, name))
        return 0, TESTED

    shown: list[str] = []
    assert sets.prove((), make, shown.append) == 0
    assert asked == [(target, name) for name in versions.SETS for target in ("test-jobs", "rehearse-job")]
    assert shown == ["all succeeded"]


def test_the_page_keeps_what_another_run_found_and_names_what_failed(kept_page: Path) -> None:
    shown: list[str] = []
    assert sets.prove(["current"], lambda target, _: (0, TESTED if target == "test-jobs" else ""), shown.append) == 0
    assert sets.prove(["fixed"], lambda target, _: (target == "rehearse-job", TESTED), shown.append) == 1
    assert shown == ["all succeeded", "failed: make rehearse-job ROW=fixed"]
    lines = kept_page.read_text().splitlines()
    assert "| | `fixed` | `current` |" in lines
    assert "| Ray | 2.56.1, ran | 2.60.0, ran |" in lines
    assert "| KubeRay | 1.2.0, failed | 1.6.2, ran |" in lines
    assert "| EFA installer | 1.47.0, unverified | 1.47.0, unverified |" in lines
    assert "| `make test-jobs` | 1204 passed, 31 skipped in 0 s | 1204 passed, 31 skipped in 0 s |" in lines
    assert "| `make rehearse-job` | failed | passed in 0 s |" in lines


@pytest.mark.parametrize("line", ["1204 passed, 31 skipped, 802 deselected in 812.34s (0:13:32)", TESTED])
def test_pytest_s_own_line_is_read(line: str) -> None:
    assert sets.result(0, line, 815.2) == "1204 passed, 31 skipped in 815 s"
    assert sets.result(1, line, 815.2) == "failed"


def test_an_unknown_set_is_refused_before_anything_runs(kept_page: Path) -> None:
    with pytest.raises(ProcessError, match=r"NAME: newest is invalid: .* Allowed: walkthrough, fixed, current\. Fix: "):
        sets.prove(["current", "newest"], lambda *_: (0, ""), lambda _: None)
    assert not kept_page.exists()


def test_a_seed_chooses_one_other_set_for_a_few_tests_and_writes_no_page(kept_page: Path) -> None:
    asked: list[tuple[str, ...]] = []

    def make(*words: str) -> tuple[int, str]:
        asked.append(words)
        return 1, ""

    assert {sets.sample(seed, make, lambda _: None) for seed in [*range(20), *range(20)]} == {1}
    assert asked[:20] == asked[20:], "the seed alone decides"
    assert {name for _, name, _ in asked} == {*versions.SETS} - {versions.SET_DEFAULT}
    [(target, tests)] = {(target, tests) for target, _, tests in asked}
    assert target == "test-jobs"
    assert all((REPOSITORY / "tests" / "jobs" / file).is_file() for file in tests.removeprefix("NAME=").split())
    assert not kept_page.exists()
