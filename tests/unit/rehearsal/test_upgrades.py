"""The page of what upgrades cost a training."""

from itertools import pairwise
from pathlib import Path

import pytest

from config.facts import versions
from rehearsal import upgrades
from rehearsal.upgrades import COLUMNS, EDGES, PAGE, Outcome, Progress


def test_each_edge_begins_where_the_one_before_ended_and_the_last_leads_back() -> None:
    assert all(before.kuberay[1] == after.kuberay[0] for before, after in pairwise(EDGES))
    assert EDGES[0].kuberay[0] == EDGES[-1].kuberay[1] == versions.KUBERAY


def test_the_page_has_a_row_for_each_edge() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| KubeRay")]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [edge.title for edge in EDGES]
    assert all(row.count("|") == len(COLUMNS) + 1 and "| right |" in row for row in rows)


def test_a_row_shows_the_outcome() -> None:
    shown = upgrades.page({EDGES[0]: Outcome("right", 2, 5, 31.4, 99.6)}).splitlines()[-1]
    assert shown.startswith(f"| {EDGES[0].title} | 20")
    assert shown.endswith(" | right | 2 | 5 | 31 s | 100 s |")


def test_a_pause_begins_with_the_last_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Progress(tmp_path)
    monkeypatch.setattr(progress, "_seen", {5: 10.0, 10: 15.0, 15: 40.0, 20: 45.0})
    assert progress.pause(since=20) == 25
    assert progress.pause(since=41) == 5
    assert (progress.last, progress.reached(16), progress.reached(1)) == (20, 10, 0)
