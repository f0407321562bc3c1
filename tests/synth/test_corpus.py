"""Review pairs of assemblies whose verdicts were written before the rules."""

import copy
import fcntl
import hashlib
import importlib
import json
import os
import pkgutil
from collections import Counter
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from config import load
from ops.gate.decision import decide
from ops.review.assembly import Assembly, Pair
from ops.review.model import Change, Danger, Effect, Verdict
from ops.review.verdict import verdict_on
from tests.synth import corpus
from tests.synth.corpus.cases import CASES, Case, Category, Document
from tests.synth.corpus.editing import Edit
from tests.synth.corpus.editing import copy as copied
from tests.synth.support.synthesis import REPOSITORY, Assemblies, synthesise

for module in pkgutil.iter_modules(corpus.__path__):
    importlib.import_module(f"{corpus.__name__}.{module.name}")

Pairs = Callable[[Case], Pair]
Synthesised = Callable[[Document], Path]


@pytest.fixture(scope="session")
def synthesised(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    """Return a function that returns the assembly of an environment's document, synthesised once for all workers."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "documents"
    shared.mkdir(exist_ok=True)

    def of(document: Document) -> Path:
        text = json.dumps(document, sort_keys=True)
        place = shared / hashlib.sha256(text.encode()).hexdigest()[:16]
        with (shared / f"{place.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            made = place / "made"
            if not made.exists():
                place.mkdir(exist_ok=True)
                (place / "dev.yaml").write_text(json.dumps(document))
                made.write_text(str(synthesise(load("dev", place), place).directory))
            return Path(made.read_text())

    return of


@pytest.fixture(scope="session")
def pairs(assembly: Assemblies, synthesised: Synthesised, tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    """Return a function that returns a case's pair."""

    def of(case: Case) -> Pair:
        if case.file:
            base, head = (_document(each) for each in (case.base_file, case.file))
            before = synthesised(base) if case.base_file else assembly(case.environment).directory
            return Pair(case.environment, Assembly(before), Assembly(synthesised(head)))
        scratch = tmp_path_factory.mktemp("pair")
        sides = {"base": [case.prepare], "head": [case.prepare, case.edit]}
        for side, edits in sides.items():
            copied(assembly(case.environment).directory, scratch / side)
            if given := [each for each in edits if each]:
                edit = Edit(scratch / side)
                for each in given:
                    each(edit)
                edit.save()
        base_side = None if case.new else Assembly(scratch / "base")
        return Pair(case.environment, base_side, Assembly(scratch / "head"))

    return cache(of)


def _document(change: Callable[[Document], None] | None) -> Document:
    document: Document = copy.deepcopy(_written())
    if change:
        change(document)
    return document


@cache
def _written() -> Document:
    return dict(yaml.safe_load((REPOSITORY / "tests" / "environments" / "dev.yaml").read_text()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pair_gets_the_verdict_that_was_written_for_it(case: Case, pairs: Pairs) -> None:
    changes: tuple[Change, ...] = verdict_on(pairs(case)).changes
    shown = "\n".join(f"  {change}" for change in changes)
    stopped = [each for each in changes if (each.dangers and not each.confirmed_by) or each.effect is Effect.UNKNOWN]
    assert bool(stopped) == case.stop, shown
    for expected in case.changes:
        assert any(expected.met_by(change) for change in changes), f"{expected} is missing:\n{shown}"
    assert not [each for each in changes if each.effect.rank < case.worst.rank], shown


@pytest.mark.parametrize("case", [each for each in CASES if each.costs], ids=lambda case: case.name)
def test_a_pair_costs_what_was_written_for_it(case: Case, pairs: Pairs) -> None:
    verdict = verdict_on(pairs(case))
    assert case.costs
    assert verdict.before
    assert verdict.after
    least, most = case.costs.usd_per_hour
    assert least <= verdict.after.usd_per_hour - verdict.before.usd_per_hour <= most
    assert verdict.after.gpus - verdict.before.gpus == case.costs.gpus


@pytest.mark.parametrize("case", [each for each in CASES if each.environment == "slurm"], ids=lambda case: case.name)
def test_the_gate_stops_the_dangerous_changes_of_a_slurm_environment_alone(case: Case, pairs: Pairs) -> None:
    decision = decide(Verdict((verdict_on(pairs(case)),)), {}, date(2026, 1, 1))
    assert decision.opens is not case.stop


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pair_differs(case: Case, pairs: Pairs) -> None:
    pair = pairs(case)
    assert pair.base is None or _texts(pair.base.directory) != _texts(pair.head.directory)


def _texts(directory: Path) -> dict[str, Any]:
    """Return templates and manifest.json as they are written, so that an order of keys counts."""
    paths = [directory / "manifest.json", *directory.glob("*.template.json")]
    return {path.name: json.dumps(json.loads(path.read_text())) for path in paths}


def test_each_name_is_unique() -> None:
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []


def test_half_of_the_pairs_stop() -> None:
    assert sum(case.stop for case in CASES) * 2 == len(CASES) >= 42


@pytest.mark.parametrize("category", Category)
def test_each_category_has_pairs_of_both_kinds(category: Category) -> None:
    stops = Counter(case.stop for case in CASES if case.category is category)
    assert stops[True] >= 2
    assert stops[False] >= 1


def test_each_danger_has_a_pair() -> None:
    assert {danger for case in CASES for each in case.changes for danger in each.dangers} == set(Danger)


@pytest.mark.parametrize("case", [case for case in CASES if case.stop], ids=lambda case: case.name)
def test_a_pair_that_stops_names_its_danger_or_an_unknown_effect(case: Case) -> None:
    assert [each for each in case.changes if each.dangers or each.effects == {Effect.UNKNOWN}]
