"""A fault of any action, before or after its effect, leaves nothing behind, loses nothing, and can be retried."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from embedded_account.cloudformation.templates.resource_types import resource_types
from embedded_account.context import Account
from embedded_account.testing.clients import NODE_MODULES, Clients
from tests.support.sampling import drawing, seed
from tests.synth.support.faults import page
from tests.synth.support.faults.apps import APPS, assembly_of
from tests.synth.support.faults.cases import Case, all_cases, matrix
from tests.synth.support.faults.walk import Result, Walk
from tests.synth.support.faults.world import World
from tests.synth.support.synthesis import Assemblies, Assembly

SAMPLE = 40

Tried = Callable[[Assembly, list[Case]], list[Result]]


@pytest.fixture
def app(assembly: Assemblies, tmp_path: Path) -> Callable[[str], Assembly]:
    return lambda name: assembly_of(name, assembly, tmp_path)


@pytest.fixture
def tried(account: Account, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Tried:
    return lambda made, cases: Walk(World(account, clients, made, monkeypatch), cases).run()


def cases_of(name: str, made: Assembly) -> list[Case]:
    return all_cases(name, made.templates, resource_types(NODE_MODULES))


def test_sample_of_faults_leaves_nothing_and_can_be_retried(app: Callable[[str], Assembly], tried: Tried) -> None:
    draw = drawing("faults")
    name = draw.choice(APPS)
    made = app(name)
    chosen = draw.sample(matrix(cases_of(name, made), draw), SAMPLE)
    assert violations(tried(made, chosen)) == []


@pytest.mark.long
def test_each_action_on_each_type_can_fail_before_and_after_its_effect(
    app: Callable[[str], Assembly], tried: Tried
) -> None:
    """Try each once, in one of the apps. With WRITE_RESULTS, write the page of the results."""
    made = {name: app(name) for name in APPS}
    everything = [case for name in APPS for case in cases_of(name, made[name])]
    chosen = matrix(everything, drawing("faults"))
    results = [result for name in APPS for result in tried(made[name], [case for case in chosen if case.app == name])]
    if "WRITE_RESULTS" in os.environ:
        page.write(results, seed=seed(), drawn=len(chosen), product=len(everything), apps=APPS)
    assert violations(results) == []


def violations(results: list[Result]) -> list[str]:
    return [f"{each.case}: {each.violation}" for each in results if each.violation]
