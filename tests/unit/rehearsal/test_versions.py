"""The page of what ran with each KubeRay, with pretended runs."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from config import load
from config.facts import versions
from embedded_account.kubernetes.building.binaries import BinariesError
from rehearsal import versions as rehearsed
from rehearsal.drills.table import DRILLS

DRILLED = """
✔ promise kept node-dies in 57 s

✘ promise broken head-lost in 16 s: complete within 15 s was promised: not after 30 s: 4 of 4 workers, no head
✔ promise kept workers-scaled in 9 s
✔ promise kept pause in 80 s

Complete again after

 drill                  promised     here   after the last heartbeat   stock KubeRay
 ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 node-dies                  45 s   35.5 s          43 s; EKS 85-95 s   not after 315 s: 3 of 4 workers (Terminating)
 head-lost                  15 s    not after 30 s: 4 of 4 workers     1.0 s
 workers-scaled 4 → 8       30 s    1.2 s                              1.5 s
 workers-scaled 8 → 2       30 s    0.8 s                              1.6 s
"""


@pytest.fixture(autouse=True)
def kept_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rehearsed, "PAGE", tmp_path / "page.md")
    return tmp_path / "page.md"


class Runs:
    """Pretends every rehearsal, and prints the same verdicts for all drills; remembers the versions that ran."""

    def __init__(self) -> None:
        self.versions: list[str] = []

    def __call__(self, arguments: Sequence[str], environments: Path) -> tuple[int, str]:
        self.versions.append(load("dev", environments).kuberay_version)
        return (0, "") if arguments[0] == "run" else (1, DRILLED)


def test_each_version_runs_the_rehearsal_and_the_drills_with_its_own_environment() -> None:
    runs = Runs()
    assert rehearsed.prove((), runs, lambda _: None) == 1
    assert runs.versions == [version for version in versions.KUBERAY_VERSIONS for _ in range(3)]


def test_a_seed_chooses_one_other_version_for_a_few_drills_and_writes_no_page(kept_page: Path) -> None:
    asked: list[list[str]] = []

    def run(arguments: Sequence[str], environments: Path) -> tuple[int, str]:
        asked.append([load("dev", environments).kuberay_version, *arguments])
        return 1, ""

    assert {rehearsed.sample(seed, run, lambda _: None) for seed in [*range(20), *range(20)]} == {1}
    assert asked[:20] == asked[20:], "the seed alone decides"
    assert {version for version, *_ in asked} == {*versions.KUBERAY_VERSIONS} - {versions.KUBERAY}
    assert {tuple(words) for _, *words in asked} == {("drill", *rehearsed.SAMPLE, "--env", "dev")}
    assert set(rehearsed.SAMPLE) <= set(rehearsed.DRILLS[0])
    assert not kept_page.exists()


def test_the_page_keeps_what_another_run_found(kept_page: Path) -> None:
    rehearsed.prove(["1.6.2"], Runs(), lambda _: None)
    rehearsed.prove(["1.3.2"], Runs(), lambda _: None)
    table = rehearsed.read(kept_page.read_text())
    assert list(table) == ["1.3.2", "1.6.2"]
    assert rehearsed.page(table) == kept_page.read_text()
    for results in table.values():
        assert results["run on"].startswith("20")
        assert results["rehearsal"] == results["pause"] == "passed"
        assert results["node-dies"] == "35.5 s, stock not after 315 s"
        assert results["workers-scaled"] == "1.2 s, stock 1.5 s; 0.8 s, stock 1.6 s"
        assert results["head-lost"] == "failed"
        assert results["operator-down"] == "not run"


def test_what_did_not_succeed_is_named() -> None:
    shown: list[str] = []
    rehearsed.prove(["1.6.2"], Runs(), shown.append)
    assert shown[0] == "KubeRay 1.6.2: the operator of module v1.6.2"
    assert shown[-1].startswith("KubeRay 1.6.2: head-node-dies, ")
    assert "head-lost" in shown[-1]
    assert "rehearsal" not in shown[-1].removesuffix("did not succeed")


def test_a_version_without_an_operator_is_refused_before_anything_runs(kept_page: Path) -> None:
    with pytest.raises(BinariesError, match=r"KubeRay 1\.7\.0 is invalid"):
        rehearsed.prove(["1.6.2", "1.7.0"], Runs(), lambda _: None)
    assert not kept_page.exists()


def test_every_row_is_a_drill_of_the_list() -> None:
    assert {row for row in rehearsed.ROWS if row != rehearsed.REHEARSAL} <= set(DRILLS)
