"""Each rule fires on a document that breaks exactly it, and is silent on the nearest one that keeps it."""

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from config import Environment, available, load
from config.document import read
from config.findings import Severity
from config.load import DIRECTORY
from config.rules import RULES, findings
from tests.unit.rules.cases import CASES, GONE, Case, Change

EACH_CASE = [pytest.param(id, case, id=f"{id}-{n}") for id, cases in CASES.items() for n, case in enumerate(cases)]


def changed(document: Any, change: Change) -> Any:
    """A copy of the document with the change."""
    document = copy.deepcopy(document)
    for key, value in change.items():
        *way, last = key.split(".")
        place = document
        for part in way:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        if isinstance(place, list):
            place[int(last) :] = [copy.deepcopy(value), *place[int(last) + 1 :]]
        elif value is GONE:
            place.pop(last, None)
        else:
            place[last] = copy.deepcopy(value)
    return document


def given(document: Any) -> Counter[str]:
    """How often each rule fires."""
    return Counter(finding.rule for finding in findings(environment(document)))


def environment(document: Any) -> Environment:
    return Environment.model_validate_json(json.dumps(document))


@pytest.fixture(scope="module")
def dev() -> Any:
    document = read(DIRECTORY / "dev.yaml") | {"name": "dev"}
    del document["accepted_warnings"]
    return document


def test_every_rule_is_broken_and_kept_here() -> None:
    assert list(CASES) == sorted(CASES, key=lambda id: int(id[1:]))
    assert set(CASES) == {rule.id for rule in RULES}


def test_every_rule_has_an_id_of_its_own_and_says_why() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(rule.check.__doc__ for rule in RULES)


@pytest.mark.parametrize(("id", "case"), EACH_CASE)
def test_a_rule_is_silent_on_what_keeps_it(id: str, case: Case, dev: Any) -> None:
    assert id not in given(changed(dev, case.keeps))


@pytest.mark.parametrize(("id", "case"), EACH_CASE)
def test_a_rule_fires_on_what_breaks_exactly_it(id: str, case: Case, dev: Any) -> None:
    kept = changed(dev, case.keeps)
    broken = changed(kept, case.breaks)
    assert given(broken) - given(kept) == Counter({id: 1})


@pytest.mark.parametrize(("id", "case"), EACH_CASE)
def test_a_finding_names_the_key_and_what_is_allowed(id: str, case: Case, dev: Any) -> None:
    broken = environment(changed(changed(dev, case.keeps), case.breaks))
    [finding] = [each for each in findings(broken) if each.rule == id]
    assert finding.key.split(".")[0] in Environment.model_fields
    assert len(finding.message) > 10
    assert "\n" not in str(finding)


@pytest.mark.parametrize("name", available())
def test_a_committed_environment_has_only_warnings_with_a_reason(name: str) -> None:
    assert [str(finding) for finding in findings(load(name)) if not finding.accepted] == []


def test_an_accepted_warning_carries_its_reason(dev: Any) -> None:
    said = findings(environment(dev | {"accepted_warnings": {"V20": "the walkthrough's"}}))
    assert [finding.accepted for finding in said if finding.rule == "V20"] == ["the walkthrough's"]


def test_an_accepted_warning_that_is_not_given_is_a_warning(dev: Any) -> None:
    [said] = [each for each in findings(environment(dev | {"accepted_warnings": {"V15": "x"}})) if not each.rule]
    assert said.severity is Severity.WARNING
    assert str(said) == "accepted_warnings.V15: is not given any more; take it out"


@pytest.mark.parametrize("id", ["V1", "V999"])
def test_an_error_cannot_be_accepted(id: str, dev: Any) -> None:
    [said] = [each for each in findings(environment(dev | {"accepted_warnings": {id: "x"}})) if not each.rule]
    assert said.severity is Severity.ERROR
    assert "no warning has this id; allowed: V30, V8," in said.message


def test_findings_of_rules_stand_beside_values_of_a_wrong_kind(dev: Any, tmp_path: Path) -> None:
    broken = changed(
        dev,
        {
            "region": 7,
            "hyperpod.instance_groups.1.count": "four",
            "hyperpod.instance_groups.1.volume_gib": 0,
            "fsx.capacity_gib": 1300,
            "kuberay": [],
        },
    )
    broken["name"] = "broken"
    (tmp_path / "broken.yaml").write_text(json.dumps(broken))
    with pytest.raises(Exception) as refusal:  # noqa: PT011  the list below is the whole message
        load("broken", tmp_path)
    assert [line.split(": ", 1)[1] for line in str(refusal.value).splitlines()] == [
        'region: got 7; allowed: text; write it in quotes: "7"',
        "hyperpod.instance_groups.1 (worker-group-1).count: got 'four'; allowed: a whole number",
        "kuberay: got a list; allowed: a mapping of keys to values",
        "hyperpod.instance_groups.1 (worker-group-1).volume_gib: 0; allowed: 1 to 16384 [V18]",
        "fsx.capacity_gib: 1300; allowed: 1200 or a multiple of 2400 [V9]",
    ]
