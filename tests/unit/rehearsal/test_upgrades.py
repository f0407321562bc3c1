"""The page of what upgrades cost a training."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

import config
from config.facts.versions import SET_DEFAULT, SETS
from rehearsal import upgrades
from rehearsal.job.scripts import PACED, STEPS, TrainingStep, steps_of
from rehearsal.upgrades import (
    COLUMNS,
    EDGES,
    EQUAL,
    NOT_RUN,
    PAGE,
    REFUSALS,
    Outcome,
    UpgradeRehearsal,
    is_right,
    longest_gap,
)

TORCH = "2.6.0+cpu"
RIGHT = {"step": 640, "loss": 0.5, "epoch": 40.0}


def test_each_edge_begins_where_the_one_before_ended_and_the_last_leads_back() -> None:
    assert all(before.after == after.before for before, after in pairwise(EDGES))
    assert EDGES[0].before.versions == EDGES[-1].after.versions == SET_DEFAULT


def test_neighbouring_sets_are_upgraded_forward_and_back_and_kubernetes_by_one_minor() -> None:
    pairs = {(edge.before.versions, edge.after.versions) for edge in EDGES}
    assert {pair for pair in pairs if pair[0] != pair[1]} == {
        *pairwise(SETS),
        *((after, before) for before, after in pairwise(SETS)),
    }
    minors = [tuple(int(each.kubernetes.partition(".")[2]) for each in edge) for edge in EDGES]
    assert [before for before, after in minors if after == before + 1] == [33, 34]


def test_the_page_has_a_row_for_each_edge() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and " → " in line]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [edge.title for edge in EDGES]
    for row in rows:
        assert row.count("|") == len(COLUMNS) + 1
        assert NOT_RUN in row or is_right(Outcome(row.split(" | ")[2], 0, 0, 0, 0)), row


def test_a_row_shows_the_outcome() -> None:
    shown = upgrades.row(EDGES[0], Outcome(EQUAL, 2, 5, 31.4, 99.6))
    assert shown.startswith("| Kubernetes 1.33 → 1.34 | 20")
    assert shown.endswith(" | equal | 2 | 5 | 31 s | 100 s |")


def test_the_page_keeps_the_rows_of_edges_that_are_not_carried_out() -> None:
    rows = {edge.title: upgrades.row(edge, Outcome(EQUAL, 1, 0, 0, 0)) for edge in reversed(EDGES)}
    text = upgrades.page(rows)
    assert upgrades.read(text) == rows
    assert list(upgrades.read(text)) == [edge.title for edge in EDGES]
    assert upgrades.read(upgrades.page({})) == {}
    assert upgrades.page({}).count(NOT_RUN) == len(EDGES)


def test_each_refusal_belongs_to_an_edge() -> None:
    assert set(REFUSALS) <= set(EDGES)


def test_a_downtime_begins_with_the_last_step_before() -> None:
    taken = [TrainingStep(at, number, "", "") for number, at in enumerate((10, 15, 40, 45))]
    assert longest_gap(taken, since=20) == 25
    assert longest_gap(taken, since=41) == 5
    assert [upgrades.reached(taken, before=at) for at in (16, 1)] == [1, 0]


def test_the_training_records_its_steps(tmp_path: Path) -> None:
    compile(PACED, "paced_ddp.py", "exec")
    file = tmp_path / f"run{STEPS}"
    assert steps_of(file) == []
    file.write_text("2.5 7 2.42.1 2.6.0+cpu\n1.5 6 2.42.1 2.6.0+cpu\n")
    assert steps_of(file) == [TrainingStep(1.5, 6, "2.42.1", TORCH), TrainingStep(2.5, 7, "2.42.1", TORCH)]


class Ended(UpgradeRehearsal):
    """A rehearsal in which the undisturbed run and another one have ended."""

    def __init__(self, directory: Path, rays: Sequence[str], torch: str, done: dict[str, float]) -> None:
        super().__init__(config.load(upgrades.ENVIRONMENT), Console(), directory)
        self._undisturbed, self._ended = dict(RIGHT), done
        self._taken = {"undisturbed": [TrainingStep(0, 1, "", TORCH)]}
        self._taken["edge"] = [
            TrainingStep(at, at, ray, used) for at, (ray, used) in enumerate(zip(rays, (TORCH, torch), strict=True))
        ]

    def _steps(self, name: str) -> list[TrainingStep]:
        return self._taken[name]

    def _done(self, _name: str) -> dict[str, float]:
        return dict(self._ended)


TO_FIXED = next(edge for edge in EDGES if edge.after.versions == "fixed")
RAYS = [SETS[each.versions].ray for each in TO_FIXED]


@pytest.mark.parametrize(
    ("rays", "torch", "loss", "result"),
    [
        (RAYS, TORCH, 0.5, EQUAL),
        (RAYS, TORCH, 0.5000001, "wrong: "),
        (RAYS, "2.11.0+cpu", 0.5, EQUAL),
        (RAYS, "2.11.0+cpu", 0.500001, "loss differs by 2e-06"),
        (RAYS, "2.11.0+cpu", 0.51, "wrong: "),
        ([RAYS[0], RAYS[0]], TORCH, 0.5, "wrong: began and ended on Ray "),
    ],
)
def test_a_result_is_that_of_an_undisturbed_run_on_the_rays_of_the_edge(
    tmp_path: Path, rays: Sequence[str], torch: str, loss: float, result: str
) -> None:
    found = Ended(tmp_path, rays, torch, RIGHT | {"loss": loss})._result("edge", TO_FIXED)
    assert found.startswith(result)
    assert is_right(Outcome(found, 1, 0, 0, 0)) == (not result.startswith("wrong"))
